"""`resume --where` and `resume --redo`: what is run, what counts meanwhile, and how it exits."""

from __future__ import annotations

import json
import signal

import pytest

from evals import http_eval, python_eval, write_dataset, write_eval
from program import until

LIMITED_TASK = """
from pathlib import Path
from holdfast import Sample, Task, exact, task, TrialLimits

async def solve(trial):
    if Path("broken").exists():
        raise ValueError("my bug")
    text = (await trial.generate(trial.sample.input)).text
    if Path("long").exists():
        await trial.generate("more")
    return text

@task
def t():
    samples = [Sample(name, target=name, id=name) for name in ("a", "b", "c")]
    return Task(samples=samples, solver=solve, scorers=exact(), limits=TrialLimits(tokens=2))
"""


@pytest.fixture
def redone(holdfast, tmp_path):
    """A complete run of a task whose behaviour a file decides."""
    (tmp_path / "own.py").write_text(LIMITED_TASK)
    data = {
        "name": "redo",
        "models": {"m": {"provider": "scripted", "model": "echo"}},
        "tasks": {"t": {"use": "own.py:t"}},
        "max_retries": 0,
    }
    holdfast("run", write_eval(tmp_path, data), "--run-dir", "r", code=0)
    return holdfast


def rows(holdfast):
    return {row["sample"]: row for row in holdfast.json("show", "r", code=0)["trials"]}


def test_a_redo_that_ends_limited_has_no_score_of_the_attempt_before(redone, tmp_path):
    """The new end counts, and with it nothing that belongs to the old answer."""
    (tmp_path / "long").touch()
    redone("resume", "r", "--redo", "sample=a", code=0)
    row = rows(redone)["a"]
    assert (row["state"], row["answer"], row["scores"], row["attempt"]) == ("limited", None, {}, 2)
    report = redone.json("report", "r", code=0)
    assert report["tasks"]["t"]["m"]["metrics"]["exact"]["accuracy"]["n_trials"] == 2
    assert redone.json("verify", "r", "--deep", code=0)["ok"]


def test_a_redo_that_fails_leaves_the_result(redone, tmp_path):
    """The earlier result stands, the exit code says that the redo failed, and so does a sentence."""
    (tmp_path / "broken").touch()
    before = rows(redone)
    told = redone("resume", "r", "--redo", "sample=a", code=1)
    assert "1 got no new result; they keep their results" in told.err
    after = rows(redone)["a"]
    assert {**after, "attempts": 1, "seconds": 0} == {**before["a"], "attempts": 1, "seconds": 0}
    assert redone.json("status", "r")["state"] == "complete"


def test_where_and_redo_together(redone, tmp_path):
    """Of the remaining trials only some, and some once more, whatever state they are in."""
    (tmp_path / "broken").touch()
    redone("fork", "r", "--run-dir", "f", "--set", "tasks.t.epochs=2", code=0)
    redone("resume", "f", "--where", "epoch=2 and sample=a", code=1)
    (tmp_path / "broken").unlink()
    redone("resume", "f", "--where", "epoch=2 and sample=b", "--redo", "status=failed", code=0)
    states = {(row["sample"], row["epoch"]): row["state"] for row in redone.json("show", "f")["trials"]}
    assert {key for key in states if key[1] == 2} == {("a", 2), ("b", 2)}
    assert set(states.values()) == {"valid"}
    assert redone.json("status", "f")["remaining_by_reason"] == {"not started": 1}


def test_where_sees_a_scorer_that_is_offered_with_it(holdfast, server, tmp_path):
    """Trials that a new scorer has yet to judge are selected by the plan that is offered."""
    eval_file = http_eval(tmp_path, server.base_url, 3)
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    http_eval(tmp_path, server.base_url, 3, task={"scorers": ["exact", "includes"]})
    holdfast("resume", "r", "--config", eval_file, "--where", "sample=s1 and reason='not scored'", code=0)
    assert holdfast.json("status", "r")["remaining_by_reason"] == {"not scored": 2}
    holdfast("resume", "r", code=0)
    assert holdfast.json("status", "r")["state"] == "complete"


def test_an_interrupt_of_a_redo_says_so(holdfast, server, tmp_path):
    """Nothing remains, and yet not all that was asked for was done."""
    holdfast("run", http_eval(tmp_path, server.base_url, 4), "--run-dir", "r", code=0)
    server.behave(latency=30)
    redo = holdfast.start("resume", "r", "--redo", "status=valid")
    server.wait_for(received=8)
    redo.send(signal.SIGINT)
    until(lambda: "to stop immediately" in redo.told(), "the signal was taken")
    redo.send(signal.SIGINT)
    ended = redo.wait()
    assert ended.code == 130, ended
    status = holdfast.json("status", "r")
    assert (status["state"], status["valid"], status["sessions"][-1]["ended_as"]) == ("complete", 4, "interrupted")


