"""Group commit: many producers, one writer, and no acknowledgement before the sync.

Records queue to one thread, which takes all that wait, writes them as one frame, syncs, and then wakes every producer
of that frame. There is no timer: while one sync is under way the next frame gathers. Promises:

- `commit` returns, and a future from `submit` is resolved, only after the record's frame was synced.
- Frame n+1 is written only after frame n is synced, so at most the last frame of a segment is ever in doubt.
- Records of one producer are kept in the order it handed them in; `append` is not waited for, but precedes what
  follows it.
- The queue is bounded in bytes. A producer beyond the bound waits; a record larger than the whole bound is let in
  alone. `put` and `keep` take a record at once, for producers that are bounded otherwise.
- A failed write or sync ends the writer: every waiter and every later call gets StorageFailure. Nothing is tried
  again.

Records come encoded. Encoding where the record is made refuses a bad value to its own maker instead of failing a
frame of others' records, gives the queue its bound in real bytes, and leaves nothing that could still change.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import StorageFailure, UsageError
from holdfast.journal.frame import RAW_LIMIT, Header, RecordId
from holdfast.journal.segment import SegmentId, SegmentWriter, parse_name
from holdfast.storage import crashpoints
from holdfast.storage.filesystem import FileSystem

QUEUE_BYTES = 32 << 20
SEGMENT_BYTES = 16 << 20
FRAME_BYTES = 8 << 20

Waiter = asyncio.Future[RecordId] | Future[RecordId] | None


class _Item(NamedTuple):
    line: bytes
    key: str
    waiter: Waiter


class _Kept(asyncio.Future[RecordId]):
    """A future that refuses to be cancelled: its task is cancelled when it is resolved."""

    def cancel(self, msg: object | None = None) -> bool:  # noqa: ARG002 - the signature of a future
        return False


class SegmentPin(NamedTuple):
    """How long a segment was when it was last looked at: what must still be there later."""

    session: int
    writer: int
    number: int
    frames: int
    last_digest: str
    sealed: bool


class JournalWriter:
    """Writes one writer's segments of a run, from any number of threads and event loops."""

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        run: bytes,
        session: int,
        *,
        writer: int = 0,
        queue_bytes: int = QUEUE_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
        on_sealed: Callable[[SegmentId], None] | None = None,
    ) -> None:
        self._fs, self._directory, self._run = fs, directory, run
        self._session, self._writer = session, writer
        self._queue_bytes, self._segment_bytes = queue_bytes, segment_bytes
        self._on_sealed = on_sealed
        self._pins: list[SegmentPin] = []
        self._segment = self._open_first()
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._pending: list[_Item] = []
        self._pending_bytes = 0
        self._sleeping = False
        self._closing = False
        self._roll_wanted: threading.Event | None = None
        self.last_sealed_seq = 0
        """The last frame of the newest sealed segment."""
        self._failure: StorageFailure | None = None
        self._room_waiters: list[asyncio.Future[None]] = []
        self._thread = threading.Thread(target=self._run_thread, name="holdfast-journal", daemon=True)
        self._thread.start()

    def _open_first(self) -> SegmentWriter:
        ident = SegmentId(self._session, self._writer, 1)
        try:
            segment = SegmentWriter(self._fs, self._directory, self._run, ident, 1)
            # A writer of the same number may have sealed its first segment, which takes that name away.
            if self._is_alone():
                return segment
            segment.close()
            self._fs.remove(self._directory / ident.filename(sealed=False))
        except FileExistsError:
            pass
        except OSError as error:
            raise _failure(self._directory, error) from error
        raise UsageError(
            f"Writer {self._writer} of session {self._session} has already written to {self._directory}.",
            hint="Give every process of a session a writer number of its own; nothing was written.",
        )

    def _is_alone(self) -> bool:
        parsed = (parse_name(name) for name in self._fs.list(self._directory))
        mine = [ident for ident, _ in filter(None, parsed) if ident[:2] == (self._session, self._writer)]
        return len(mine) == 1

    # Producers.

    def append(self, line: bytes, key: str = "") -> None:
        """Queues a record without waiting for it; it precedes everything handed in later.

        Waits only for room in the queue. Not for an event loop's own thread when the queue may be full: there,
        `submit`.

        Raises:
            StorageFailure: the writer has ended.
        """
        with self._lock:
            while not self._try_put(_Item(line, key, None)):
                self._room.wait()

    def commit(self, line: bytes, key: str = "") -> RecordId:
        """Queues a record and returns once it is durable.

        Raises:
            StorageFailure: the record could not be made durable; it may or may not be found later.
        """
        waiter: Future[RecordId] = Future()
        with self._lock:
            while not self._try_put(_Item(line, key, waiter)):
                self._room.wait()
        return waiter.result()

    async def submit(self, line: bytes, key: str = "", *, wait: bool = True) -> asyncio.Future[RecordId] | None:
        """Queues a record, waiting for room; the future tells when it is durable (None if `wait` is false).

        Once this returns the record will be written even if its caller is cancelled.

        Raises:
            StorageFailure: the writer has ended.
        """
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[RecordId] | None = loop.create_future() if wait else None
        item = _Item(line, key, waiter)
        while True:
            with self._lock:
                if self._try_put(item):
                    return waiter
                room: asyncio.Future[None] = loop.create_future()
                self._room_waiters.append(room)
            await room

    async def commit_async(self, line: bytes, key: str = "") -> RecordId:
        """As `commit`, for a coroutine: returns once the record is durable."""
        waiter = await self.submit(line, key)
        if waiter is None:  # pragma: no cover - submit with wait always gives a future
            raise RuntimeError("no future to wait for")
        return await waiter

    def put(self, line: bytes, key: str = "") -> None:
        """Queues a record at once, room or not, and does not wait for it; it precedes everything handed in later.

        For a producer that hands in little before it waits for a record of its own.

        Raises:
            StorageFailure: the writer has ended.
        """
        with self._lock:
            self._try_put(_Item(line, key, None), always=True)

    async def keep(self, line: bytes, key: str = "") -> RecordId:
        """Queues a record at once, room or not, and returns once it is durable: for what cannot be had again.

        Whoever is cancelled meanwhile gets the cancellation when the record is durable, not before.

        Raises:
            StorageFailure: the record could not be made durable.
        """
        waiter = _Kept(loop=asyncio.get_running_loop())
        with self._lock:
            self._try_put(_Item(line, key, waiter), always=True)
        try:
            return await waiter
        except asyncio.CancelledError:
            # A record that is not durable counts for more than the wish to stop.
            waiter.result()
            raise

    def _try_put(self, item: _Item, *, always: bool = False) -> bool:
        if self._failure is not None:
            raise self._failure
        if self._closing:
            raise StorageFailure("The journal is closed; nothing more can be recorded.")
        size = len(item.line)
        if size >= RAW_LIMIT:
            raise UsageError(f"A record of {size} bytes is more than a frame holds ({RAW_LIMIT}).")
        if not always and self._pending_bytes and self._pending_bytes + size > self._queue_bytes:
            return False
        self._pending.append(item)
        self._pending_bytes += size
        if self._sleeping:
            self._sleeping = False
            self._wake.notify()
        return True

    # The thread.

    def _run_thread(self) -> None:
        batch: list[_Item] | None = []
        failure: StorageFailure | None = StorageFailure(
            "The journal's writer stopped; what was acknowledged is intact."
        )
        try:
            while (batch := self._take()) is not None:
                if batch:
                    self._write(batch)
                else:
                    self._roll_as_wanted()
            failure = None
        except OSError as error:
            failure = _failure(self._directory, error)
        finally:
            # Whatever ended this thread, nobody is left waiting for it.
            if failure is not None:
                self._end(batch or [], failure)
            if self._roll_wanted is not None:
                self._roll_wanted.set()

    def _take(self) -> list[_Item] | None:
        """All that wait, up to the size of a frame; nothing when a new segment is to begin, None once all is done."""
        with self._lock:
            while not self._pending and not self._closing and self._roll_wanted is None:
                self._sleeping = True
                self._wake.wait()
            self._sleeping = False
            if self._roll_wanted is not None and not self._closing:
                return []
            if not self._pending:
                return None
            count = _fitting(self._pending)
            batch, self._pending = self._pending[:count], self._pending[count:]
            self._pending_bytes -= sum(len(item.line) for item in batch)
            self._room.notify_all()
            rooms, self._room_waiters = self._room_waiters, []
        _wake_rooms(rooms)
        return batch

    def _write(self, batch: list[_Item]) -> None:
        if self._segment.bytes >= self._segment_bytes:
            self._roll()
        seq = self._segment.append([item.line for item in batch], [item.key for item in batch if item.key])
        self._acknowledge(batch, seq)
        crashpoints.reach("frame.acknowledged")

    def _acknowledge(self, batch: list[_Item], seq: int) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[RecordId], RecordId]]] = {}
        for index, item in enumerate(batch):
            if item.waiter is None:
                continue
            ident = RecordId(self._session, self._writer, seq, index)
            if isinstance(item.waiter, Future):
                item.waiter.set_result(ident)
            else:
                by_loop.setdefault(item.waiter.get_loop(), []).append((item.waiter, ident))
        for loop, results in by_loop.items():
            _call_in(loop, _resolve, results)

    def _end(self, batch: list[_Item], failure: StorageFailure) -> None:
        """Fails whoever still waits, and whoever comes later."""
        with self._lock:
            self._failure = failure
            left, self._pending = batch + self._pending, []
            self._pending_bytes = 0
            rooms, self._room_waiters = self._room_waiters, []
            self._room.notify_all()
        for item in left:
            if isinstance(item.waiter, Future):
                if not item.waiter.done():
                    item.waiter.set_exception(failure)
            elif item.waiter is not None:
                _call_in(item.waiter.get_loop(), _reject, [(item.waiter, failure)])
        _wake_rooms(rooms)

    # Segments.

    def _roll(self) -> None:
        """Begins the next segment, then seals the present one, whose footer may then vouch for its successor."""
        old = self._segment
        self._segment = SegmentWriter(self._fs, self._directory, self._run, old.ident.next, old.next_seq)
        crashpoints.reach("segment.successor-created")
        try:
            old.seal(successor=True)
        finally:
            old.close()
        self._pins.append(_pin(old, sealed=True))
        self.last_sealed_seq = old.next_seq - 1
        if self._on_sealed:
            self._on_sealed(old.ident)

    def _roll_as_wanted(self) -> None:
        if self._segment.frames:
            self._roll()
        with self._lock:
            wanted, self._roll_wanted = self._roll_wanted, None
        if wanted is not None:
            wanted.set()

    def roll(self, seconds: float) -> None:
        """Has the present segment sealed, if anything is in it, and a new one begun; waits so long at the most."""
        with self._lock:
            if self._closing or self._failure is not None:
                return
            wanted = self._roll_wanted = self._roll_wanted or threading.Event()
            self._wake.notify()
        wanted.wait(seconds)

    def copy(self, header: Header, payload: bytes, keys: list[str]) -> None:
        """Writes a doubtful frame of an earlier segment again; only before any record is handed in.

        Raises:
            StorageFailure: the copy could not be made durable.
        """
        try:
            self._segment.append_copy(header, payload, keys)
        except OSError as error:
            raise _failure(self._directory, error) from error

    def moved_to(self, directory: Path) -> None:
        """The journal's directory has been renamed; only while nothing is being written."""
        self._directory = directory
        self._segment.moved_to(directory)

    @property
    def last_seq(self) -> int:
        """The last frame that was written: whatever is durable now stands in none after it."""
        return self._segment.next_seq - 1

    @property
    def failure(self) -> StorageFailure | None:
        """Why the writer ended, if it did."""
        return self._failure

    def close(self, last: Callable[[list[SegmentPin]], bytes] | None = None) -> None:
        """Writes what waits, then `last`'s record, given the pins of all segments before it, and seals.

        That record stands in a segment of its own, so that neither it nor what it vouches for can vanish unnoticed.

        Raises:
            StorageFailure: something could not be made durable; what was acknowledged is intact.
        """
        with self._lock:
            already, self._closing = self._closing, True
            self._wake.notify()
        self._thread.join()
        try:
            if not already and self._failure is None:
                self._finish(last)
        except OSError as error:
            self._failure = _failure(self._directory, error)
            raise self._failure from error
        finally:
            if not already:
                self._segment.close()
        if self._failure is not None:
            raise self._failure

    def abandon(self) -> None:
        """Stops as a crash would: what still waits is not written, and the segment stays unsealed.

        A frame that is being written is still synced and acknowledged. Does nothing after `close`.
        """
        with self._lock:
            already, self._closing = self._closing, True
        if already:
            return
        if self._failure is None:
            self._end([], StorageFailure("The journal was let go; nothing more can be recorded."))
        with self._lock:
            self._wake.notify()
        self._thread.join()
        self._segment.close()

    def _finish(self, last: Callable[[list[SegmentPin]], bytes] | None) -> None:
        if last is not None:
            # One that was begun a moment ago, and has nothing in it yet, will do.
            if self._segment.frames:
                self._roll()
            crashpoints.reach("session.ending")
            self._segment.append([last(list(self._pins))], [])
        self._segment.seal(successor=False)
        self.last_sealed_seq = self._segment.next_seq - 1
        if self._on_sealed:
            self._on_sealed(self._segment.ident)


