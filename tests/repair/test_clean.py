"""Clean: transcripts of finished trials go, in one step; scores, reports and everything that remains to do stay."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
from collections import Counter

import msgspec
import pytest
from workspaces import begin_session_like, close_with_count, workspace_eval

from cli_calls import program
from durable import (
    begin_run,
    begin_session,
    commit,
    crashed_run,
    data_pieces,
    finish_trials,
    run_of_format_1,
    segment_paths,
    snapshot,
)
from holdfast.errors import RunDamaged, StorageFailure, UsageError
from holdfast.journal import JournalWriter
from holdfast.journal.segment import parse_name
from holdfast.models.message import Usage
from holdfast.run import RunReader, SessionContents, open_session, session_record
from holdfast.run.clean import clean_steps as clean
from holdfast.run.clean import rewrite_journal as rewrite
from holdfast.run.clean.clean_steps import clean_steps
from holdfast.run.core import codec
from holdfast.run.core.codec import decode, encode
from holdfast.run.core.records import CallRecord, ScoreRecord, SessionEndRecord, Status, StepRecord, TrialRecord
from holdfast.storage import RealFileSystem, crashpoints
from holdfast.testing import FaultyFileSystem, InjectedFault

BLOB_BYTES = 1000
POINTS = [point for point in crashpoints.MAINTENANCE if point.startswith("clean.")]


@pytest.fixture(autouse=True)
def small_blobs(monkeypatch):
    """Records far shorter than usual are stored as blobs."""
    monkeypatch.setattr(codec, "BLOB_BYTES", BLOB_BYTES)


def records_of(root):
    """Every record, with the session that wrote it, without what a rewriting has to change."""
    reader = RunReader(root)
    try:
        found = []
        for ident, line in reader.stream([]):
            record = msgspec.json.decode(line)
            record.pop("pins", None)
            found.append((ident.session, record))
        return found
    finally:
        reader.close()


def without_transcripts(given, kept):
    return [item for item in given if not (item[1]["type"] in {"step", "call"} and item[1]["trial"] in kept)]


def lived_run(root):
    """Two killed sessions and an orderly one, small segments, blobs, and one trial that is not finished."""
    session = begin_run(root, planned=4, segment_bytes=300)
    finish_trials(session, "t1")
    commit(session, StepRecord(trial="t1", attempt=1, step="long", result="x" * BLOB_BYTES))
    commit(session, CallRecord(trial="t4", attempt=1, step="first"))
    commit(session, StepRecord(trial="t4", attempt=1, step="first", result="y" * BLOB_BYTES))
    session.abandon()
    second = begin_session(root, planned=4, segment_bytes=300)
    finish_trials(second, "t2")
    commit(second, TrialRecord(trial="t3", attempt=1, status=Status.FAILED))
    second.abandon()
    third = begin_session(root, planned=4)
    commit(third, StepRecord(trial="t4", attempt=1, step="second", parent="first"))
    third.sink.journal.queue.commit(b'{"type":"vision","trial":"t1","depth":3}')
    finish_trials(third, "t3")
    third.close("interrupted", 130)
    return root


def test_scores_and_reports_are_the_same_before_and_after(tmp_path, told, text):
    """A run that was carried out for real: its report is the same to the last byte, and it is sound to the bottom."""
    eval_file, root = workspace_eval(tmp_path, {"code": 20, "docs": 5}, epochs=2), tmp_path / "run"
    text("run", eval_file, "--run-dir", root)
    _, before = told("report", root)
    size = sum(path.stat().st_size for path in segment_paths(root))
    code, result = told("clean", root, "--steps")
    assert (code, result["trials"], result["steps"], result["calls"]) == (0, 50, 0, 50)
    assert (result["journal_bytes_before"], result["journal_bytes_after"] < size) == (size, True)
    assert told("report", root)[1] == before
    code, verified = told("verify", root, "--deep")
    assert (code, verified["by_type"]["step"], verified["by_type"]["answer"]) == (0, 50, 50)
    assert text("resume", root)[0] == 0
    assert told("repair", root)[1]["changes"] == []


def test_a_run_of_format_1_costs_what_it_cost(tmp_path, told):
    """Its ends do not say which replies are from other runs: the steps that say it stay, as do final conversations."""
    root = run_of_format_1(tmp_path / "run")
    _, before = told("report", root)
    spent = spent_in(root)
    assert before["cost"] == 8 + 8 + 110 + 110, "nothing for replies of other runs"
    code, result = told("clean", root, "--steps")
    steps = Counter(record["trial"] for _, record in records_of(root) if record["type"] == "step")
    assert told("report", root)[1] == before
    assert spent_in(root) == spent
    assert (code, steps["reuses"], steps["begun"]) == (0, 2, 2)
    assert result["steps"] == 0 or max(steps[trial] for trial in steps.keys() - {"reuses", "begun"}) == 1
    assert told("clean", root, "--steps")[1]["steps"] == 0


def test_a_trial_whose_steps_took_more_than_its_ends_say_keeps_them(tmp_path, told):
    """An attempt that was cut short, and followed by another, has no end."""
    root = tmp_path / "run"
    session = begin_run(root, planned=2)
    for attempt in (1, 2):
        commit(session, StepRecord(trial="t1", attempt=attempt, step="s", model="m", usage=Usage(5, 1)))
    finish = {"status": Status.VALID, "model": "m", "usage": Usage(5, 1)}
    commit(session, TrialRecord(trial="t1", attempt=2, **finish))
    commit(session, StepRecord(trial="t2", attempt=1, step="other", model="m", usage=Usage(4, 1)))
    commit(session, StepRecord(trial="t2", attempt=1, step="s", model="m", usage=Usage(1, 0)))
    commit(session, TrialRecord(trial="t2", attempt=1, **finish))
    session.close("complete")
    spent = spent_in(root)
    assert told("clean", root, "--steps")[1]["steps"] == 1
    assert spent_in(root) == spent


def spent_in(root):
    with contextlib.closing(RunReader(root)) as reader:
        return reader.fold.spent(), {trial.key: trial.spent for trial in reader.fold.trials()}


def test_only_steps_and_calls_of_finished_trials_go(tmp_path, told):
    """Everything else is as it was, in the session it was written in: also records of a newer version."""
    root = lived_run(tmp_path / "run")
    before = records_of(root)
    code, result = told("clean", root, "--steps")
    assert (code, result["trials"], result["blobs"]) == (0, 3, 1)
    assert result["blob_bytes"] > BLOB_BYTES
    assert records_of(root) == without_transcripts(before, {"t1", "t2", "t3"})
    assert [record["step"] for _, record in records_of(root) if record["type"] == "step"] == ["first", "second"]
    assert told("verify", root)[0] == 0
    assert len(list((root / "blobs").iterdir())) == 1


def test_a_cleaned_run_goes_on_like_any_other(tmp_path, told):
    """A further session, with its pins, is sound; what it adds can be cleaned again."""
    root = lived_run(tmp_path / "run")
    told("clean", root, "--steps")
    session = begin_session(root, planned=4)
    assert session.number == 4
    finish_trials(session, "t4")
    session.close("complete")
    assert told("verify", root)[0] == 0
    assert told("clean", root, "--steps")[1]["trials"] == 1
    code, result = told("verify", root)
    assert (code, result["finished"], "step" in result["by_type"]) == (0, 4, False)


def test_readers_that_knew_the_run_before_find_nothing_wrong(tmp_path, told):
    """An index from before, in the run or in a reader's cache, is brought up to the new journal."""
    root = lived_run(tmp_path / "run")
    told("verify", root)
    told("status", root)
    told("clean", root, "--steps")
    for _ in range(2):
        code, result = told("verify", root)
        assert (code, result["notes"]) == (0, [])