def test_an_expression_that_matches_nothing_writes_nothing(holdfast, server, tmp_path):
    """Also one with a mistake, which is shown with its column."""
    holdfast("run", http_eval(tmp_path, server.base_url, 2), "--run-dir", "r", code=0)
    before = sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "r" / "journal").iterdir())
    for option in ("--where", "--redo"):
        assert "matches no trial" in holdfast("resume", "r", option, "status=failed", code=2).err
        wrong = holdfast("resume", "r", option, "task=t and smaple=s1", code=2)
        assert f"{option}: unknown field" in wrong.err and "column 12" in wrong.err
    assert sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "r" / "journal").iterdir()) == before
    assert json.loads(holdfast("show", "r", "--where", "status=failed", "--json", code=2).out)["kind"]


def test_a_redo_keeps_the_earlier_attempts(holdfast, server, tmp_path):
    """Every attempt stays on record; what was spent counts all of them."""
    source = """
from holdfast import Sample, Task, exact, task, generate
@task
def t():
    return Task(samples=[Sample("a", target="A", id="a")], solver=generate(), scorers=exact())
"""
    holdfast("run", python_eval(tmp_path, server.base_url, source), "--run-dir", "r", code=0)
    once = holdfast.json("status", "r")["usage"]["input_tokens"]
    holdfast("resume", "r", "--redo", "sample=a", code=0)
    assert [record["attempt"] for record in holdfast.records("r", "trial")] == [1, 2]
    (row,) = holdfast.json("show", "r")["trials"]
    assert (row["attempt"], row["attempts"]) == (2, 2)
    assert holdfast.json("status", "r")["usage"]["input_tokens"] == 2 * once


def test_the_selected_trials_decide_the_exit_code(redone, tmp_path):
    """Not those that are run again beside them: neither a success of those nor a missing score of others counts."""
    (tmp_path / "own.py").write_text(LIMITED_TASK.replace('Path("broken")', 'Path(f"broken-{trial.sample.id}")'))
    data = {
        "name": "decide",
        "models": {"m": {"provider": "scripted", "model": "echo"}},
        "tasks": {"t": {"use": "own.py:t"}},
        "max_retries": 0,
    }
    for name in "abc":
        (tmp_path / f"broken-{name}").touch()
    redone("run", write_eval(tmp_path, data), "--run-dir", "d", code=1)
    (tmp_path / "broken-a").unlink()
    (tmp_path / "broken-c").unlink()
    told = redone("resume", "d", "--where", "sample=a or sample=b", "--redo", "sample=c", code=1)
    assert "finished with failures" in told.out
    # A failed trial is selected, and is not run unless it is to be run again.
    told = redone("resume", "d", "--where", "sample=a", code=1)
    assert "nothing to run; 1 of 1 selected trials remain: 1 of 3 trials finished" in told.out
    redone("resume", "d", "--where", "sample=a", "--redo", "status=failed and sample=a", code=0)


def test_a_selected_trial_that_only_lacked_a_score_and_is_run_again_is_finished(holdfast, tmp_path):
    """It is valid afterwards, with both scores, and the exit code says so."""
    write_dataset(tmp_path, 2)
    task = {"dataset": "rows", "prompt": "{question}", "target": "{question}", "scorers": ["exact"]}
    data = {
        "name": "lacking",
        "models": {"m": {"provider": "scripted", "model": "echo"}},
        "datasets": {"rows": {"path": "rows.jsonl"}},
        "tasks": {"t": task},
    }
    holdfast("run", write_eval(tmp_path, data), "--run-dir", "r", code=0)
    task["scorers"] = ["exact", "includes"]
    killed = holdfast("resume", "r", "--config", write_eval(tmp_path, data), HOLDFAST_CRASH_AT="frame.acknowledged")
    assert killed.code == -signal.SIGKILL
    sample = holdfast.json("show", "r", code=0)["trials"][0]["sample"]
    where = f"sample='{sample}'"
    holdfast("resume", "r", "--where", where, "--redo", where, code=0)
    row = next(row for row in holdfast.json("show", "r", code=0)["trials"] if row["sample"] == sample)
    assert (row["state"], sorted(row["scores"])) == ("valid", ["exact", "includes"])


