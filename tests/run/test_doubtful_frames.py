"""Resume 51: a whole last frame that was written and perhaps never synced is settled before it counts."""

from __future__ import annotations

import contextlib
import errno
import random

import msgspec
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
    verified,
)
from folds import check_fold
from holdfast.errors import StorageFailure
from holdfast.journal import JournalWriter
from holdfast.journal.frame import COPY, decode_header
from holdfast.models.message import Usage
from holdfast.models.role import ModelRole
from holdfast.run import RunReader
from holdfast.run.core.codec import encode
from holdfast.run.core.records import ScoreRecord, Status, StepRecord, TrialRecord, UsageShare
from holdfast.storage import RealFileSystem
from holdfast.testing import FaultyFileSystem, InjectedFault


def drop_last_frame(path):
    """What a power loss may do to a frame that was never synced."""
    data = path.read_bytes()
    path.write_bytes(data[: data_pieces(data)[-1].start])


def copies_in(path):
    data = path.read_bytes()
    return [decode_header(data, piece.start).origin for piece in data_pieces(data) if piece.kind == COPY]


def check_once(root, trials):
    """Every record is given once, by the stream, the index and verify; these trials are finished."""
    now = read_run(root)
    ids = [ident for ident, _ in now.records]
    assert len(ids) == len(set(ids))
    assert now.finished == trials
    reader = RunReader(root)
    rows = [item.ident for trial in reader.fold.trials() for item in reader.lines_of(trial)]
    assert len(rows) == len(set(rows))
    counts = reader.fold.record_counts()
    reader.close()
    result = verified(root)
    assert result.counts.finished == len(trials)
    assert result.by_type == counts
    assert result.records == len(ids)
    return ids


def test_resume_51_a_doubtful_frame_that_vanishes_is_not_missed(tmp_path):
    """The next session wrote it again: nothing counted is missing, nothing is doubled, with the frame and without."""
    root = crashed_run(tmp_path / "run", "t1", "t2")
    old = segment_paths(root)[0]
    ids = [ident for ident, _ in read_run(root).records]
    second = begin_session(root)
    assert list(second.reader.fold.finished()) == ["t1", "t2"]
    second.abandon()
    with_frame = check_once(root, ["t1", "t2"])
    drop_last_frame(old)
    assert sorted(check_once(root, ["t1", "t2"])) == sorted(with_frame)
    assert set(ids) < set(with_frame)


def test_resume_51_only_the_last_frame_of_an_unsealed_segment_is_written_again(tmp_path):
    """One copy for a killed session, none for one that ended."""
    root = crashed_run(tmp_path / "run", "t1")
    last = data_pieces(segment_paths(root)[0].read_bytes())[-1].seq
    begin_session(root).close("complete")
    assert copies_in(segment_paths(root)[1]) == [(1, 0, last)]
    begin_session(root).close("complete")
    assert [copies_in(path) for path in segment_paths(root)[3:]] == [[], []]


def test_resume_51_a_segment_that_was_sealed_but_not_renamed_is_not_in_doubt(tmp_path):
    """A footer proves that everything before it was synced."""
    root = finished_run(tmp_path / "run", "t1")
    sealed = segment_paths(root)[1]
    sealed.rename(sealed.with_name(sealed.name.replace(".jsonl", ".open.jsonl")))
    begin_session(root).abandon()
    assert copies_in(segment_paths(root)[-1]) == []
    assert verified(root).ok


def test_resume_51_the_frame_is_synced_again_before_the_session_record(tmp_path):
    """A session that cannot settle what is in doubt does not begin."""
    root = crashed_run(tmp_path / "run", "t1")
    failing = FaultyFileSystem(RealFileSystem(), [InjectedFault("sync", 1, errno.EIO, "000002-")])
    with pytest.raises(StorageFailure):
        begin_session(root, fs=failing)
    assert not [line for _, line in read_run(root).records if b'"number":2' in line]
    check_once(root, ["t1"])


@pytest.mark.parametrize("vanish", [True, False])
def test_resume_51_a_copy_may_be_in_doubt_itself(tmp_path, vanish):
    """Sessions that die right after the copy: the next one settles the copy, under the first record ids."""
    root = crashed_run(tmp_path / "run", "t1")
    origin = data_pieces(segment_paths(root)[0].read_bytes())[-1].seq
    for number in (2, 3, 4):
        at_session_record = doubtful_frames(root) + 1
        failing = FaultyFileSystem(
            RealFileSystem(), [InjectedFault("write", at_session_record, errno.ENOSPC, f"{number:06}-")]
        )
        with pytest.raises(StorageFailure):
            begin_session(root, fs=failing)
        assert copies_in(whole(segment_paths(root)[-1]))[-1] == (1, 0, origin)
        if vanish:
            drop_last_frame(whole(segment_paths(root)[-2]))
        check_once(root, ["t1"])
    begin_session(root).close("complete")
    check_once(root, ["t1"])