def _pin(segment: SegmentWriter, *, sealed: bool) -> SegmentPin:
    return SegmentPin(*segment.ident, segment.frames, segment.last_digest.hex(), sealed)


def _fitting(items: list[_Item]) -> int:
    """How many items, at least one, make up a frame."""
    size = 0
    for count, item in enumerate(items):
        size += len(item.line)
        if size > FRAME_BYTES and count:
            return count
    return len(items)


def _failure(directory: Path, error: OSError) -> StorageFailure:
    return StorageFailure(
        f"The journal {directory} could not be written: {error.strerror or error}.",
        hint="What was acknowledged is intact; put the storage right, then resume.",
    )


def _resolve(results: list[tuple[asyncio.Future[RecordId], RecordId]]) -> None:
    for waiter, ident in results:
        if not waiter.done():
            waiter.set_result(ident)


def _reject(results: list[tuple[asyncio.Future[RecordId], StorageFailure]]) -> None:
    for waiter, failure in results:
        if not waiter.done():
            waiter.set_exception(failure)


def _wake_rooms(rooms: list[asyncio.Future[None]]) -> None:
    for room in rooms:
        _call_in(room.get_loop(), _open_room, room)


def _open_room(room: asyncio.Future[None]) -> None:
    if not room.done():
        room.set_result(None)


def _call_in(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: object) -> None:
    """Runs `function` in the loop's thread; a loop that has been closed has nobody waiting."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *args)