@pytest.mark.parametrize("earlier", [0, 1])
def test_every_redo_has_all_the_retries_of_the_task(holdfast, tmp_path, earlier):
    """However many attempts there were before."""
    (tmp_path / "own.py").write_text(LIMITED_TASK)
    (tmp_path / "broken").touch()
    data = {
        "name": "again",
        "models": {"m": {"provider": "scripted", "model": "echo"}},
        "tasks": {"t": {"use": "own.py:t"}},
        "max_retries": 2,
        "fail_fast": False,
    }
    if not earlier:
        (tmp_path / "broken").unlink()
    holdfast("run", write_eval(tmp_path, data), "--run-dir", "r", "--sample-id", "a", code=earlier)
    (tmp_path / "broken").touch()
    before = len(holdfast.records("r", "trial"))
    for redo in (1, 2):
        holdfast("resume", "r", "--redo", "sample=a", code=1)
        assert len(holdfast.records("r", "trial")) == before + 3 * redo


SECOND_CHANCE = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    return (await trial.generate(trial.sample.input)).text

@task
def t():
    samples = [Sample(name, target=target, id=name) for name, target in (("a", "a"), ("b", "x"), ("c", "x"))]
    return Task(samples=samples, solver=solve, scorers=exact())
"""
BY_NAME = "run again by name: the scores above are not those of first attempts"
RUN_AGAIN = "run again because of their {}: the scores above are not those of first attempts"


@pytest.fixture
def scored(holdfast, tmp_path):
    """A complete run in which two of three answers are wrong."""
    (tmp_path / "own.py").write_text(SECOND_CHANCE)
    models = {"m": {"provider": "scripted", "model": "echo"}}
    data = {"name": "redo", "models": models, "tasks": {"t": {"use": "own.py:t"}}}
    holdfast("run", write_eval(tmp_path, data), "--run-dir", "r", code=0)
    return holdfast


def redone_of(holdfast, run="r"):
    report = holdfast.json("report", run, code=0)
    return report["redone"]["by_scores"], report["redone"]["by_other_results"], report["notes"]


def test_scores_of_trials_that_were_selected_by_their_scores_are_said_not_to_be_of_first_attempts(scored):
    """Asking only the wrong answers again gives a model a second chance: whoever reads the scores is told."""
    note = f"2 trials were {RUN_AGAIN.format('scores')}"
    assert f"note: {note}" in scored("resume", "r", "--redo", "exact<1", code=0).out
    assert redone_of(scored) == (2, 0, [note])
    assert note in scored("report", "r", code=0).out
    # From the journal: in every later session, in a fork, and after the answers were scored anew.
    told = scored.json("resume", "r", code=0)
    assert told["notes"] == [note]
    assert told["redone"]["by_scores"] == 2
    scored("fork", "r", "--run-dir", "f", code=0)
    assert redone_of(scored, "f") == (2, 0, [note])
    # An attempt that was not selected by a result takes the place of those.
    scored("resume", "r", "--redo", "sample!=nothing", code=0)
    assert redone_of(scored) == (0, 0, [f"3 trials were {BY_NAME}"])


@pytest.mark.parametrize(("expression", "again"), [("sample=b", "1 trial was"), ("task=t", "3 trials were")])
def test_scores_of_trials_that_were_selected_by_name_are_said_not_to_be_of_first_attempts(scored, expression, again):
    """Who names a sample may have looked at its answer before: a reader of the scores is told."""
    assert f"note: {again} {BY_NAME}" in scored("resume", "r", "--redo", expression, code=0).out
    assert redone_of(scored) == (0, 0, [f"{again} {BY_NAME}"])
    assert scored.json("report", "r", code=0)["redone"]["by_names"] == int(again[0])


def test_a_redo_of_trials_without_transcripts_needs_no_note(scored):
    """What is lost is nothing that a person or a result decides."""
    scored("resume", "r", "--redo", "transcript=whole and status=valid", code=0)
    assert redone_of(scored) == (0, 0, [])


def test_a_redo_by_the_text_of_an_answer_is_one_by_results(scored):
    scored("resume", "r", "--redo", "answer=b", code=0)
    assert redone_of(scored) == (0, 1, ["1 trial was " + RUN_AGAIN.format("results").replace("their", "its")])


def test_a_redo_by_another_result_is_said_too(scored):
    scored("resume", "r", "--redo", "tokens>0 and sample=b", code=0)
    assert redone_of(scored) == (0, 1, ["1 trial was " + RUN_AGAIN.format("results").replace("their", "its")])


def test_a_redo_of_failed_trials_needs_no_note(redone, tmp_path):
    """They had no score that could have decided."""
    (tmp_path / "broken").touch()
    redone("fork", "r", "--run-dir", "f", "--set", "tasks.t.epochs=2", code=0)
    redone("resume", "f", code=1)
    (tmp_path / "broken").unlink()
    redone("resume", "f", "--redo", "status=failed", code=0)
    assert redone_of(redone, "f") == (0, 0, [])
