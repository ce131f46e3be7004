"""Recovery 20, 21 and 28: verify counts everything against everything, and says what differs."""

from __future__ import annotations

import json

import pytest

from cli_calls import call
from durable import (
    begin_run,
    begin_session,
    change_index,
    commit,
    crashed_run,
    data_pieces,
    finish_trials,
    finished_run,
    segment_paths,
)
from holdfast.journal import BLOB_BYTES
from holdfast.run import SessionContents, create_run
from holdfast.run.core.records import AnswerRecord, SessionEndRecord, Status, StepRecord, TrialRecord


@pytest.fixture
def verify(capfdbinary):
    """Calls `holdfast verify --json`, gives its exit code and its answer; the plain form agrees with both."""

    def run(root):
        plain = call(capfdbinary, "verify", root)
        told = call(capfdbinary, "verify", root, "--json")
        assert plain.code == told.code
        result = json.loads(told.out)
        assert plain.out.splitlines()[0] == f"{root}: {'OK' if result['ok'] else 'DAMAGED'}"
        for damage in result["damage"]:
            if damage["kind"] != "torn":
                assert damage["detail"] in plain.out
        return told.code, result

    return run


def make_full_run(root):
    """A run of two sessions with inputs, a blob and artifacts."""
    contents = SessionContents(name="full", config={"seed": 1}, planned=3)
    session = create_run(root, contents, inputs={"data.jsonl": b"one\n", "prompt": b"two"})
    finish_trials(session, "t1")
    commit(session, StepRecord(trial="t2", attempt=1, step="big", result="x" * BLOB_BYTES))
    session.close("interrupted", 130)
    second = begin_session(root, planned=3)
    (root / "artifacts" / "t2").mkdir(parents=True)
    (root / "artifacts" / "t2" / "diff").write_text("+1")
    commit(second, TrialRecord(trial="t2", attempt=1, status=Status.VALID, artifacts={"diff": "00"}))
    finish_trials(second, "t3")
    second.close("complete")
    return root


def test_recovery_20_a_sound_run_is_counted_and_exits_0(tmp_path, verify):
    """Segments, frames, records, trials, sessions, blobs, inputs, artifacts and the plan are all told."""
    root = make_full_run(tmp_path / "run")
    code, result = verify(root)
    frames = sum(len(data_pieces(path.read_bytes())) for path in segment_paths(root))
    assert code == 0
    expected = {
        "ok": True,
        "segments": 4,
        "frames": frames,
        "records": sum(result["by_type"].values()),
        "by_type": {"answer": 2, "call": 2, "score": 2, "session": 2, "session_end": 2, "step": 3, "trial": 3},
        "planned": 3,
        "finished": 3,
        "valid": 3,
        "remaining": 0,
        "transcripts_lost": 0,
        "sessions": 2,
        "blobs": 1,
        "inputs": 2,
        "artifacts": 1,
        "torn_bytes": 0,
        "damage": [],
        "notes": [],
    }
    assert {name: result[name] for name in expected} == expected


def test_recovery_20_a_killed_run_is_sound_and_its_torn_tail_told(tmp_path, verify, capfdbinary):
    """What an ordinary crash leaves is no damage; the bytes that were never acknowledged are counted."""
    root = crashed_run(tmp_path / "run", "t1")
    path = segment_paths(root)[0]
    path.write_bytes(path.read_bytes()[:-9])
    code, result = verify(root)
    assert code == 0
    assert result["torn_bytes"] > 0
    assert "bytes of an incomplete final write after a crash; no data lost" in call(capfdbinary, "verify", root).out


