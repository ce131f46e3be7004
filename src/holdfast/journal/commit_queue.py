"""The records on their way to the journal: from any number of threads and event loops to one that writes.

- `commit` returns, and a future from `submit` is resolved, only after the record's frame was synced.
- Records of one producer are kept in the order it handed them in; `append` is not waited for, but precedes what
  follows it.
- The queue is bounded in bytes. A producer beyond the bound waits; a record larger than the whole bound is let in
  alone. `put` and `keep` take a record at once, for producers that are bounded otherwise.
- Once the writer has ended nobody is left waiting, and every later call gets StorageFailure.

Records come encoded. Encoding where the record is made refuses a bad value to its own maker instead of failing a
frame of others' records, gives the queue its bound in real bytes, and leaves nothing that could still change.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from holdfast.errors import StorageFailure, UsageError
from holdfast.journal.frame import RAW_LIMIT, RecordId

QUEUE_BYTES = 32 << 20
FRAME_BYTES = 8 << 20

Waiter = asyncio.Future[RecordId] | Future[RecordId] | None


class Item(NamedTuple):
    """A record in the queue, and who waits for it."""

    line: bytes
    key: str
    waiter: Waiter


class _Kept(asyncio.Future[RecordId]):
    """A future that refuses to be cancelled: its task is cancelled when it is resolved."""

    def cancel(self, msg: object | None = None) -> bool:  # noqa: ARG002 - the signature of a future
        return False


class RecordQueue:
    """Takes records in, and hands them out a frame at a time."""

    def __init__(self, session: int, writer: int, queue_bytes: int) -> None:
        self._session, self._writer, self._queue_bytes = session, writer, queue_bytes
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._pending: list[Item] = []
        self._pending_bytes = 0
        self._sleeping = False
        self._closing = False
        self._roll_wanted: threading.Event | None = None
        self._failure: StorageFailure | None = None
        self._room_waiters: list[asyncio.Future[None]] = []

    # For producers.

    def append(self, line: bytes, key: str = "") -> None:
        """Queues a record without waiting for it; it precedes everything handed in later.

        Waits only for room in the queue. Not for an event loop's own thread when the queue may be full: there,
        `submit`.

        Raises:
            StorageFailure: the writer has ended.
        """
        with self._lock:
            while not self._try_put(Item(line, key, None)):
                self._room.wait()

    def commit(self, line: bytes, key: str = "") -> RecordId:
        """Queues a record and returns once it is durable.

        Raises:
            StorageFailure: the record could not be made durable; it may or may not be found later.
        """
        waiter: Future[RecordId] = Future()
        with self._lock:
            while not self._try_put(Item(line, key, waiter)):
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
        item = Item(line, key, waiter)
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
            self._try_put(Item(line, key, None), always=True)

    async def keep(self, line: bytes, key: str = "") -> RecordId:
        """Queues a record at once, room or not, and returns once it is durable: for what cannot be had again.

        Whoever is cancelled meanwhile gets the cancellation when the record is durable, not before.

        Raises:
            StorageFailure: the record could not be made durable.
        """
        waiter = _Kept(loop=asyncio.get_running_loop())
        with self._lock:
            self._try_put(Item(line, key, waiter), always=True)
        try:
            return await waiter
        except asyncio.CancelledError:
            # A record that is not durable counts for more than the wish to stop.
            waiter.result()
            raise

    def _try_put(self, item: Item, *, always: bool = False) -> bool:
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

    # For the thread that writes.

    def _take(self) -> list[Item] | None:
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

    def _acknowledge(self, batch: list[Item], seq: int) -> None:
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

    def _end(self, batch: list[Item], failure: StorageFailure) -> None:
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


def _fitting(items: list[Item]) -> int:
    """How many items, at least one, make up a frame."""
    size = 0
    for count, item in enumerate(items):
        size += len(item.line)
        if size > FRAME_BYTES and count:
            return count
    return len(items)


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
