"""The records on their way to the journal: from any number of threads and event loops to the one thread that writes.

- `commit` and `keep` return only after the record's frame was synced.
- Records of one producer stay in its order. Nobody waits for a record given to `append` or `put`, but it precedes
  every later one.
- The queue is bounded in bytes. `append` and `commit` wait for room; a record larger than the whole bound is queued
  alone. `put` and `keep` never wait for room, for producers that are bounded in other ways.
- Once the queue has failed nobody is left waiting, and every later call gets StorageFailure.

Records arrive encoded. Encoding at the producer reports a bad value to the code that made it instead of failing a
frame with other records, bounds the queue in real bytes, and leaves nothing that could still change.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future

import msgspec

from holdfast.errors import StorageFailure, UsageError
from holdfast.journal.frame import FRAME_BYTES, RAW_LIMIT, Origin, RecordId

QUEUE_BYTES = 32 << 20

Waiter = asyncio.Future[RecordId] | Future[RecordId] | None


class QueuedRecord(msgspec.Struct, gc=False):
    """A record in the queue, and who waits for it. There is one for every record: a struct is the quickest to make."""

    line: bytes
    key: str
    waiter: Waiter
    record: object = None
    """What the line was made of, for the index that is filled while writing."""


class _UncancellableFuture(asyncio.Future[RecordId]):
    """A future that refuses to be cancelled: its task is cancelled when it is resolved."""

    def cancel(self, msg: object | None = None) -> bool:  # noqa: ARG002 - the signature of a future
        return False


class CommitQueue:
    """Takes records from producers, and gives them to the thread that writes a frame at a time."""

    def __init__(self, queue_bytes: int = QUEUE_BYTES) -> None:
        self._queue_bytes = queue_bytes
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._pending: list[QueuedRecord] = []
        self._pending_bytes = 0
        self._sleeping = False
        self._closed = False
        self._roll_wanted: threading.Event | None = None
        self.failure: StorageFailure | None = None
        """Why nothing more can be recorded, once that is so."""

    # For producers.

    def append(self, line: bytes, key: str = "", record: object = None) -> None:
        """Queues a record without waiting for it; it precedes everything queued later.

        Waits only for room in the queue. Not for an event loop's own thread when the queue may be full: there,
        `put`.

        Raises:
            StorageFailure: the queue has failed or is closed.
        """
        with self._lock:
            self._wait_for_room(len(line))
            self._add(QueuedRecord(line, key, None, record))

    def commit(self, line: bytes, key: str = "", record: object = None) -> RecordId:
        """Queues a record and returns once it is durable.

        Raises:
            StorageFailure: the record could not be made durable; it may or may not be found later.
        """
        waiter: Future[RecordId] = Future()
        with self._lock:
            self._wait_for_room(len(line))
            self._add(QueuedRecord(line, key, waiter, record))
        return waiter.result()

    def put(self, line: bytes, key: str = "", record: object = None) -> None:
        """Queues a record at once, room or not, and does not wait for it; it precedes everything queued later.

        For a producer that queues little before it waits for a record of its own.

        Raises:
            StorageFailure: the queue has failed or is closed.
        """
        with self._lock:
            self._add(QueuedRecord(line, key, None, record))

    async def keep(self, line: bytes, key: str = "", record: object = None) -> RecordId:
        """Queues a record at once, room or not, and returns once it is durable: for a record that cannot be made again.

        Whoever is cancelled meanwhile gets the cancellation when the record is durable, not before.

        Raises:
            StorageFailure: the record could not be made durable.
        """
        waiter = _UncancellableFuture(loop=asyncio.get_running_loop())
        with self._lock:
            self._add(QueuedRecord(line, key, waiter, record))
        try:
            return await waiter
        except asyncio.CancelledError:
            # The record goes first: its reply is paid for, so the cancellation waits until it is durable.
            waiter.result()
            raise

    def _wait_for_room(self, size: int) -> None:
        """Returns once a record of this size fits, or the queue takes none any more."""
        # An empty queue takes a record of any size: one above the bound would otherwise wait without end.
        while self._pending_bytes and self._pending_bytes + size > self._queue_bytes and not self._is_over:
            self._room.wait()

    @property
    def _is_over(self) -> bool:
        return self._closed or self.failure is not None

    def _add(self, record: QueuedRecord) -> None:
        size = len(record.line)
        if self._closed or self.failure is not None or size >= RAW_LIMIT:
            raise self._refusal(size)
        self._pending.append(record)
        self._pending_bytes += size
        # A writer that is busy needs no wake-up: it takes everything that has gathered when its sync is done.
        if self._sleeping:
            self._sleeping = False
            self._wake.notify()

    def _refusal(self, size: int) -> StorageFailure | UsageError:
        if self.failure is not None:
            return self.failure
        if self._closed:
            return StorageFailure("The journal is closed; nothing more can be recorded.")
        return UsageError(f"A record of {size} bytes is more than a frame holds ({RAW_LIMIT}).")

    # For the thread that writes.

    def take(self) -> list[QueuedRecord] | None:
        """Waits for records and gives all of them, up to the size of a frame.

        An empty list means that a new segment was asked for; None, that the queue is closed and empty.
        """
        with self._lock:
            while not self._pending and not self._closed and self._roll_wanted is None:
                self._sleeping = True
                self._wake.wait()
            self._sleeping = False
            if self._roll_wanted is not None and not self._closed:
                return []
            if not self._pending:
                return None
            count = _count_for_frame(self._pending)
            batch, self._pending = self._pending[:count], self._pending[count:]
            self._pending_bytes -= sum(len(record.line) for record in batch)
            self._room.notify_all()
        return batch

    def acknowledge(self, batch: list[QueuedRecord], frame: Origin) -> None:
        """Wakes everybody who waits for a record of a batch, which is now durable as this frame."""
        session, writer, seq = frame
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[RecordId], RecordId]]] = {}
        for place, record in enumerate(batch):
            if record.waiter is None:
                continue
            ident = RecordId(session, writer, seq, place)
            if isinstance(record.waiter, Future):
                record.waiter.set_result(ident)
            else:
                by_loop.setdefault(record.waiter.get_loop(), []).append((record.waiter, ident))
        # One wake-up of a loop for each frame, not for each record: waking a loop costs more than resolving a future.
        for loop, results in by_loop.items():
            _call_in(loop, _resolve, results)

    def fail(self, batch: list[QueuedRecord], failure: StorageFailure) -> None:
        """Fails whoever waits for the batch that was taken or for one after it, and whoever comes later."""
        with self._lock:
            left = batch + self._drop_pending(failure)
        _reject_all(left, failure)

    def _drop_pending(self, failure: StorageFailure) -> list[QueuedRecord]:
        self.failure = failure
        left, self._pending, self._pending_bytes = self._pending, [], 0
        self._room.notify_all()
        return left

    # For the owner.

    def close(self) -> bool:
        """Takes nothing more; `take` still gives what waits. False if that was so before."""
        with self._lock:
            was_open, self._closed = not self._closed, True
            self._wake.notify()
        return was_open

    def abandon(self, failure: StorageFailure) -> bool:
        """Takes nothing more, and drops and fails what still waits. False if the queue was closed before."""
        with self._lock:
            if self._closed:
                return False
            self._closed = True
            # Under one lock: in between, the writing thread would take the records that are to be dropped.
            left = self._drop_pending(failure) if self.failure is None else []
            self._wake.notify()
        _reject_all(left, failure)
        return True

    def request_roll(self) -> threading.Event | None:
        """Asks the thread that writes for a new segment; set once it has started one, None if it never will."""
        with self._lock:
            if self._closed or self.failure is not None:
                return None
            wanted = self._roll_wanted = self._roll_wanted or threading.Event()
            self._wake.notify()
        return wanted

    def end_roll(self) -> None:
        """The new segment that was requested exists, or never will: wakes everybody who waits for it."""
        with self._lock:
            wanted, self._roll_wanted = self._roll_wanted, None
        if wanted is not None:
            wanted.set()


def _count_for_frame(records: list[QueuedRecord]) -> int:
    """How many records, at least one, make up a frame."""
    size = 0
    for count, record in enumerate(records):
        size += len(record.line)
        if size > FRAME_BYTES and count:
            return count
    return len(records)


def _resolve(results: list[tuple[asyncio.Future[RecordId], RecordId]]) -> None:
    for waiter, ident in results:
        if not waiter.done():
            waiter.set_result(ident)


def _reject_all(records: list[QueuedRecord], failure: StorageFailure) -> None:
    """Gives the failure to whoever waits for one of the records, each in its own thread or loop."""
    for record in records:
        if isinstance(record.waiter, Future):
            if not record.waiter.done():
                record.waiter.set_exception(failure)
        elif record.waiter is not None:
            _call_in(record.waiter.get_loop(), _reject, record.waiter, failure)


def _reject(waiter: asyncio.Future[RecordId], failure: StorageFailure) -> None:
    if not waiter.done():
        waiter.set_exception(failure)


def _call_in(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: object) -> None:
    """Runs `function` in the loop's thread; a loop that has been closed has nobody waiting."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *args)
