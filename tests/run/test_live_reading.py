"""Reading beside a live writer: whole, synced frames only, and more of them at every look."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from durable import begin_run, commit, finish_trials, read_run, verified
from held_disk import PATIENCE_SECONDS, HeldDisk
from holdfast.run import RunReader
from holdfast.run.core.records import NoteRecord, Status, TrialRecord
from holdfast.storage import RealFileSystem


class NoSync(RealFileSystem):
    """A reader's disk on which an unsealed file cannot be synced: only what somebody else vouches for counts."""

    def open(self, path):
        return Unsyncable(super().open(path))


class Unsyncable:
    def __init__(self, inner):
        self.inner = inner

    def sync(self):
        raise OSError(5, "Input/output error")

    def __getattr__(self, name):
        return getattr(self.inner, name)


def test_a_reader_catches_up_at_every_refresh(tmp_path):
    """What is committed is seen at the next look, across segments, and each record once."""
    session = begin_run(tmp_path / "run", segment_bytes=600)
    reader = RunReader(tmp_path / "run")
    done = []
    for number in range(6):
        done.append(f"t{number}")
        finish_trials(session, done[-1])
        assert list(reader.fold.finished()) == done[:-1]
        reader.refresh()
        assert list(reader.fold.finished()) == done
        assert [item for item in reader.damage() if item.is_loss] == []
    session.close("complete")
    reader.refresh()
    assert reader.damage() == []
    assert [end.finished for end in reader.ends] == [6]
    reader.close()


def test_a_reader_sees_no_frame_that_is_written_and_not_synced(tmp_path):
    """A frame whose sync is under way, and which the reader cannot sync itself, is not seen; afterwards it is."""
    disk = HeldDisk()
    session = begin_run(tmp_path / "run", fs=disk)
    finish_trials(session, "t1")
    commit(session, NoteRecord(kind="k", text="behind t1"))
    disk.hold()
    with ThreadPoolExecutor(1) as pool:
        committed = pool.submit(commit, session, TrialRecord(trial="t2", attempt=1, status=Status.VALID))
        disk.wait_for_sync()
        reader = RunReader(tmp_path / "run", NoSync())
        assert list(reader.fold.finished()) == ["t1"]
        assert b"t2" not in b"".join(line for _, line in reader.stream([]))
        disk.let_through()
        committed.result(PATIENCE_SECONDS)
    commit(session, NoteRecord(kind="k", text="behind t2"))
    reader.refresh()
    assert list(reader.fold.finished()) == ["t1", "t2"]
    reader.close()
    session.abandon()


def test_a_reader_makes_durable_what_it_counts(tmp_path, monkeypatch):
    """The tail of an unsealed segment is synced by the reader before it is read."""
    session = begin_run(tmp_path / "run")
    finish_trials(session, "t1")
    synced = []
    real = RealFileSystem.open

    def watched(self, path):
        file = real(self, path)
        sync = file.sync
        file.sync = lambda: (synced.append(path.name), sync())
        return file

    monkeypatch.setattr(RealFileSystem, "open", watched)
    assert read_run(tmp_path / "run").finished == ["t1"]
    assert "000001-0000-000001.open.jsonl.zst" in synced
    session.abandon()


def test_a_half_written_frame_is_not_seen(tmp_path):
    """A reader that comes in the middle of a write sees the frames before it, and no damage."""
    session = begin_run(tmp_path / "run")
    finish_trials(session, "t1")
    path = next((tmp_path / "run" / "journal").iterdir())
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(whole[:120])
    now = read_run(tmp_path / "run")
    assert now.finished == ["t1"]
    assert (now.losses, len(now.torn)) == ([], 1)
    session.abandon()


@pytest.mark.parametrize("segment_bytes", [400, 1 << 20])
def test_readers_and_verify_beside_a_busy_writer_see_no_damage(tmp_path, segment_bytes):
    """While a session writes and rolls without a pause, every look is sound and no trial is ever unseen again."""
    session = begin_run(tmp_path / "run", segment_bytes=segment_bytes)
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set() and number < 400:
            commit(session, TrialRecord(trial=f"t{number:04}", attempt=1, status=Status.VALID))
            number += 1
        return number

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        reader = RunReader(tmp_path / "run")
        seen = set()
        for _ in range(12):
            reader.refresh()
            now = set(reader.fold.finished())
            assert seen <= now
            seen = now
            assert [str(item) for item in reader.damage() if item.is_loss] == []
            result = verified(tmp_path / "run")
            assert result.ok, result.damage
        stop.set()
        written = writing.result(PATIENCE_SECONDS)
    reader.refresh()
    assert len(list(reader.fold.finished())) == written
    reader.close()
    session.close("complete")
    assert verified(tmp_path / "run").ok