def doubtful_frames(root):
    reader = RunReader(root)
    try:
        return len(reader.index.doubtful())
    finally:
        reader.close()


def whole(path):
    """The segment without the torn bytes behind its last frame."""
    data = path.read_bytes()
    end = 0
    while (header := decode_header(data, end)) and end + header.size <= len(data):
        end += header.size
    path.write_bytes(data[:end])
    return path


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_resume_51_many_killed_sessions_lose_and_double_nothing(tmp_path, seed):
    """After each kill, any earlier session's last frame may vanish; every acknowledged trial stays, once."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    root = tmp_path / "run"
    session = begin_run(root)
    done = []
    for number in range(1, 8):
        for _ in range(chance.randrange(3)):
            done.append(f"t{len(done):02}")
            finish_trials(session, done[-1])
        session.abandon()
        check_once(root, done)
        session = begin_session(root)
        for path in segment_paths(root):
            earlier = int(path.name[:6]) <= number
            if earlier and ".open" in path.name and path.stat().st_size and chance.random() < 0.4:
                drop_once(path)
        check_once(root, done)
    session.close("complete")
    check_once(root, done)


def drop_once(path, dropped={}):  # noqa: B006 - remembers over a whole campaign on purpose
    """Lets the last frame of a segment vanish, once: only that one was ever in doubt."""
    if path not in dropped:
        dropped[path] = True
        drop_last_frame(path)


def test_resume_51_two_writers_of_one_session_are_both_settled(tmp_path):
    """Each unsealed segment has a last frame of its own."""
    root = tmp_path / "run"
    session = begin_run(root)
    finish_trials(session, "t1")
    other = JournalWriter(RealFileSystem(), root / "journal", session.run, 1, writer=1)
    other.queue.commit(encode(TrialRecord(trial="t2", attempt=1, status=Status.VALID)), "t2")
    other.abandon()
    session.abandon()
    begin_session(root).abandon()
    for path in segment_paths(root)[:2]:
        drop_last_frame(path)
    check_once(root, ["t1", "t2"])


def test_a_frame_that_nobody_can_vouch_for_is_not_counted(tmp_path):
    """A reader whose own sync fails leaves the last frame out, and counts it once the sync succeeds."""
    root = crashed_run(tmp_path / "run", "t1", "t2")
    disk = FaultyFileSystem(RealFileSystem(), [InjectedFault("settle", 0, errno.EIO)])
    reader = RunReader(root, disk)
    assert list(reader.fold.finished()) == ["t1"]
    assert len(list(reader.stream([]))) == len(read_run(root).records) - 1
    assert [item for item in reader.damage() if item.is_loss] == []
    disk._faults.clear()
    reader.refresh()
    assert list(reader.fold.finished()) == ["t1", "t2"]
    reader.close()


def test_a_late_frame_of_a_replaced_session_doubles_nothing(tmp_path):
    """A session that goes on after it was replaced: its segment grows behind the frame that was written again."""
    root = tmp_path / "run"
    late = begin_run(root)
    finish_trials(late, "t1")
    late.lease.release()
    second = begin_session(root)
    late.sink.journal.queue.commit(b'{"type":"note","kind":"late","text":"after being replaced"}')
    late.abandon()
    second.close("complete")
    check_once(root, ["t1"])


def test_a_slot_that_two_sessions_have_filled_took_its_tokens_once(tmp_path):
    """A session that goes on after it was replaced fills a slot that the next one has filled from the same reply."""
    root = tmp_path / "run"
    late = begin_run(root)
    judged = {"trial": "t1", "attempt": 1, "usage": Usage(10, 5)}
    commit(late, StepRecord(**judged, step="/score/polite generate:0a#1", model="judge", role=ModelRole.JUDGE))
    late.lease.release()
    second = begin_session(root)
    filled = ScoreRecord(**judged, scorer="polite", value=1.0, shares=(UsageShare("judge", Usage(10, 5)),))
    commit(second, filled)
    late.sink.journal.queue.commit(encode(filled), "t1", filled)
    again = msgspec.structs.replace(filled, slot_attempt=2)
    late.sink.journal.queue.commit(encode(again), "t1", again)
    late.abandon()
    second.close("complete")
    with contextlib.closing(RunReader(root)) as reader:
        check_fold(reader)
        (spent,) = reader.fold.spent().values()
    assert spent.shares == {("judge", False): Usage(20, 10)}, "two attempts, each of them once"