def test_a_second_cleaning_changes_nothing(tmp_path, told, text):
    root = lived_run(tmp_path / "run")
    told("clean", root, "--steps")
    before = snapshot(root)
    assert text("clean", root, "--steps") == (0, f"{root}: there is nothing to delete.\n")
    assert snapshot(root) == before


def test_a_dry_run_says_what_would_go_and_deletes_nothing(tmp_path, told, text):
    root = lived_run(tmp_path / "run")
    before = snapshot(root)
    code, dry = told("clean", root, "--steps", "--dry-run")
    assert (code, dry["dry_run"]) == (0, True)
    assert "would be deleted" in text("clean", root, "--steps", "--dry-run")[1]
    assert snapshot(root) == before
    _, done = told("clean", root, "--steps")
    same = ("trials", "steps", "calls", "record_bytes", "blobs", "blob_bytes", "journal_bytes_before")
    assert {name: done[name] for name in same} == {name: dry[name] for name in same}


def test_a_trial_that_a_new_scorer_has_yet_to_judge_keeps_its_transcript(tmp_path, told, text):
    """It is not finished; only trials that are lose their steps."""
    eval_file, root = workspace_eval(tmp_path, {"code": 3}), tmp_path / "run"
    text("run", eval_file, "--run-dir", root)
    reader = RunReader(root)
    plan = [msgspec.structs.replace(entry, scorers=["exact", "includes"]) for entry in reader.sessions[-1].plan]
    key = min(reader.fold.finished())
    reader.close()
    session = begin_session_like(root, plan=plan)
    commit(session, ScoreRecord(trial=key, attempt=1, scorer="includes", value=1.0, task="code", model="m"))
    session.close("interrupted", 130)
    _, result = told("clean", root, "--steps")
    assert result["trials"] == 1
    assert {record["trial"] for _, record in records_of(root) if record["type"] == "call"}.isdisjoint({key})


