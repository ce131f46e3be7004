"""Group commit: nothing is acknowledged before its sync, order is kept, and a failure reaches everybody."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from held_disk import PATIENCE_SECONDS, RUN, HeldDisk, frames_in, lines_in
from holdfast.errors import StorageFailure, UsageError
from holdfast.journal import Journal, JournalWriter
from holdfast.journal.segment import FrameCopy, SegmentId, parse_name
from holdfast.storage import RealFileSystem, crashpoints
from holdfast.testing import FaultyFileSystem, InjectedFault


@pytest.fixture
def disk():
    held = HeldDisk()
    yield held
    held.let_through()


@pytest.fixture
def journal(tmp_path):
    directory = tmp_path / "journal"
    directory.mkdir()
    return directory


def opened(fs, directory, **options):
    return JournalWriter(fs, directory, RUN, 1, **options)


def failing(*faults):
    return FaultyFileSystem(RealFileSystem(), [InjectedFault(*fault) for fault in faults])


def eventually(condition):
    """Waits for something that another thread is about to do."""
    for _ in range(PATIENCE_SECONDS * 100):
        if condition():
            return True
        time.sleep(0.01)
    return False


def test_commit_returns_only_after_the_sync(disk, journal):
    """The frame is written and whole, its sync is under way, and the producer still waits."""
    writer = opened(disk, journal)
    disk.hold()
    with ThreadPoolExecutor(1) as pool:
        committed = pool.submit(writer.queue.commit, b'{"a":1}')
        disk.wait_for_sync()
        assert lines_in(journal) == [b'{"a":1}']
        assert not committed.done()
        disk.let_through()
        assert committed.result(PATIENCE_SECONDS) == (1, 0, 1, 0)
    assert disk.operations[-1] == ("sync", "000001-0000-000001.open.jsonl.zst")
    writer.close()


def test_a_future_is_resolved_only_after_the_sync(disk, journal):
    """The same for coroutines."""
    writer = opened(disk, journal)

    async def check():
        disk.hold()
        future = asyncio.ensure_future(writer.queue.keep(b'{"a":1}'))
        await asyncio.to_thread(disk.wait_for_sync)
        await asyncio.sleep(0.05)
        assert not future.done()
        disk.let_through()
        assert await asyncio.wait_for(future, PATIENCE_SECONDS) == (1, 0, 1, 0)

    asyncio.run(check())
    writer.close()


def test_a_frame_is_written_only_after_the_one_before_it_is_synced(disk, journal):
    """Writes and syncs alternate, whatever waits."""
    writer = opened(disk, journal)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: writer.queue.commit(b"%d" % number), range(60)))
    writer.close()
    acts = [name for name, _ in disk.operations if name in {"write", "sync"}]
    assert acts == ["write", "sync"] * (len(acts) // 2)


def test_what_waits_during_a_sync_becomes_one_frame(disk, journal):
    """While one sync is under way the next frame gathers."""
    writer = opened(disk, journal)
    disk.hold()
    writer.queue.append(b"first")
    disk.wait_for_sync()
    for number in range(50):
        writer.queue.append(b"%d" % number)
    disk.let_through()
    writer.close()
    assert frames_in(journal) == [[b"first"], [b"%d" % number for number in range(50)]]


def test_a_frame_is_bounded_in_bytes(disk, journal, monkeypatch):
    """What waits beyond the size of a frame goes to the next one; a record larger than that stands alone."""
    monkeypatch.setattr("holdfast.journal.commit_queue.FRAME_BYTES", 10)
    writer = opened(disk, journal)
    disk.hold()
    writer.queue.append(b"first")
    disk.wait_for_sync()
    for line in (b"aaaa", b"bbbb", b"cccc", b"d" * 30, b"e"):
        writer.queue.append(line)
    disk.let_through()
    writer.close()
    assert frames_in(journal) == [[b"first"], [b"aaaa", b"bbbb"], [b"cccc"], [b"d" * 30], [b"e"]]


def test_records_of_one_producer_keep_their_order(journal):
    """Four producers mix append and commit; each finds its own records in the order it handed them in."""
    writer = opened(RealFileSystem(), journal)

    def produce(name):
        for number in range(40):
            line = b"%s %d" % (name, number)
            if number % 3:
                writer.queue.append(line)
            else:
                writer.queue.commit(line)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(produce, [b"a", b"b", b"c", b"d"]))
    writer.close()
    written = lines_in(journal)
    assert len(written) == 160
    for name in (b"a", b"b", b"c", b"d"):
        assert [line for line in written if line.startswith(name)] == [
            b"%s %d" % (name, number) for number in range(40)
        ]


def test_a_commit_precedes_nothing_that_was_appended_before_it(disk, journal):
    """Once a commit is acknowledged, what its producer appended before is durable too."""
    writer = opened(disk, journal)
    for number in range(20):
        writer.queue.append(b"a%d" % number)
        place = writer.queue.commit(b"c%d" % number)
        written = lines_in(journal)
        assert written[-2:] == [b"a%d" % number, b"c%d" % number]
        assert frames_in(journal)[place.seq - 1][place.place] == b"c%d" % number
    writer.close()


def test_producers_in_two_event_loops_and_threads_are_all_served(journal):
    """Every record of every producer is acknowledged with its own place."""
    writer = opened(RealFileSystem(), journal, queue_bytes=200)

    async def produce(name):
        async def one(number):
            return await writer.queue.keep(b"%s %d" % (name, number)), b"%s %d" % (name, number)

        return await asyncio.gather(*(one(number) for number in range(50)))

    def in_thread(name):
        return [(writer.queue.commit(b"%s %d" % (name, number)), b"%s %d" % (name, number)) for number in range(50)]

    with ThreadPoolExecutor(4) as pool:
        loops = [pool.submit(asyncio.run, produce(name)) for name in (b"x", b"y")]
        threads = [pool.submit(in_thread, name) for name in (b"p", b"q")]
        acknowledged = [item for future in loops + threads for item in future.result(PATIENCE_SECONDS)]
    writer.close()
    frames = frames_in(journal)
    assert len(acknowledged) == 200
    assert all(frames[place.seq - 1][place.place] == line for place, line in acknowledged)
    assert sorted(lines_in(journal)) == sorted(line for _, line in acknowledged)


def test_a_producer_waits_when_the_queue_is_full(disk, journal):
    """The bytes that wait never exceed the bound; nothing is lost by waiting."""
    writer = opened(disk, journal, queue_bytes=100)
    disk.hold()
    writer.queue.append(b"first")
    disk.wait_for_sync()
    line = b"x" * 30
    producer = threading.Thread(target=lambda: [writer.queue.append(line) for _ in range(10)])
    producer.start()
    assert eventually(lambda: len(writer.queue._pending) == 3)
    time.sleep(0.05)
    assert writer.queue._pending_bytes == 90
    assert producer.is_alive()
    disk.let_through()
    producer.join(PATIENCE_SECONDS)
    writer.close()
    assert lines_in(journal) == [b"first"] + [line] * 10


def test_a_record_larger_than_the_queue_is_let_in_alone(disk, journal):
    """It waits until nothing else does, and stands in a frame of its own."""
    writer = opened(disk, journal, queue_bytes=100)
    disk.hold()
    writer.queue.append(b"first")
    disk.wait_for_sync()
    writer.queue.append(b"small")
    large = threading.Thread(target=writer.queue.append, args=(b"L" * 500,))
    large.start()
    time.sleep(0.05)
    assert writer.queue._pending_bytes == 5
    disk.let_through()
    large.join(PATIENCE_SECONDS)
    writer.queue.append(b"after")
    writer.close()
    frames = frames_in(journal)
    assert [b"L" * 500] in frames
    assert lines_in(journal) == [b"first", b"small", b"L" * 500, b"after"]


def test_the_record_of_a_cancelled_producer_is_written(disk, journal):
    """A reply that was handed in is kept, though nobody waits for it any more, in the frame under way and behind it."""
    writer = opened(disk, journal)

    async def produce():
        disk.hold()
        written = asyncio.ensure_future(writer.queue.keep(b"written"))
        await asyncio.to_thread(disk.wait_for_sync)
        waiting = asyncio.ensure_future(writer.queue.keep(b"waiting"))
        await asyncio.sleep(0)
        for task in (written, waiting):
            task.cancel()
        disk.let_through()
        for task in (written, waiting):
            with pytest.raises(asyncio.CancelledError):
                await task
        await writer.queue.keep(b"next")

    asyncio.run(produce())
    writer.close()
    assert lines_in(journal) == [b"written", b"waiting", b"next"]


def test_a_loop_that_was_closed_before_the_acknowledgement_harms_nobody(disk, journal):
    """The record is written, and the other producers are served."""
    writer = opened(disk, journal)
    disk.hold()
    loop = asyncio.new_event_loop()
    orphan = loop.create_task(writer.queue.keep(b"orphan"))
    loop.run_until_complete(asyncio.sleep(0))
    disk.wait_for_sync()
    loop.close()
    disk.let_through()
    assert writer.queue.commit(b"next").place == 0
    assert not orphan.done()
    writer.close()
    assert lines_in(journal) == [b"orphan", b"next"]


@pytest.mark.parametrize("operation", ["write", "sync"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_resume_45_a_failure_reaches_every_waiter_and_every_later_call(journal, operation, code):
    """Whoever waits for that frame, a later one or for room, and whoever comes later, is told; exit code 5."""
    writer = opened(failing((operation, 3, code)), journal, queue_bytes=10)
    first = [writer.queue.commit(b"one"), writer.queue.commit(b"two")]
    with ThreadPoolExecutor(6) as pool:
        waiting = [pool.submit(writer.queue.commit, b"%d" % number * 9) for number in range(5)]
        told = [future.exception(PATIENCE_SECONDS) for future in waiting]
    assert all(isinstance(error, StorageFailure) and error.exit_code == 5 for error in told)
    for call in (writer.queue.append, writer.queue.commit):
        with pytest.raises(StorageFailure):
            call(b"later")
    with pytest.raises(StorageFailure):
        asyncio.run(writer.queue.keep(b"later"))
    for _ in range(2):
        with pytest.raises(StorageFailure):
            writer.close()
    assert [place.seq for place in first] == [1, 2]
    assert lines_in(journal)[:2] == [b"one", b"two"]


def test_a_failure_reaches_coroutines_that_wait_for_this_sync_or_a_later_one(disk, journal):
    """Coroutines are told like threads: the one in the frame, and those behind it."""
    writer = opened(disk, journal, queue_bytes=10)

    async def produce():
        disk.hold()
        first = asyncio.ensure_future(writer.queue.keep(b"first"))
        await asyncio.to_thread(disk.wait_for_sync)
        others = [asyncio.ensure_future(writer.queue.keep(b"%d" % number * 8)) for number in range(4)]
        await asyncio.sleep(0)
        assert len(writer.queue._pending) == 4
        disk.broken = True
        disk.let_through()
        waiting = asyncio.gather(first, *others, return_exceptions=True)
        return await asyncio.wait_for(waiting, PATIENCE_SECONDS)

    assert [type(error) for error in asyncio.run(produce())] == [StorageFailure] * 5
    with pytest.raises(StorageFailure):
        writer.close()


def test_a_failure_reaches_threads_that_wait_for_room(disk, journal):
    """Whoever is blocked for want of room is woken."""
    writer = opened(disk, journal, queue_bytes=10)
    disk.hold()
    writer.queue.append(b"first")
    disk.wait_for_sync()
    writer.queue.append(b"x" * 10)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(writer.queue.append, b"y" * 9), pool.submit(writer.queue.commit, b"z" * 9)]
        assert eventually(lambda: len(writer.queue._room._waiters) == 2)
        disk.broken = True
        disk.let_through()
        assert [type(future.exception(PATIENCE_SECONDS)) for future in waiting] == [StorageFailure] * 2
    writer.abandon()


def test_a_failed_sync_is_never_tried_again(journal):
    """After one failed sync nothing more is written or synced."""
    disk = HeldDisk()
    writer = opened(FaultyFileSystem(disk, [InjectedFault("sync", 2, errno.EIO)]), journal)
    writer.queue.commit(b"one")
    with pytest.raises(StorageFailure, match="could not be written: Input/output error"):
        writer.queue.commit(b"two")
    before = list(disk.operations)
    with pytest.raises(StorageFailure):
        writer.close()
    assert disk.operations == before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_writer_that_dies_of_something_else_leaves_nobody_waiting(journal):
    """A mistake in a callback ends the writer; its producers are told so."""

    def mistake(ident, _last_seq):
        raise ValueError(f"a mistake at {ident}")

    writer = opened(RealFileSystem(), journal, segment_bytes=1, on_sealed=mistake)
    writer.queue.commit(b"one")
    with pytest.raises(StorageFailure, match="writer stopped; all synced records are intact"):
        writer.queue.commit(b"two")
    writer.abandon()
    assert lines_in(journal)[:1] == [b"one"]


def test_closing_twice_is_harmless(journal):
    """The second close does nothing; what comes after a close is refused."""
    writer = opened(RealFileSystem(), journal)
    writer.queue.append(b"one")
    writer.close()
    writer.close()
    writer.abandon()
    assert lines_in(journal) == [b"one"]
    with pytest.raises(StorageFailure, match="journal is closed"):
        writer.queue.append(b"two")


def test_closing_writes_what_waits(disk, journal):
    """Records that nobody waits for are durable once the writer is closed."""
    writer = opened(disk, journal)
    disk.hold()
    writer.queue.append(b"first")
    disk.wait_for_sync()
    for number in range(10):
        writer.queue.append(b"%d" % number)
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(writer.close)
        disk.let_through()
        closing.result(PATIENCE_SECONDS)
    assert lines_in(journal) == [b"first"] + [b"%d" % number for number in range(10)]


def test_a_producer_that_waits_for_room_is_told_of_a_close(disk, journal):
    """Nobody waits for ever for room in a journal that is closed."""
    writer = opened(disk, journal, queue_bytes=5)
    disk.hold()
    writer.queue.append(b"first")
    disk.wait_for_sync()
    writer.queue.append(b"12345")
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(writer.queue.commit, b"67890")
        assert eventually(lambda: writer.queue._room._waiters)
        closing = pool.submit(writer.close)
        assert eventually(lambda: writer.queue._closed)
        disk.let_through()
        assert isinstance(waiting.exception(PATIENCE_SECONDS), StorageFailure)
        closing.result(PATIENCE_SECONDS)


def test_an_abandoned_writer_writes_nothing_more(disk, journal):
    """As after a crash: what was being written may be there, what waited is not, and the segment is unsealed."""
    writer = opened(disk, journal)
    disk.hold()
    with ThreadPoolExecutor(3) as pool:
        written = pool.submit(writer.queue.commit, b"first")
        disk.wait_for_sync()
        waiting = pool.submit(writer.queue.commit, b"second")
        assert eventually(lambda: writer.queue._pending)
        leaving = pool.submit(writer.abandon)
        assert isinstance(waiting.exception(PATIENCE_SECONDS), StorageFailure)
        disk.let_through()
        leaving.result(PATIENCE_SECONDS)
        assert written.result(PATIENCE_SECONDS) == (1, 0, 1, 0)
    writer.abandon()
    assert lines_in(journal) == [b"first"]
    assert [path.name for path in journal.iterdir()] == ["000001-0000-000001.open.jsonl.zst"]


def test_a_writer_that_failed_can_be_abandoned(journal):
    """Letting go after a failure keeps the failure."""
    writer = opened(failing(("sync", 1, errno.EIO)), journal)
    with pytest.raises(StorageFailure, match="Input/output error"):
        writer.queue.commit(b"one")
    writer.abandon()
    with pytest.raises(StorageFailure, match="Input/output error"):
        writer.queue.append(b"two")


def test_a_segment_that_is_full_is_sealed_once_its_successor_exists(disk, journal):
    """Segments roll at their size, are numbered without a gap, and sealed in order."""
    sealed = []
    writer = opened(disk, journal, segment_bytes=200, on_sealed=lambda *told: sealed.append(told))
    for number in range(6):
        writer.queue.commit(b"record %d" % number)
    writer.close()
    names = sorted(path.name for path in journal.iterdir())
    assert [parse_name(name) for name in names] == [(SegmentId(1, 0, number), True) for number in (1, 2, 3)]
    assert sealed == [(SegmentId(1, 0, number), 2 * number) for number in (1, 2, 3)]
    assert lines_in(journal) == [b"record %d" % number for number in range(6)]
    acts = disk.operations
    second = acts.index(("create", "000001-0000-000002.open.jsonl.zst"))
    assert acts[second + 1] == ("sync_directory", "journal")
    assert second + 1 < acts.index(("rename", "000001-0000-000001.jsonl.zst"))


@pytest.mark.parametrize("fault", [("create", 2, errno.ENOSPC), ("sync", 4, errno.EIO), ("rename", 1, errno.EIO)])
def test_a_roll_that_fails_loses_nothing_that_was_acknowledged(journal, fault):
    """The successor cannot be made, the footer not synced, the name not given: all three end the writer."""
    writer = opened(failing(fault), journal, segment_bytes=250)
    committed = []

    def commit_all():
        for number in range(9):
            writer.queue.commit(b"record %d" % number)
            committed.append(b"record %d" % number)

    with pytest.raises(StorageFailure):
        commit_all()
    assert 0 < len(committed) < 9
    with pytest.raises(StorageFailure):
        writer.close()
    assert lines_in(journal)[: len(committed)] == committed


@pytest.mark.parametrize("fault", [("create", 2, errno.ENOSPC), ("write", 3, errno.ENOSPC), ("sync", 3, errno.EIO)])
def test_resume_49_an_end_that_cannot_be_written_costs_only_itself(journal, fault):
    """The failure is told by close, and again by a second close; the records are there."""
    writer = opened(failing(fault), journal)
    writer.queue.commit(b"one")
    for _ in range(2):
        with pytest.raises(StorageFailure):
            writer.close(lambda pins: b"end %d" % len(pins))
    assert lines_in(journal)[:1] == [b"one"]


def test_the_last_record_stands_in_a_segment_of_its_own(journal):
    """It is given the pins of all segments before it."""
    writer = opened(RealFileSystem(), journal)
    writer.queue.commit(b"one")
    told = []
    writer.close(lambda pins: told.extend(pins) or b"end")
    assert frames_in(journal) == [[b"one"], [b"end"]]
    assert [(pin.number, pin.frames, pin.sealed) for pin in told] == [(1, 1, True)]


def test_a_journal_that_cannot_be_begun_is_a_storage_failure(journal):
    """A full disk at the very first file is told as one."""
    with pytest.raises(StorageFailure, match="No space left on device"):
        opened(failing(("create", 1, errno.ENOSPC)), journal)


@pytest.mark.parametrize("end", ["close", "abandon"])
def test_resume_42_a_writer_number_is_used_once(journal, end):
    """A second writer of the same number is refused before it writes, whether the first has sealed or died."""
    first = opened(RealFileSystem(), journal)
    first.queue.commit(b"one")
    getattr(first, end)()
    before = {path.name: path.read_bytes() for path in journal.iterdir()}
    with pytest.raises(UsageError, match="has already written"):
        opened(RealFileSystem(), journal)
    assert {path.name: path.read_bytes() for path in journal.iterdir()} == before


def test_a_copy_that_cannot_be_written_is_a_storage_failure(journal, tmp_path):
    """What is settled for an earlier session is durable or refused."""
    other = tmp_path / "other"
    other.mkdir()
    source = JournalWriter(RealFileSystem(), other, RUN, 1)
    source.queue.commit(b"one")
    source.abandon()
    reading = Journal(RealFileSystem(), other, RUN)
    frame = reading.read_frame(reading.segments()[0], 0)
    writer = JournalWriter(failing(("sync", 1, errno.EIO)), journal, RUN, 2)
    with pytest.raises(StorageFailure, match="Input/output error"):
        writer.copy(FrameCopy(frame.header, frame.payload, []))
    writer.abandon()


def test_a_record_that_is_put_never_waits_for_room(disk, journal):
    """For a producer that is bounded otherwise; order is kept."""
    writer = opened(disk, journal, queue_bytes=10)
    disk.hold()
    writer.queue.append(b"first")
    disk.wait_for_sync()
    for number in range(5):
        writer.queue.put(b"%d" % number * 9)
    disk.let_through()
    writer.close()
    assert lines_in(journal) == [b"first"] + [b"%d" % number * 9 for number in range(5)]


def test_a_record_that_is_kept_holds_its_cancellation_back_until_it_is_durable(disk, journal):
    """Whoever is cancelled learns of it when the record is safe, and not before."""
    writer = opened(disk, journal)

    async def produce():
        disk.hold()
        task = asyncio.ensure_future(writer.queue.keep(b"kept"))
        await asyncio.to_thread(disk.wait_for_sync)
        task.cancel()
        await asyncio.sleep(0.05)
        assert not task.done()
        disk.let_through()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await writer.queue.keep(b"next") == (1, 0, 2, 0)

    asyncio.run(produce())
    writer.close()
    assert lines_in(journal) == [b"kept", b"next"]


def test_a_kept_record_that_fails_tells_its_failure_also_to_the_cancelled(disk, journal):
    """A record that is not durable counts for more than the wish to stop."""
    writer = opened(FaultyFileSystem(disk, [InjectedFault("sync", 1, errno.EIO)]), journal)

    async def produce():
        task = asyncio.ensure_future(writer.queue.keep(b"lost"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(StorageFailure):
            await task

    asyncio.run(produce())
    with pytest.raises(StorageFailure):
        writer.queue.put(b"later")
    writer.abandon()


def test_a_crash_ordered_in_the_middle_of_a_frame_leaves_half_of_it(journal, monkeypatch):
    """The writer splits its write there, so that a kill strikes between the halves."""
    writer = opened(RealFileSystem(), journal)
    writer.queue.commit(b"whole")
    before = next(journal.iterdir()).stat().st_size
    seen = []
    monkeypatch.setattr(crashpoints, "_armed", crashpoints._ArmedCrash("frame.half-written"))
    monkeypatch.setattr(crashpoints.os, "kill", lambda *_: seen.append(next(journal.iterdir()).stat().st_size))
    writer.queue.commit(b"halved")
    assert before < seen[0] < next(journal.iterdir()).stat().st_size
    writer.close()
    assert lines_in(journal) == [b"whole", b"halved"]
