"""Recovery 23 and 28: opening a run compares what is there, says what differs, and goes on from what is sound."""

from __future__ import annotations

import asyncio
import errno
import shutil
from functools import partial

import pytest

from durable import (
    begin_run,
    begin_session,
    commit,
    crashed_run,
    data_pieces,
    finish_trials,
    finished_run,
    read_run,
    segment_paths,
    snapshot,
    verified,
)
from holdfast.errors import NotARun, ResumeAborted, RunHeld, StorageFailure
from holdfast.journal import BLOB_BYTES
from holdfast.run import RunReader, find_run, open_session
from holdfast.run.core.records import NoteRecord, Status, StepRecord, TrialRecord
from holdfast.run.fold.inconsistencies import describe_inconsistencies
from holdfast.storage import RealFileSystem
from holdfast.testing import FaultyFileSystem, InjectedFault


def notes_of(root):
    reader = RunReader(root)
    try:
        return describe_inconsistencies(reader), list(reader.fold.finished())
    finally:
        reader.close()


def test_recovery_23_a_sound_run_opens_without_a_word(tmp_path):
    """Nothing is said where everything agrees, after an end and after a crash."""
    assert notes_of(finished_run(tmp_path / "a", "t1")) == ([], ["t1"])
    assert notes_of(crashed_run(tmp_path / "b", "t1")) == ([], ["t1"])


def test_recovery_23_an_index_that_does_not_fit_is_put_right_and_said(tmp_path):
    """An index of another run: the answers are the journal's, and the reader says what it did."""
    root = finished_run(tmp_path / "run", "t1", "t2")
    other = finished_run(tmp_path / "other", "x1")
    shutil.copy(other / "index.sqlite", root / "index.sqlite")
    session = begin_session(root, planned=2)
    (note,) = describe_inconsistencies(session.reader)
    assert "index was rebuilt from the journal" in note
    assert list(session.reader.fold.finished()) == ["t1", "t2"]
    session.close("complete")
    assert notes_of(root) == ([], ["t1", "t2"])


def test_recovery_23_damage_is_said_and_the_work_remains(tmp_path):
    """What was lost is counted by kind; its trials are not finished."""
    root = finished_run(tmp_path / "run", "t1", "t2")
    path = segment_paths(root)[0]
    data = bytearray(path.read_bytes())
    data[data_pieces(bytes(data))[-1].end - 1] ^= 0xFF
    path.write_bytes(data)
    (note,), finished = notes_of(root)
    assert "damaged (1 unreadable); what was lost counts as remaining" in note
    assert finished == ["t1"]


def test_recovery_23_damage_does_not_keep_a_session_from_going_on(tmp_path):
    """The next session does the lost work again, and the trial is there once."""
    root = finished_run(tmp_path / "run", "t1", "t2")
    path = segment_paths(root)[0]
    data = bytearray(path.read_bytes())
    data[data_pieces(bytes(data))[-1].end - 1] ^= 0xFF
    path.write_bytes(data)
    session = begin_session(root, planned=2)
    assert list(session.reader.fold.finished()) == ["t1"]
    finish_trials(session, "t2")
    session.close("complete")
    assert read_run(root).finished == ["t1", "t2"]


def test_recovery_23_artifacts_without_a_record_are_said_and_left_alone(tmp_path):
    """A directory that no trial owns is named; nothing in it is touched."""
    root = finished_run(tmp_path / "run", "t1")
    stray = root / "artifacts" / "stray"
    stray.mkdir()
    (stray / "result.json").write_text("{}")
    (root / "artifacts" / "t1").mkdir()
    notes, finished = notes_of(root)
    assert notes == ["artifacts/stray was left unchanged: the journal has no record of this trial."]
    assert finished == ["t1"]
    assert (stray / "result.json").read_text() == "{}"


def test_recovery_23_artifacts_that_are_gone_are_said(tmp_path):
    """A finished trial whose files are missing keeps its record, and is named."""
    session = begin_run(tmp_path / "run")
    for number in range(5):
        session.sink.append(TrialRecord(trial=f"t{number}", attempt=1, status=Status.VALID, artifacts={"diff": "00"}))
    commit(session, TrialRecord(trial="t9", attempt=1, status=Status.VALID))
    session.close("complete")
    (tmp_path / "run" / "artifacts" / "t1").mkdir()
    notes, _ = notes_of(tmp_path / "run")
    assert notes == [
        "The artifacts of finished trials are missing (t0, t2, t3 and others); their results are in the journal."
    ]
    shutil.rmtree(tmp_path / "run" / "artifacts")
    notes, _ = notes_of(tmp_path / "run")
    assert "(t0, t1, t2 and others)" in notes[0]


