"""Several processes write for one session: who may join, until when, and what the session's end makes of it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from durable import begin_run, begin_session, commit, finish_trials, read_run, run_id, verified
from folds import check_fold
from held_disk import HeldDisk
from holdfast.errors import RunHeld, StorageFailure, UsageError
from holdfast.journal import JournalWriter
from holdfast.run import RunReader, join_session
from holdfast.run.core.records import Status, TrialRecord
from holdfast.storage import RealFileSystem
from holdfast.storage.leases import local
from holdfast.storage.leases.writers import WRITERS_NAME, JoinedLease, end_writers
from holdfast.testing import FaultyFileSystem, InjectedFault
from program import until


@pytest.fixture
def root(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def session(root):
    """A session that holds the run; given up at the end."""
    begun = begin_run(root, planned=4)
    yield begun
    begun.abandon()


def join(session, **options):
    return join_session(session.layout.root, session.number, session.admit_writer(), **options)


def test_the_holder_hands_out_the_numbers_of_the_other_writers(session, root):
    """Each has segments of its own in the same session, and nothing that any of them wrote is lost or twice there."""
    joined = [join(session), join(session)]
    for place, each in enumerate((session, *joined)):
        finish_trials(each, f"t{place}")
    for each in joined:
        each.close()
    session.close("complete")
    read = read_run(root)
    assert read.finished == ["t0", "t1", "t2"]
    assert {ident.writer for ident, _ in read.records} == {0, 1, 2}
    assert {ident.session for ident, _ in read.records} == {1}
    assert verified(root).ok
    with contextlib.closing(RunReader(root)) as reader:
        assert {(pin.writer, pin.sealed) for pin in reader.ends[0].pins} == {(0, True), (1, True), (2, True)}
        assert reader.ends[0].finished == 3
        check_fold(reader)


def test_a_session_that_lets_nobody_in_is_not_joined(session, root):
    """A number has to be handed out first; nothing is written."""
    before = sorted(path.name for path in (root / "journal").iterdir())
    with pytest.raises(RunHeld, match=r"Session 1 of the run .* has ended, or does not let other processes write"):
        join_session(root, 1, 1)
    session.admit_writer()
    for number in (0, 2):
        with pytest.raises(UsageError, match=f"Writer {number} of session 1 was not issued; the numbers 1 to 1 were"):
            join_session(root, 1, number)
    with pytest.raises(RunHeld, match="Session 2 of the run"):
        join_session(root, 2, 1)
    assert sorted(path.name for path in (root / "journal").iterdir()) == before


def test_a_number_is_used_once(session, root):
    """Also after its process has left."""
    number = session.admit_writer()
    join_session(root, 1, number).close()
    with pytest.raises(UsageError, match="Writer 1 of session 1 has already written"):
        join_session(root, 1, number)
    # Whoever was refused holds nothing that the end would have to wait for.
    session.close("complete")


class MeetingLock:
    """A lock whose two users meet when each has given it back."""

    def __init__(self):
        self._lock, self._both, self._depth = threading.RLock(), threading.Barrier(2), threading.local()

    def __enter__(self):
        self._lock.acquire()
        self._depth.now = getattr(self._depth, "now", 0) + 1

    def __exit__(self, *_):
        self._depth.now -= 1
        self._lock.release()
        if not self._depth.now:
            self._both.wait(30)


def test_threads_that_ask_at_once_get_different_numbers(session, monkeypatch):
    """Also where neither goes on before the other has its number too."""
    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(session._writers, "_lock", MeetingLock())
        numbers = [pool.submit(session.admit_writer) for _ in range(2)]
        assert sorted(number.result(60) for number in numbers) == [1, 2]


@pytest.mark.parametrize("joined_before", [False, True])
@pytest.mark.parametrize("how", ["close", "abandon"])
def test_a_session_that_is_over_hands_out_no_number(session, root, how, joined_before):
    """Neither to those who come late nor to the first; the file stays as the end has left it."""
    if joined_before:
        join(session).close()
    session.close("complete") if how == "close" else session.abandon()
    with pytest.raises(RunHeld, match=r"Session 1 of the run .* has ended"):
        session.admit_writer()
    assert not joined_before or (root / WRITERS_NAME).read_bytes() == b""
    begin_session(root).abandon()


@pytest.mark.parametrize("how", ["close", "abandon"])
def test_a_session_that_is_over_is_not_joined(session, root, how):
    """Neither after its end nor after it was given up."""
    number = session.admit_writer()
    session.close("complete") if how == "close" else session.abandon()
    with pytest.raises(RunHeld, match="has ended"):
        join_session(root, 1, number)


@pytest.mark.parametrize("how", ["close", "abandon"])
def test_when_the_session_is_over_a_joined_writer_acknowledges_nothing_more(session, root, how):
    """It stops before the session's end is written, gives back its share, and refuses what comes."""
    joined = join(session)
    finish_trials(joined, "t1")
    session.close("complete") if how == "close" else session.abandon()
    with pytest.raises(RunHeld, match="has ended, or the process that held it is gone"):
        asyncio.run(joined.sink.keep(TrialRecord(trial="t2", attempt=1, status=Status.VALID)))
    with pytest.raises(StorageFailure, match=r"Session 1 of .* has ended"):
        joined.close()
    assert read_run(root).finished == ["t1"]
    assert verified(root).ok
    begin_session(root).abandon()


