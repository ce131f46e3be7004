"""The sink of one writer of a session: makes records durable, in order.

It is the only part of the run that a trial sees. A session has one sink in the process that holds the run, and one in
every process that has joined it; each has its own segments, its own sequence numbers and its own watermark.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol

from holdfast.errors import StorageFailure
from holdfast.journal import BlobStore, JournalWriter, RecordId
from holdfast.journal.blobs import BLOB_BYTES
from holdfast.models.environment_keys import know_environment_keys, know_new_environment_keys
from holdfast.run.core.codec import outsource
from holdfast.run.core.keys.key_free_records import key_free_line
from holdfast.run.core.records import Record, StepRecord
from holdfast.run.session.session_lease import SessionLease


class Confirmations(Protocol):
    """Says when a store has the frames of a writer."""

    def when_uploaded(self, writer: int, seq: int, callback: Callable[[], None]) -> None:
        """Calls back, in any thread, once the frame `seq` of this writer of the session is in the store."""


class JournalSink:
    """Takes the records of one writer of a session."""

    def __init__(self, journal: JournalWriter, blobs: BlobStore, lease: SessionLease) -> None:
        self.journal, self._blobs, self._lease = journal, blobs, lease
        self._queue = journal.queue
        self._last_seq = 0
        self._confirmations: Confirmations | None = None
        know_environment_keys()

    def count_when_uploaded(self, confirmations: Confirmations) -> None:
        """From now on what is recorded here counts only once it is in a store."""
        self._confirmations = confirmations

    def _encode(self, record: Record) -> tuple[bytes, str, Record]:
        """The line of a record, its trial, and the record as that line has it."""
        if self._lease.is_lost():
            raise self._lease.lost_error()
        know_new_environment_keys()
        line, record = key_free_line(record)
        if len(line) > BLOB_BYTES:
            # It gets a file of its own, by name: not in a run that has taken the place of this one.
            self._lease.check()
        try:
            return outsource(line, self._blobs), getattr(record, "trial", ""), record
        except OSError as error:
            raise StorageFailure(f"A blob of {self._lease.place} could not be written: {error.strerror}.") from error

    def append(self, record: Record) -> None:
        """Queues a record; waits for room in the queue, not for the record. It precedes everything queued later.

        Raises:
            StorageFailure: the journal has ended.
            RunHeld: the lease ran out, and another session may have taken the run.
        """
        self._queue.append(*self._encode(record))

    def put(self, record: Record) -> None:
        """As `append`, and never waits for room; for those who wait for a later record of theirs."""
        self._queue.put(*self._encode(record))

    async def keep(self, record: Record) -> RecordId:
        """Returns once the record is durable; a cancellation waits until then.

        Raises:
            StorageFailure: it could not be made durable.
            RunHeld: the lease ran out, and another session may have taken the run.
        """
        try:
            ident = await self._queue.keep(*self._encode(record))
        except asyncio.CancelledError:
            # The record is durable anyway, and counts once its frame does.
            self._last_seq = self.journal.last_seq
            raise
        self._last_seq = max(self._last_seq, ident.seq)
        if not self._lease.is_held():
            await self._lease.until_held(is_reply=isinstance(record, StepRecord))
        return ident

    def when_counted(self, report: Callable[[], None]) -> None:
        """Calls `report` once what was kept so far counts: at once, or, where the store decides, when it is up."""
        if self._confirmations is None:
            report()
            return
        loop = asyncio.get_running_loop()

        def uploaded() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                loop.call_soon_threadsafe(report)

        self._confirmations.when_uploaded(self.journal.writer, self._last_seq, uploaded)
