"""Recovery 20, 21 and 25: verify --deep holds the records of a run against one another, and names every difference."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import blake2b

import msgspec
import pytest
from workspaces import (
    begin_session_like,
    close_with_count,
    ends_on_record,
    leave_results,
    planned_run,
    result_path,
    workspace_eval,
)

from durable import begin_run, commit, finish_trials, segment_paths
from holdfast.journal import BLOB_BYTES
from holdfast.run.core.codec import Envelope
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import AnswerRecord, ScoreRecord, Status, StepRecord, TrialRecord
from holdfast.run.core.result_file import write_result_file
from holdfast.storage import RealFileSystem


@pytest.fixture
def ran(tmp_path, text):
    """A run of six trials, carried out for real."""
    eval_file = workspace_eval(tmp_path, {"code": 4, "docs": 2})
    assert text("run", eval_file, "--run-dir", tmp_path / "run")[0] == 0
    return tmp_path / "run"


@pytest.fixture
def planned(tmp_path):
    """A run of two planned trials in which nothing is on record yet, and how its trials will have ended."""
    ends = planned_run(workspace_eval(tmp_path, {"code": 2}), tmp_path / "run")
    return tmp_path / "run", ends


def record(root, *records, claimed=None):
    """Records in a session of their own; `claimed` is how many trials are finished by its end, where that is untrue."""
    session = begin_session_like(root)
    for item in records:
        session.sink.append(item)
    if claimed is None:
        session.close("interrupted", 130)
    else:
        close_with_count(session, claimed)


def whole(end: TrialRecord) -> list:
    """Everything that a valid trial has on record."""
    scores = [ScoreRecord(trial=end.trial, attempt=1, scorer=name, value=value) for name, value in end.scores.items()]
    return [AnswerRecord(trial=end.trial, attempt=1, text="x"), *scores, end]


def details(result):
    return [(item["kind"], item["detail"]) for item in result["damage"]]


def test_recovery_20_a_run_that_was_carried_out_is_sound_to_the_bottom(ran, told, text):
    """Nothing differs; the grid and the plan are counted against each other."""
    code, result = told("verify", ran, "--deep")
    assert (code, result["ok"], result["damage"]) == (0, True, [])
    assert (result["finished"], result["planned"], result["grid"], result["results"]) == (6, 6, 6, 0)
    assert "6 trials in the planned grid" in text("verify", ran, "--deep")[1]


def test_recovery_20_a_run_with_files_is_sound_to_the_bottom(tmp_path, planned, told):
    """Result files that say the same, and artifacts with the content that is cited."""
    root, ends = planned
    path = write_result_file(RealFileSystem(), Layout(root), ends[0])
    digest = blake2b(path.read_bytes(), digest_size=16).hexdigest()
    cited = msgspec.structs.replace(ends[0], artifacts={"result.json": digest})
    record(root, *whole(cited))
    code, result = told("verify", root, "--deep")
    assert (code, result["artifacts"], result["results"]) == (0, 1, 1)


def test_recovery_20_a_killed_run_is_sound_to_the_bottom(planned, told):
    """Steps without an answer, an answer without a score, a torn tail: all that a crash leaves."""
    root, ends = planned
    session = begin_session_like(root)
    session.sink.append(StepRecord(trial=ends[0].trial, attempt=1, step="a"))
    session.sink.append(AnswerRecord(trial=ends[0].trial, attempt=1, text="x"))
    commit(session, StepRecord(trial=ends[1].trial, attempt=1, step="a"))
    session.abandon()
    path = segment_paths(root)[-1]
    path.write_bytes(path.read_bytes()[:-3])
    assert told("verify", root, "--deep")[0] == 0


def test_recovery_21_a_step_whose_parent_is_not_there_is_named(planned, told):
    root, ends = planned
    key = ends[0].trial
    steps = [StepRecord(trial=key, attempt=1, step="a"), StepRecord(trial=key, attempt=1, step="b", parent="a")]
    record(root, *steps, StepRecord(trial=key, attempt=2, step="c", parent="b"))
    code, result = told("verify", root, "--deep")
    assert (code, details(result)) == (1, [("missing", "1 trials have a step whose parent is not recorded")])
    assert result["damage"][0]["keys"] == [key]
    assert told("verify", root)[0] == 0


def test_recovery_21_several_kinds_of_missing_records_are_all_named(planned, told, text):
    """They have one place, the journal, and are three findings."""
    root, ends = planned
    step = StepRecord(trial=ends[1].trial, attempt=1, step="c", parent="b")
    record(root, step, ends[0], msgspec.structs.replace(ends[1], scores={}))
    code, result = told("verify", root, "--deep")
    assert (code, details(result)) == (
        1,
        [
            ("missing", "1 trials have a step whose parent is not recorded"),
            ("missing", "2 trials are valid but have no recorded answer"),
            ("missing", "2 trials are valid but a planned score is missing"),
        ],
    )
    assert result["damage"][0]["keys"] == [ends[1].trial]
    assert all(item["detail"] in text("verify", root, "--deep")[1] for item in result["damage"])


def test_recovery_21_a_valid_trial_without_an_answer_is_named(planned, told):
    """Except one that was taken from a result file, which holds none."""
    root, ends = planned
    artifact = msgspec.structs.replace(ends[1], source="artifact")
    record(root, *whole(ends[0])[1:], *whole(artifact)[1:])
    code, result = told("verify", root, "--deep")
    assert (code, details(result)) == (1, [("missing", "1 trials are valid but have no recorded answer")])
    assert result["damage"][0]["keys"] == [ends[0].trial]


@pytest.mark.parametrize("lost", ["the score", "the word of the trial"])
def test_recovery_21_a_valid_trial_without_a_planned_score_is_named(planned, told, lost):
    root, ends = planned
    answer, score, end = whole(ends[0])
    if lost == "the score":
        record(root, answer, end)
    else:
        record(root, answer, score, msgspec.structs.replace(end, scores={}))
    code, result = told("verify", root, "--deep")
    assert (code, details(result)) == (1, [("missing", "1 trials are valid but a planned score is missing")])


def test_recovery_21_limited_and_blocked_trials_need_neither(planned, told):
    """They are finished without an answer and without a score."""
    root, ends = planned
    limited = msgspec.structs.replace(ends[0], status=Status.LIMITED, scores={}, limit="time")
    blocked = msgspec.structs.replace(ends[1], status=Status.BLOCKED, scores={})
    record(root, limited, blocked)
    assert told("verify", root, "--deep")[0] == 0


def test_recovery_21_a_score_that_the_scorer_did_not_give_is_named(planned, told):
    root, ends = planned
    answer, score, end = whole(ends[0])
    record(root, answer, msgspec.structs.replace(score, value=0.25), end)
    code, result = told("verify", root, "--deep")
    assert (code, details(result)) == (1, [("conflict", "1 trials have a different score than the scorer gave")])


def test_recovery_21_a_score_of_a_scorer_that_is_not_planned_is_named(planned, told):
    root, ends = planned
    stranger = ScoreRecord(trial=ends[0].trial, attempt=1, scorer="vibes", value=1.0)
    record(
        root,
        *whole(ends[0]),
        stranger,
        ScoreRecord(trial=ends[1].trial, attempt=1, scorer="exact", value=1.0),
    )
    code, result = told("verify", root, "--deep")
    assert (code, len(result["damage"])) == (1, 1)
    assert "'vibes', which is not a planned scorer of the task 'code'" in result["damage"][0]["detail"]


def test_recovery_21_a_trial_outside_of_the_grid_is_named(planned, told):
    """A finished trial that nobody planned does not make a run complete unnoticed."""
    root, ends = planned
    record(root, *whole(msgspec.structs.replace(ends[0], trial="f" * 20)), *whole(ends[1]))
    code, result = told("verify", root, "--deep")
    assert (code, details(result)) == (1, [("count", "1 trials are recorded but not part of the planned grid")])
    assert result["damage"][0]["keys"] == ["f" * 20]


def test_recovery_21_a_group_with_more_trials_than_planned_is_named(planned, told):
    """Also where the total is not exceeded."""
    root, ends = planned
    record(root, *whole(msgspec.structs.replace(ends[0], task="essays")))
    _, result = told("verify", root, "--deep")
    assert ("count", "1 trials of 'essays' with 'm' are finished, 0 are planned") in details(result)


def test_recovery_21_a_plan_that_does_not_add_up_is_named(planned, told):
    root, _ = planned
    session = begin_session_like(root, planned=5)
    session.close("interrupted", 130)
    code, result = told("verify", root, "--deep")
    assert code == 1
    assert details(result) == [
        ("count", "session 2 planned 5 trials, its tasks and models 2"),
        ("count", "the inputs make a grid of 2 trials, 5 are planned"),
    ]


def test_recovery_21_inputs_that_do_not_allow_the_grid_are_said(planned, told):
    """What cannot be compared is told, and named as damage only for what it is."""
    root, ends = planned
    record(root, *whole(ends[0]))
    (copy,) = (root / "inputs").iterdir()
    copy.unlink()
    code, result = told("verify", root, "--deep")
    assert (code, [item["where"] for item in result["damage"]]) == (1, [f"inputs/{copy.name}"])
    assert "grid could not be computed" in result["notes"][-1]


def test_recovery_21_an_artifact_with_other_content_is_named(planned, told):
    root, ends = planned
    directory = root / "artifacts" / ends[0].trial
    directory.mkdir()
    (directory / "diff").write_text("+1")
    digest = blake2b(b"+1", digest_size=16).hexdigest()
    record(root, *whole(msgspec.structs.replace(ends[0], artifacts={"diff": digest})))
    assert told("verify", root, "--deep")[0] == 0
    (directory / "diff").write_text("+2")
    code, result = told("verify", root, "--deep")
    assert (code, result["damage"][0]["where"]) == (1, f"artifacts/{ends[0].trial}/diff")
    assert result["damage"][0]["kind"] == "changed"


def test_recovery_21_result_files_are_held_against_the_journal(planned, told):
    """A defective one, one that contradicts, and one that the journal lacks."""
    root, ends = planned
    record(root, *whole(ends[0]), StepRecord(trial=ends[1].trial, attempt=2, step="a"))
    leave_results(root, [msgspec.structs.replace(ends[0], scores={"exact": 0.125}), ends[1]])
    _, result = told("verify", root, "--deep")
    assert {item["kind"]: item["keys"] for item in result["damage"]} == {
        "conflict": [ends[0].trial],
        "count": [ends[1].trial],
    }
    result_path(root, ends[0]).write_bytes(b"{")
    _, result = told("verify", root, "--deep")
    assert {item["kind"] for item in result["damage"]} == {"unreadable", "count"}


def test_recovery_21_several_differences_are_named_one_by_one(planned, told, text):
    """Every kind of difference has a line of its own, also in the text."""
    root, ends = planned
    answer, _, end = whole(ends[0])
    record(
        root,
        answer,
        end,
        *whole(ends[1])[1:],
        StepRecord(trial=ends[1].trial, attempt=1, step="b", parent="a"),
        claimed=1,
    )
    code, result = told("verify", root, "--deep")
    assert (code, len(result["damage"])) == (1, 4)
    _, said = text("verify", root, "--deep")
    assert all(item["detail"] in said for item in result["damage"])


def test_a_scorer_that_was_added_later_is_no_damage(tmp_path, ran, told, text):
    """Trials that ended before lack its score until a session has given it; neither state is damage."""
    eval_file = workspace_eval(tmp_path, {"code": 4, "docs": 2}, scorers=["exact", "includes"])
    session = begin_session_like(ran)
    session.abandon()
    assert told("verify", ran, "--deep")[0] == 0
    assert text("resume", ran, "--config", eval_file)[0] == 0
    code, result = told("verify", ran, "--deep")
    assert (code, result["by_type"]["score"]) == (0, 12)


LONG = 200 << 20


@pytest.fixture
def long_run(tmp_path):
    """A run with a transcript of 200 MB in one step of one trial; made without holding it either."""
    root = tmp_path / "run"
    session = begin_run(root)
    head = b'{"type":"step","trial":"t1","attempt":1,"step":"b","name":"generate","parent":"a","result":"'
    piece, tail = b"all work and no play " * 50_000, b'"}'
    digest = blake2b(digest_size=16)
    with (root / "blobs" / "new").open("wb") as stream:
        for part in (head, *[piece] * (LONG // len(piece)), tail):
            digest.update(part)
            stream.write(part)
        size = stream.tell()
    (root / "blobs" / "new").rename(root / "blobs" / digest.hexdigest())
    session.sink.append(StepRecord(trial="t1", attempt=1, step="a"))
    cited = Envelope(type="step", trial="t1", blob=digest.hexdigest(), size=size)
    session.sink.journal.queue.commit(msgspec.json.encode(cited), "t1")
    finish_trials(session, "t2")
    session.close("interrupted", 130)
    return root, size


MEASURED = """
import resource, sys
from holdfast.cli import main
try:
    main()