def test_recovery_23_trials_beyond_the_plan_are_said(tmp_path):
    """More finished trials than are planned are kept, and told."""
    session = begin_run(tmp_path / "run", planned=1)
    finish_trials(session, "t1", "t2")
    session.close("complete")
    (note,), finished = notes_of(tmp_path / "run")
    assert "2 trials are finished, 1 are planned" in note
    assert finished == ["t1", "t2"]


def test_recovery_23_a_run_without_a_readable_session_record_still_opens(tmp_path):
    """The first frame is lost: the trials count, the damage is said once, and what it means and leads on beside it."""
    root = finished_run(tmp_path / "run", "t1")
    path = segment_paths(root)[0]
    data = path.read_bytes()
    path.write_bytes(data[:95] + bytes(4) + data[99:])
    reader = RunReader(root)
    assert reader.sessions == []
    assert list(reader.fold.finished()) == ["t1"]
    damaged, way_on = describe_inconsistencies(reader)
    assert "The journal is damaged (1 unreadable)" in damaged
    assert "damage" not in way_on and f"holdfast repair {root}" in way_on
    reader.close()
    assert verified(root).counts.planned == 0


@pytest.mark.parametrize("what", ["nothing", "a directory", "a file", "an empty journal"])
def test_recovery_28_a_session_is_not_opened_on_what_is_no_run(tmp_path, what):
    """Executing is refused plainly, and nothing is written."""
    place = tmp_path / "place"
    if what == "a directory":
        place.mkdir()
    elif what == "a file":
        place.write_text("hello")
    elif what == "an empty journal":
        (place / "journal").mkdir(parents=True)
    before = snapshot(tmp_path)
    with pytest.raises(NotARun):
        begin_session(place)
    assert snapshot(tmp_path) == before


def test_resume_43_a_run_that_is_being_executed_is_not_opened_again(tmp_path):
    """The second session is refused; readers are not."""
    first = begin_run(tmp_path / "run")
    finish_trials(first, "t1")
    with pytest.raises(RunHeld):
        begin_session(tmp_path / "run")
    assert read_run(tmp_path / "run").finished == ["t1"]
    first.close("complete")
    begin_session(tmp_path / "run").abandon()


def test_a_refused_session_leaves_the_journal_as_it_was(tmp_path):
    """Whoever refuses to go on has written no record, and holds the run no more."""
    root = crashed_run(tmp_path / "run", "t1")
    before = snapshot(root / "journal")

    def refuse(reader, number, pins):
        assert (number, len(pins)) == (2, 1)
        raise ResumeAborted("Resume aborted: seed changed.")

    for _ in range(2):
        with pytest.raises(ResumeAborted):
            open_session(root, refuse)
    assert snapshot(root / "journal") == before


def test_sessions_are_numbered_on_although_segments_are_gone(tmp_path):
    """A number that any record or index has seen is not given again."""
    root = finished_run(tmp_path / "run", "t1")
    begin_session(root).close("complete")
    third = begin_session(root)
    assert third.number == 3
    third.abandon()
    for path in segment_paths(root):
        if path.name.startswith("000003"):
            path.unlink()
    fourth = begin_session(root)
    assert fourth.number == 4
    fourth.close("complete")
    (root / "index.sqlite").unlink()
    for path in segment_paths(root):
        if path.name.startswith(("000002", "000003")):
            path.unlink()
    fifth = begin_session(root)
    assert fifth.number == 5
    fifth.abandon()


def test_each_session_pins_what_was_there_before_it(tmp_path):
    """Frames, last digest and seal of every earlier segment stand in the session's record."""
    root = crashed_run(tmp_path / "run", "t1")
    states = {}
    reader = RunReader(root)
    for state in reader.index.states():
        states[state.ident] = state
    reader.close()
    session = begin_session(root)
    pins = {pin[:3]: pin for pin in session.record.pins}
    assert set(pins) == set(states)
    for ident, state in states.items():
        assert pins[ident] == state.pin()
    session.abandon()


@pytest.mark.parametrize("make", [finished_run, crashed_run], ids=["its own record", "a frame in doubt"])
@pytest.mark.parametrize("operation", ["create", "write", "sync"])
def test_a_session_that_cannot_be_recorded_is_a_storage_failure(tmp_path, operation, make):
    """The disk fails at the session's first bytes: told as such; the next session opens."""
    root = make(tmp_path / "run", "t1")
    fs = FaultyFileSystem(RealFileSystem(), [InjectedFault(operation, 1, errno.ENOSPC, "000002-")])
    with pytest.raises(StorageFailure, match="No space left on device"):
        begin_session(root, fs=fs)
    session = begin_session(root)
    assert list(session.reader.fold.finished()) == ["t1"]
    session.abandon()


