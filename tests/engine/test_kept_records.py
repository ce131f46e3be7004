"""What was paid for is written, whoever is cancelled meanwhile and however full the journal's queue is."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from durable import begin_run
from held_disk import RUN, HeldDisk, lines_in
from holdfast.errors import StorageFailure
from holdfast.journal import JournalWriter
from holdfast.run import RunReader
from holdfast.run.core.records import Status, TrialRecord


@pytest.fixture
def disk():
    return HeldDisk()


@pytest.fixture
def journal(tmp_path):
    directory = tmp_path / "journal"
    directory.mkdir()
    return directory


def full_queue(disk: HeldDisk, directory) -> JournalWriter:
    """A writer that is held up in a sync, with no room left in its queue."""
    writer = JournalWriter(disk, directory, RUN, 1, queue_bytes=10)
    disk.hold()
    writer.queue.put(b"first")
    disk.wait_for_sync()
    writer.queue.put(b"x" * 10)
    return writer


def test_a_kept_record_is_handed_in_though_the_queue_is_full_and_its_producer_is_cancelled(disk, journal):
    """A reply that was paid for does not wait for room, so nothing can come between."""
    writer = full_queue(disk, journal)

    async def produce():
        task = asyncio.ensure_future(writer.queue.keep(b"paid"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        disk.let_through()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(produce())
    written = lines_in(journal)
    writer.close()
    assert written == [b"first", b"x" * 10, b"paid"]


def test_a_cancellation_before_the_first_wait_comes_after_the_record_is_durable(disk, journal):
    """A producer that was cancelled before it began to wait still waits."""
    writer = full_queue(disk, journal)

    async def produce():
        asyncio.current_task().cancel()
        asyncio.get_running_loop().call_later(0.01, disk.let_through)
        with pytest.raises(asyncio.CancelledError):
            await writer.queue.keep(b"paid")
        return lines_in(journal)

    assert asyncio.run(produce()) == [b"first", b"x" * 10, b"paid"]
    writer.close()


def test_a_record_that_cannot_be_kept_is_told_rather_than_the_cancellation(disk, journal):
    """A failing disk ends the session, also for a producer that was about to stop."""
    writer = full_queue(disk, journal)

    async def produce():
        task = asyncio.ensure_future(writer.queue.keep(b"paid"))
        await asyncio.sleep(0)
        task.cancel()
        asyncio.get_running_loop().call_later(0.01, disk.let_through)
        ending = asyncio.to_thread(writer.abandon)
        with pytest.raises(StorageFailure):
            await asyncio.gather(task, ending)

    asyncio.run(produce())


def test_records_put_in_by_one_producer_keep_their_order(disk, journal):
    """What is not waited for precedes what is, room or not."""
    writer = full_queue(disk, journal)
    for number in range(5):
        writer.queue.put(b"%d" % number)
    disk.let_through()
    asyncio.run(writer.queue.keep(b"end"))
    writer.close()
    assert lines_in(journal)[2:] == [b"0", b"1", b"2", b"3", b"4", b"end"]


class Store:
    """An uploader that notes which frames are waited for."""

    def __init__(self) -> None:
        self.awaited: list[tuple[int, int]] = []

    def when_uploaded(self, writer, seq, _) -> None:
        self.awaited.append((writer, seq))


@pytest.mark.parametrize("late", [False, True])
def test_a_trial_that_was_cancelled_while_its_end_was_kept_counts_with_its_own_frame(tmp_path, late):
    """Under `durability: remote` it counts when the frame with its end is up, not when an earlier one is."""
    session = begin_run(tmp_path / "run")
    store = Store()
    session.sink.count_when_uploaded(store)
    held = [True]
    session.lease.is_held = lambda: held[0]

    async def end():
        held[0] = not late
        task = asyncio.ensure_future(session.sink.keep(TrialRecord(trial="t1", attempt=1, status=Status.VALID)))
        await asyncio.sleep(0.1 if late else 0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        session.sink.when_counted(lambda: None)

    asyncio.run(end())
    session.abandon()
    with contextlib.closing(RunReader(tmp_path / "run")) as reader:
        (trial,) = reader.fold.trials()
    assert store.awaited == [(0, trial.end_id.seq)]