def test_a_record_that_waits_when_the_session_is_over_is_refused_and_one_being_written_is_kept(session, root):
    """Its producer is told why; the session waits for the write that has begun."""
    disk = HeldDisk()
    joined = join(session, fs=disk)
    disk.hold()
    with ThreadPoolExecutor(3) as pool:
        written = pool.submit(commit, joined, TrialRecord(trial="t1", attempt=1, status=Status.VALID))
        disk.wait_for_sync()
        waiting = pool.submit(commit, joined, TrialRecord(trial="t2", attempt=1, status=Status.VALID))
        until(lambda: joined.sink.journal.queue._pending, "it waits")
        ended = pool.submit(session.close, "complete")
        with pytest.raises(StorageFailure, match=r"Session 1 of .* has ended"):
            waiting.result(30)
        assert not ended.done()
        disk.let_through()
        written.result(30)
        ended.result(30)
    assert read_run(root).finished == ["t1"]
    assert verified(root).ok


def test_nobody_takes_the_run_before_those_who_wrote_for_it_have_stopped(session, root, monkeypatch):
    """Not for a session, and not for anything else that needs the lease."""
    monkeypatch.setattr(local, "end_writers", partial(end_writers, seconds=0.3))
    session.admit_writer()
    share = JoinedLease(RealFileSystem(), root, 1, 1)
    session.sink.journal.abandon()
    # As a kill does it: the lock is gone, and nothing else has changed.
    session.lease.release()
    with pytest.raises(RunHeld, match=r"A process that wrote for an earlier session of the run .* has not stopped"):
        begin_session(root)
    assert share.look() is None
    share.release()
    begin_session(root).abandon()


def test_a_session_does_not_end_while_another_still_writes_for_it(session, root, monkeypatch):
    """Its end would not vouch for what comes after it: the session is left without one, and nothing is lost."""
    monkeypatch.setattr(session._writers, "end", partial(session._writers.end, 0.2))
    session.admit_writer()
    share = JoinedLease(RealFileSystem(), root, 1, 1)
    finish_trials(session, "t1")
    with pytest.raises(StorageFailure, match=r"A process that writes for session 1 of .* has not stopped"):
        session.close("complete")
    share.release()
    with contextlib.closing(RunReader(root)) as reader:
        assert (reader.ends, list(reader.fold.finished())) == ([], ["t1"])