def test_a_parent_that_cannot_be_synced_is_a_storage_failure_unless_it_is_not_ours(tmp_path):
    """An I/O error stops the session; a directory that this user may not open does not."""
    root = crashed_run(tmp_path / "run", "t1")
    failing = FaultyFileSystem(RealFileSystem(), [InjectedFault("sync_directory", 1, errno.EIO)])
    with pytest.raises(StorageFailure, match="could not be synced: Input/output error"):
        begin_session(root, fs=failing)
    forbidden = FaultyFileSystem(RealFileSystem(), [InjectedFault("sync_directory", 1, errno.EACCES)])
    begin_session(root, fs=forbidden).abandon()


def test_a_session_whose_lease_ran_out_records_nothing_more(tmp_path):
    """Whoever may have been replaced does not write beside its successor."""
    session = begin_run(tmp_path / "run")
    commit(session, NoteRecord(kind="k", text="before"))
    session.lease.release()
    for hand_in in (session.sink.append, session.sink.put, partial(commit, session)):
        with pytest.raises(RunHeld, match=r"has lost the run .*; another session may be using it"):
            hand_in(NoteRecord(kind="k", text="after"))
    session.abandon()
    assert not [line for _, line in read_run(tmp_path / "run").records if b"after" in line]


def test_a_blob_that_cannot_be_written_is_a_storage_failure_and_the_session_goes_on(tmp_path):
    """The record is refused to its maker; others are still recorded."""
    fs = FaultyFileSystem(RealFileSystem(), [InjectedFault("create", 1, errno.ENOSPC, "blobs")])
    session = begin_run(tmp_path / "run", fs=fs)
    with pytest.raises(StorageFailure, match=r"blob .* could not be written: No space"):
        commit(session, StepRecord(trial="t1", attempt=1, step="s", result="x" * BLOB_BYTES))
    finish_trials(session, "t2")
    session.close("complete")
    assert read_run(tmp_path / "run").finished == ["t2"]


def test_records_may_be_handed_in_by_coroutines(tmp_path):
    """Put and keep record like append and commit."""
    session = begin_run(tmp_path / "run")

    async def work():
        session.sink.put(NoteRecord(kind="k", text="one"))
        place = await session.sink.keep(NoteRecord(kind="k", text="two"))
        assert place.session == 1

    asyncio.run(work())
    session.close("complete")
    texts = [line for _, line in read_run(tmp_path / "run").records if b'"note"' in line]
    assert [b"one" in texts[0], b"two" in texts[1]] == [True, True]


def test_resume_49_an_end_that_cannot_be_written_lets_go_of_the_run(tmp_path):
    """The failure is told; the lease is free; what was acknowledged is there."""
    fs = FaultyFileSystem(RealFileSystem(), [InjectedFault("create", 1, errno.ENOSPC, "000001-0000-000002")])
    session = begin_run(tmp_path / "run", fs=fs)
    finish_trials(session, "t1")
    with pytest.raises(StorageFailure):
        session.close("interrupted", 130)
    second = begin_session(tmp_path / "run")
    assert list(second.reader.fold.finished()) == ["t1"]
    second.close("complete")
    assert verified(tmp_path / "run").ok


def test_recovery_22_an_index_that_cannot_follow_the_end_costs_nothing(tmp_path):
    """A disk that cannot be read at the very end does not turn a complete session into a failure."""
    fs = FaultyFileSystem(RealFileSystem(), [])
    session = begin_run(tmp_path / "run", fs=fs)
    finish_trials(session, "t1")
    fs._faults.append(InjectedFault("list", 0, errno.EIO))
    session.close("complete")
    assert verified(tmp_path / "run").ok


def test_a_failed_name_is_no_run(tmp_path):
    """A path that exists is taken as it is; a run's name needs a directory of runs."""
    root = finished_run(tmp_path / "runs" / "a", "t1")
    assert find_run(str(root)) == root
    assert find_run("a", tmp_path / "runs") == root
    with pytest.raises(NotARun, match="There is no run 'b'"):
        find_run("b", tmp_path / "none")


@pytest.mark.parametrize("ours", [1, 4])
@pytest.mark.parametrize("theirs", [2, 3])
def test_a_segment_of_a_copy_that_was_resumed_on_its_own_is_found(tmp_path, ours, theirs):
    """It has the right run, session and name, and is sound in itself, with more frames than its own place knows."""
    first = finished_run(tmp_path / "a", "t1")
    shutil.copytree(first, tmp_path / "b")
    for name, count in (("a", ours), ("b", ours + theirs)):
        session = begin_session(tmp_path / name, planned=20)
        finish_trials(session, *(f"{name}{number}" for number in range(count)))
        session.close("complete")
    session = begin_session(first, planned=20)
    session.close("complete")
    assert verified(first).ok
    twin = "journal/000002-0000-000001.jsonl.zst"
    shutil.copyfile(tmp_path / "b" / twin, first / twin)
    found = verified(first)
    assert not found.ok and {item.kind.value for item in found.damage} == {"changed"}