def test_a_run_that_is_being_executed_is_not_cleaned(tmp_path, told):
    root = lived_run(tmp_path / "run")
    session = begin_session(root, planned=4)
    before = snapshot(root)
    for extra in ([], ["--dry-run"]):
        code, result = told("clean", root, "--steps", *extra)
        assert (code, result["kind"]) == (4, "held")
    assert snapshot(root) == before
    session.abandon()


@pytest.mark.parametrize("damage", ["a frame", "a blob", "a count"])
def test_a_damaged_run_is_not_cleaned(tmp_path, told, damage):
    """Nobody can say what is needed of a run that is not whole; exit 1, nothing deleted."""
    root = lived_run(tmp_path / "run")
    if damage == "a frame":
        path = segment_paths(root)[0]
        data = bytearray(path.read_bytes())
        data[data_pieces(bytes(data))[0].end - 1] ^= 1
        path.write_bytes(data)
    elif damage == "a blob":
        min((root / "blobs").iterdir()).unlink()
    else:
        close_with_count(begin_session(root, planned=4), 9)
    before = snapshot(root / "journal")
    code, result = told("clean", root, "--steps")
    assert (code, result["kind"]) == (1, "damaged")
    assert snapshot(root / "journal") == before


def test_what_a_crash_left_torn_is_no_damage_and_not_carried_over(tmp_path, told):
    """The whole frames of a killed session are kept, the torn one was never acknowledged."""
    root = crashed_run(tmp_path / "run", "t1", "t2")
    path = segment_paths(root)[-1]
    path.write_bytes(path.read_bytes()[:-7])
    before = records_of(root)
    told("clean", root, "--steps")
    assert records_of(root) == without_transcripts(before, {"t1"})
    code, result = told("verify", root)
    assert (code, result["torn_bytes"], result["finished"]) == (0, 0, 1)