def test_what_waits_at_the_holder_is_written_though_another_does_not_stop(root):
    """It was handed in before the end: it is sealed, and the session is left without an end."""
    disk = HeldDisk()
    session = begin_run(root, planned=2, fs=disk)
    session._writers.end = partial(session._writers.end, 0.1)
    session.admit_writer()
    share = JoinedLease(RealFileSystem(), root, 1, 1)
    disk.hold()
    with ThreadPoolExecutor(3) as pool:
        written = pool.submit(commit, session, TrialRecord(trial="t1", attempt=1, status=Status.VALID))
        disk.wait_for_sync()
        waiting = pool.submit(commit, session, TrialRecord(trial="t2", attempt=1, status=Status.VALID))
        queue = session.sink.journal.queue
        until(lambda: queue._pending, "it waits")
        ended = pool.submit(session.close, "complete")
        until(lambda: queue._closed, "the session ends")
        disk.let_through()
        written.result(30)
        waiting.result(30)
        with pytest.raises(StorageFailure, match=r"A process that writes for session 1 of .* has not stopped"):
            ended.result(30)
    share.release()
    assert not list((root / "journal").glob("*.open.*"))
    with contextlib.closing(RunReader(root)) as reader:
        assert (reader.ends, list(reader.fold.finished())) == ([], ["t1", "t2"])
    begin_session(root).close("complete")
    assert verified(root).ok


def test_a_holder_that_is_gone_is_noticed_by_its_lock_alone(session, root):
    """No process id and no clock is asked."""
    session.admit_writer()
    share = JoinedLease(RealFileSystem(), root, 1, 1)
    assert share.look() is not None
    session.lease.release()
    assert share.look() is None
    assert share.is_lost() and not share.is_held()
    share.release()


def test_terms_that_are_being_written_are_not_taken_for_an_end(session, root):
    """A reader that meets half of them goes by what it knew."""
    session.admit_writer()
    share = JoinedLease(RealFileSystem(), root, 1, 1)
    (root / WRITERS_NAME).write_bytes(b'{"session":1,"admi')
    assert share.look().admitted == 1
    share.release()


def test_where_there_are_no_locks_nobody_else_writes(tmp_path):
    """Nothing would keep a writer and the next session apart."""
    fs = FaultyFileSystem(RealFileSystem(), [InjectedFault("lock", 0, errno.ENOLCK, WRITERS_NAME)])
    session = begin_run(tmp_path / "run", fs=fs)
    with pytest.raises(StorageFailure, match="No other process can write for this session"):
        session.admit_writer()
    session.close("complete")


def test_the_frame_that_a_writer_may_not_have_synced_is_written_again_before_the_end_counts_it(session, root):
    """As the next session does it for the holder's own: the end's count rests on bytes that were synced."""
    joined = join(session)
    finish_trials(joined, "t1")
    joined.abandon()
    session.close("complete")
    last = max((root / "journal").glob("000001-0001-*.open.jsonl.zst"))
    data = last.read_bytes()
    # The power takes the last frame, which held the end of the trial.
    last.write_bytes(data[: len(data) - 20])
    read = read_run(root)
    assert read.finished == ["t1"]
    assert [damage.kind for damage in read.losses] == ["truncated"]


def test_a_writer_that_has_joined_is_read_while_it_writes(session, root):
    """The session's own counts have it, and other readers too."""
    joined = join(session)
    finish_trials(joined, "t1", "t2")
    finish_trials(session, "t3")
    assert session.counts.now().valid == 3
    assert read_run(root).finished == ["t1", "t2", "t3"]
    joined.close()


def test_a_writer_without_a_session_still_loses_nothing(session, root):
    """One that never joined, as an earlier version would, is read, and pinned by the session after it."""
    bare = JournalWriter(RealFileSystem(), root / "journal", run_id(root), 1, writer=7)
    bare.queue.commit(b'{"type":"trial","trial":"t7","attempt":1,"status":"valid"}', "t7")
    session.abandon()
    bare.close()
    begin_session(root).close("complete")
    assert read_run(root).finished == ["t7"]
    assert verified(root).ok