finally:
    sys.stderr.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
"""


def peak_bytes(*words, out=subprocess.DEVNULL) -> tuple[int, int]:
    """The exit code of a verb, and the most memory that it had."""
    command = [sys.executable, "-c", MEASURED, *map(str, words)]
    done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, check=False, timeout=120)
    return done.returncode, int(done.stderr.split()[-1]) << 10


def test_recovery_25_a_transcript_of_200_mb_is_verified_and_printed_without_being_held(tmp_path, long_run):
    """verify, verify --deep and cat need no more memory for it than for a short one."""
    root, size = long_run
    short = begin_run(tmp_path / "short")
    finish_trials(short, "t2")
    short.close("interrupted", 130)
    for words in (("verify",), ("verify", "--deep")):
        _, base = peak_bytes(words[0], tmp_path / "short", *words[1:])
        code, peak = peak_bytes(words[0], root, *words[1:])
        print(words, code, base, peak)
        assert code == 0
        assert peak - base < 40 << 20
    _, base = peak_bytes("cat", tmp_path / "short")
    with (tmp_path / "out").open("wb") as stream:
        code, peak = peak_bytes("cat", root, out=stream)
    print("cat", code, base, peak)
    assert code == 0
    assert peak - base < 40 << 20
    assert (tmp_path / "out").stat().st_size > size
    (tmp_path / "out").unlink()


def test_recovery_25_the_parent_of_a_step_in_a_blob_is_checked(tmp_path, told):
    """A record that is stored as a blob takes part in the comparison like any other."""
    session = begin_run(tmp_path / "run")
    long = os.urandom(BLOB_BYTES // 2).hex()
    session.sink.append(StepRecord(trial="t1", attempt=1, step="b", parent="a", result=long))
    session.sink.append(AnswerRecord(trial="t1", attempt=1, text=long))
    session.sink.append(ScoreRecord(trial="t1", attempt=1, scorer="exact", value=1.0, metadata={"why": long}))
    commit(session, TrialRecord(trial="t1", attempt=1, status=Status.VALID, scores={"exact": 1.0}))
    session.close("interrupted", 130)
    _, result = told("verify", tmp_path / "run", "--deep")
    assert result["blobs"] == 3
    assert details(result) == [("missing", "1 trials have a step whose parent is not recorded")]


def test_the_answer_of_an_earlier_attempt_serves_the_one_that_is_kept(planned, told):
    root, ends = planned
    end = msgspec.structs.replace(ends[0], attempt=2)
    failed = msgspec.structs.replace(ends[0], status=Status.FAILED, scores={})
    record(root, *whole(ends[0])[:2], failed, end)
    assert told("verify", root, "--deep")[0] == 0
    assert len(ends_on_record(root)) == 2


PYTHON_TASK = """
from holdfast import Sample, Task, generate, exact, task

@task
def t() -> Task:
    samples = [Sample(f"q{number}", target="x", id=f"s{number}") for number in range(3)]
    return Task(samples=samples, solver=generate(), scorers=exact(), epochs=EPOCHS, axes={"tier": ["a", "b"]})
"""


def test_recovery_21_the_grid_of_a_python_task_is_the_one_that_was_planned(tmp_path, told, text):
    """Its code may ask for more by now; what the run asked for is on record."""
    (tmp_path / "task.py").write_text(PYTHON_TASK.replace("EPOCHS", "2"))
    assert text("run", tmp_path / "task.py", "--model", "scripted/echo", "--run-dir", tmp_path / "run")[0] == 0
    for epochs in ("2", "5", "1"):
        (tmp_path / "task.py").write_text(PYTHON_TASK.replace("EPOCHS", epochs))
        code, result = told("verify", tmp_path / "run", "--deep")
        assert (code, result["grid"], result["planned"]) == (0, 12, 12)
    (tmp_path / "task.py").unlink()
    code, result = told("verify", tmp_path / "run", "--deep")
    assert (code, result["grid"]) == (0, 12)