@pytest.mark.parametrize("words", [["--local"], ["--local", "--steps"], []])
def test_a_local_run_has_no_spool_and_nothing_is_deleted_unnamed(tmp_path, told, words):
    root = crashed_run(tmp_path / "run", "t1")
    before = snapshot(root)
    code, result = told("clean", root, *words)
    assert (code, result["kind"]) == (2, "usage")
    assert ("local run" in result["error"]) == (words == ["--local"])
    assert snapshot(root) == before


@pytest.mark.parametrize("what", ["nothing", "a directory"])
def test_recovery_28_what_is_no_run_is_not_cleaned(tmp_path, told, what):
    place = tmp_path / "place"
    if what == "a directory":
        place.mkdir()
    assert told("clean", place, "--steps")[0] == 2
    assert snapshot(tmp_path) == ({} if what == "nothing" else {"place": None})


@pytest.mark.parametrize(
    "order", [*POINTS, "clean.segment-written:3", "frame.half-written:2", "segment.footer-synced:2"]
)
def test_a_kill_at_any_point_leaves_the_run_as_it_was_or_as_it_will_be(tmp_path, told, order):
    """Both are sound; the next cleaning finishes, and leaves nothing lying about."""
    root = lived_run(tmp_path / "run")
    old = records_of(root)
    new = without_transcripts(old, {"t1", "t2", "t3"})
    killed = program("clean", root, "--steps", env={**os.environ, "HOLDFAST_CRASH_AT": order})
    assert killed.code == -signal.SIGKILL
    late = order in {"clean.exchanged", "clean.journal-removed", "clean.blob-removed"}
    assert records_of(root) == (new if late else old)
    assert told("verify", root)[0] == 0
    assert told("clean", root, "--steps")[0] == 0
    assert records_of(root) == new
    assert told("verify", root)[0] == 0
    assert not list(root.glob(".journal*"))
    assert len(list((root / "blobs").iterdir())) == 1


@pytest.mark.parametrize("operation", ["make_directory", "create", "write", "sync", "rename", "sync_directory"])
def test_a_disk_that_fails_leaves_the_run_as_it_was(tmp_path, operation):
    """Exit 5 by its kind; nothing is deleted, and nothing is left lying about."""
    root = lived_run(tmp_path / "run")
    old = records_of(root)
    fs = FaultyFileSystem(RealFileSystem(), [InjectedFault(operation, 1, errno.ENOSPC, ".journal.cleaning")])
    with pytest.raises(StorageFailure, match="could not be cleaned"):
        clean_steps(root, fs=fs)
    assert records_of(root) == old
    assert not list(root.glob(".journal*"))


def test_a_filesystem_that_cannot_exchange_directories_is_refused(tmp_path, monkeypatch):
    """Without one step for both there would be a moment without a journal."""
    root = lived_run(tmp_path / "run")
    old = snapshot(root / "journal")

    def unsupported(*_):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(clean, "exchange_directories", unsupported)
    with pytest.raises(UsageError, match="cannot exchange two directories in one step; nothing was deleted"):
        clean_steps(root)
    assert snapshot(root / "journal") == old
    assert not list(root.glob(".journal*"))


def test_a_rewriting_that_loses_or_changes_anything_is_found_out(tmp_path, monkeypatch):
    """Writers that are broken on purpose: the old journal stays."""
    root = lived_run(tmp_path / "run")
    old = snapshot(root / "journal")
    kept = rewrite.JournalRewriter._kept

    def loses(self, scan):
        return (line for line in kept(self, scan) if b'"score"' not in line)

    def changes(self, scan):
        return (line.replace(b'"value":1.0', b'"value":0.0') for line in kept(self, scan))

    def adds(self, scan):
        yield from kept(self, scan)
        yield b'{"type":"note","kind":"k","text":"t"}'

    def forgets(self, line):
        return line

    for mutant in (loses, changes, adds):
        monkeypatch.setattr(rewrite.JournalRewriter, "_kept", mutant)
        with pytest.raises(RunDamaged, match="does not match the old one; nothing was deleted"):
            clean_steps(root)
    monkeypatch.setattr(rewrite.JournalRewriter, "_kept", kept)
    monkeypatch.setattr(rewrite.JournalRewriter, "_with_new_pins", forgets)
    with pytest.raises(RunDamaged):
        clean_steps(root)
    assert snapshot(root / "journal") == old