def test_recovery_20_verify_changes_nothing_in_the_run(tmp_path, verify):
    """Proving a run whole leaves every byte of it as it was."""
    root = make_full_run(tmp_path / "run")
    before = {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
    verify(root)
    assert {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()} == before


def test_recovery_20_a_run_that_is_being_written_is_sound(tmp_path, verify):
    """Verify beside a live session: what it has not yet indexed is no difference."""
    session = begin_run(tmp_path / "run", segment_bytes=400)
    finish_trials(session, "t1", "t2")
    assert verify(tmp_path / "run")[0] == 0
    session.abandon()


def differences(result):
    return [(item["kind"], item["where"]) for item in result["damage"]]


def end_with(session, *, finished):
    """Ends a session as a faulty version would: with a count that is not that of the journal."""
    commit(session, SessionEndRecord(number=session.number, how="complete", exit_code=0, finished=finished))
    session.abandon()


def test_recovery_21_an_end_that_counted_other_trials_is_named(tmp_path, verify):
    """A session that ended with another number of finished trials than the journal has."""
    session = begin_run(tmp_path / "run", planned=2)
    finish_trials(session, "t1")
    end_with(session, finished=2)
    code, result = verify(tmp_path / "run")
    assert (code, differences(result)) == (1, [("count", "journal")])
    assert "session 1 ended with 2 finished trials, the journal has 1" in result["damage"][0]["detail"]


def test_recovery_21_each_session_is_counted_up_to_its_own_end(tmp_path, verify):
    """Trials that a later session finished do not count for an earlier end."""
    root = finished_run(tmp_path / "run", "t1")
    second = begin_session(root, planned=2)
    finish_trials(second, "t2")
    end_with(second, finished=1)
    code, result = verify(root)
    assert code == 1
    assert [item["detail"] for item in result["damage"]] == [
        "session 2 ended with 1 finished trials, the journal has 2"
    ]


def test_recovery_21_more_trials_than_are_planned_are_named(tmp_path, verify):
    """The plan is counted against the trials; opening says the same."""
    session = begin_run(tmp_path / "run", planned=1)
    finish_trials(session, "t1", "t2")
    session.close("complete")
    code, result = verify(tmp_path / "run")
    assert (code, differences(result)) == (1, [("count", "journal")])
    assert result["notes"] == [
        "2 trials are finished, 1 are planned; those outside the plan are kept but not reported."
    ]


def test_recovery_21_an_artifact_directory_without_a_record_is_named(tmp_path, verify):
    """Files of a trial that the journal knows nothing of."""
    root = finished_run(tmp_path / "run", "t1")
    (root / "artifacts" / "stranger").mkdir(parents=True)
    code, result = verify(root)
    assert (code, differences(result)) == (1, [("count", "artifacts/stranger")])


def test_recovery_21_a_missing_artifact_is_named(tmp_path, verify):
    """A file that a trial's record names."""
    root = make_full_run(tmp_path / "run")
    (root / "artifacts" / "t2" / "diff").unlink()
    code, result = verify(root)
    assert (code, differences(result)) == (1, [("missing", "artifacts/t2/diff")])


@pytest.mark.parametrize(("change", "kind"), [("remove", "missing"), ("shorten", "changed"), ("flip", "changed")])
@pytest.mark.parametrize("where", ["blobs", "inputs"])
def test_recovery_21_a_blob_or_input_that_is_not_what_was_stored_is_named(tmp_path, verify, where, change, kind):
    """Gone, cut or changed in one byte; a blob names the trials that need it."""
    root = make_full_run(tmp_path / "run")
    path = min((root / where).iterdir())
    data = path.read_bytes()
    if change == "remove":
        path.unlink()
    else:
        path.write_bytes(data[:-1] if change == "shorten" else data[:-1] + bytes([data[-1] ^ 1]))
    code, result = verify(root)
    assert (code, differences(result)) == (1, [(kind, f"{where}/{path.name}")])
    assert result["damage"][0].get("keys", []) == (["t2"] if where == "blobs" else [])


def test_recovery_21_several_differences_are_named_one_by_one(tmp_path, verify):
    """A wrong count is told also where files are missing."""
    root = make_full_run(tmp_path / "run")
    (root / "artifacts" / "t2" / "diff").unlink()
    (root / "artifacts" / "stranger").mkdir()
    third = begin_session(root, planned=3)
    end_with(third, finished=0)
    code, result = verify(root)
    assert code == 1
    assert sorted(differences(result)) == [
        ("count", "artifacts/stranger"),
        ("count", "journal"),
        ("missing", "artifacts/t2/diff"),
    ]


@pytest.mark.parametrize(("make", "where"), [(finished_run, "run"), (crashed_run, "cache")], ids=["run", "cache"])
def test_recovery_21_an_index_that_invents_or_lacks_a_trial_is_named(tmp_path, verify, cache_home, make, where):
    """The finished trials of the index are held against those of the journal, both ways."""
    root = make(tmp_path / "run", "t1", "t2")
    assert verify(root)[0] == 0
    path = root / "index.sqlite" if where == "run" else next(cache_home.rglob("*.sqlite"))
    for change, told in (
        ("UPDATE trials SET key = 'zz' WHERE key = 't2'", {"zz", "t2"}),
        ("DELETE FROM trials WHERE key = 'zz'", {"t2"}),
    ):
        change_index(path, change)
        code, result = verify(root)
        assert code == 1
        assert {item["where"] for item in result["damage"]} == {"index"}
        assert {key for item in result["damage"] for key in item["keys"]} == told


def test_recovery_21_lost_frames_are_named_with_their_trials(tmp_path, verify, capfdbinary):
    """Damage is told with file, place and trials, and the rest is still counted."""
    root = finished_run(tmp_path / "run", "t1", "t2", "t3", "t4", "t5")
    path = segment_paths(root)[0]
    data = path.read_bytes()
    first, last = data_pieces(data)[1], data_pieces(data)[-1]
    path.write_bytes(data[: first.start] + bytes(last.end - first.start) + data[last.end :])
    code, result = verify(root)
    assert code == 1
    (damage,) = result["damage"]
    assert (damage["offset"], damage["length"]) == (first.start, last.end - first.start)
    assert damage["keys"] == ["t1", "t2", "t3", "t4", "t5"]
    assert "(trials t1, t2, t3 and 2 more)" in call(capfdbinary, "verify", root).out
    assert (result["finished"], result["remaining"]) == (0, 5)
    assert result["notes"] == []


def test_recovery_21_a_record_of_an_unknown_type_is_counted_as_such(tmp_path, verify):
    """A newer version's records are no damage."""
    session = begin_run(tmp_path / "run")
    session.sink.journal.queue.commit(b'{"type":"vision","depth":3}')
    commit(session, AnswerRecord(trial="t1", attempt=1))
    session.close("complete")
    code, result = verify(tmp_path / "run")
    assert (code, result["by_type"]["unknown"]) == (0, 1)