def test_sessions_of_several_writers_are_cleaned_with_their_pins(tmp_path, told):
    """The end of a session vouches for the segments of all its writers, before and after."""
    root = tmp_path / "run"
    session = begin_run(root, planned=2)
    worker = JournalWriter(RealFileSystem(), root / "journal", session.run, 1, writer=1)
    finish_trials(session, "t1")
    for record in (
        StepRecord(trial="t2", attempt=1, step="s"),
        TrialRecord(trial="t2", attempt=1, status=Status.VALID),
    ):
        worker.queue.commit(encode(record), "t2")
    worker.close()
    reader = RunReader(root)
    pins = [state.pin() for state in reader.index.states() if state.ident.writer == 1]
    reader.close()
    session.sink.journal.close(
        lambda own: encode(SessionEndRecord(number=1, how="completed", finished=2, pins=[*own, *pins]))
    )
    session.abandon()
    assert told("verify", root)[0] == 0
    assert told("clean", root, "--steps")[1]["trials"] == 2
    assert told("verify", root)[0] == 0
    ends = [json.loads(line) for _, line in stream(root) if b'"session_end"' in line]
    assert [pin[:3] for pin in ends[0]["pins"]] == [[1, 0, 1], [1, 1, 1]]
    next((root / "journal").glob("000001-0001-*")).unlink()
    assert told("verify", root)[0] == 1


def stream(root):
    reader = RunReader(root)
    try:
        return list(reader.stream([]))
    finally:
        reader.close()


def test_transcripts_are_told_by_their_records_alone():
    """A line that only mentions steps is none."""
    lines = [b'{"type":"answer","trial":"t1","attempt":1,"text":"{\\"type\\":\\"step\\"}"}', b'{"type":"step"', b"{}"]
    transcripts = clean._Transcripts.__new__(clean._Transcripts)
    transcripts._trials, transcripts._final = {"t1": 1, "": 1}, ()
    assert [transcripts(line) for line in lines] == [False, True, False]
    assert decode(lines[1]) is None


def test_a_run_in_a_store_is_brought_home_first(tmp_path, told):
    """Neither by its URL nor by its spool: what the store has would not know of it."""
    root = crashed_run(tmp_path / "run", "t1")
    (root / "remote.url").write_text("s3://bucket/run\n")
    before = snapshot(root)
    for name in ("s3://bucket/run", root):
        code, result = told("clean", name, "--steps")
        assert (code, result["kind"]) == (2, "usage")
        assert "holdfast recover s3://bucket/run --to DIR" in result["hint"]
    assert snapshot(root) == before


def test_segments_that_were_lost_with_their_machine_stay_noted(tmp_path, told):
    """A loss that a session has noted is no damage, before and after."""
    root = tmp_path / "run"
    session = begin_run(root, planned=3, segment_bytes=300)
    finish_trials(session, "t1", "t2")
    session.abandon()
    gone = segment_paths(root)[-1]
    ident, _ = parse_name(gone.name)
    gone.unlink()

    def make(reader, number, pins):
        contents = SessionContents(name="c", config={}, planned=3, lost=[ident])
        return session_record(reader.run.hex(), number, pins, contents)

    second = open_session(root, make)
    finish_trials(second, "t3")
    kept = {*second.reader.fold.finished(), "t3"}
    second.close("interrupted", 130)
    assert told("verify", root)[0] == 0
    before = records_of(root)
    assert told("clean", root, "--steps")[0] == 0
    assert records_of(root) == without_transcripts(before, kept)
    assert told("verify", root)[0] == 0
