"""A run open for executing: under its lease, with a journal of this session's own.

Nothing is written or acknowledged once the lease is lost, and nothing is acknowledged while it is in doubt. What fails
beside the journal stops nothing, and stands in the ledger. Where trials count only once they are in a store, nobody is
told of one before.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.errors import RunHeld, StorageFailure
from holdfast.journal import JournalWriter, RecordId, SegmentPin
from holdfast.journal.index.database import INDEX
from holdfast.run.core.codec import encode, outsource
from holdfast.run.core.environment import now
from holdfast.run.core.reader import RunReader
from holdfast.run.core.records import FAILURE, FAILURES, NoteRecord, Record, SessionEndRecord, SessionRecord
from holdfast.run.remote.uploader import Uploader
from holdfast.storage import Lease
from holdfast.storage.leases.remote import LocalAndRemoteLease, RemoteLease
from holdfast.storage.tolerated_failures import ToleratedFailure, ToleratedFailures, merge_failures

_LEASE_SECONDS = 0.2


class RunSession:
    """The one session that executes a run now. Records handed to it become durable, in order."""

    def __init__(self, reader: RunReader, writer: JournalWriter, lease: Lease, session: SessionRecord) -> None:
        self.reader, self._writer, self._lease = reader, writer, lease
        self._queue = writer.queue
        self.session = session
        self.run = reader.run
        self.layout = reader.layout
        self.uploader: Uploader | None = None
        self._last_seq = 0
        self.finished_now: Callable[[], int] = lambda: 0
        """How many trials are finished; set by whoever counts them."""
        self.counts_when_up = False
        """Whether a trial counts only once its segment is in the store."""
        self.derived = ToleratedFailures()
        """Failures to write what is only derived from the journal."""
        self._sources: list[ToleratedFailures] = []
        for source in (self.derived, reader.index.failures, lease.failures):
            self._attend(source)

    def _attend(self, source: ToleratedFailures) -> None:
        """From now on what fails there is in the ledger."""
        self._sources.append(source)
        source.listen(self._write_down)

    def _write_down(self, failure: ToleratedFailure) -> None:
        """The first failure of its kind goes into the journal at once: the session may not live to its end."""
        note = NoteRecord(kind=FAILURE, text=str(failure), data=failure)
        with contextlib.suppress(StorageFailure, RunHeld):
            self._queue.put(self._line(note))

    def failures(self) -> list[ToleratedFailure]:
        """What has failed in this session and stopped nothing."""
        return merge_failures(self._sources)

    @property
    def number(self) -> int:
        return self.session.number

    def _line(self, record: Record) -> bytes:
        if self._lease.is_lost():
            raise self._no_longer_held()
        try:
            return outsource(encode(record), self.reader.blobs)
        except OSError as error:
            raise StorageFailure(f"A blob of {self.layout.root} could not be written: {error.strerror}.") from error

    def _no_longer_held(self) -> RunHeld:
        place = self.uploader.url if self.uploader is not None else self.layout.root
        return RunHeld(
            f"This session holds the run {place} no more; another may be executing it.",
            hint="What was acknowledged is intact; see `holdfast status`, then resume.",
        )

    def append(self, record: Record) -> None:
        """Hands a record in without waiting; it precedes everything handed in later."""
        self._queue.append(self._line(record), getattr(record, "trial", ""))

    def commit(self, record: Record) -> RecordId:
        """Returns once the record is durable.

        Raises:
            StorageFailure: it could not be made durable.
            RunHeld: the lease ran out, and another session may have taken the run.
        """
        return self._queue.commit(self._line(record), getattr(record, "trial", ""))

    async def _until_held(self) -> None:
        """Nothing is acknowledged while the lease is not held; it may be renewed, or turn out to be lost."""
        while not self._lease.is_held():
            if self._lease.is_lost():
                raise self._no_longer_held()
            await asyncio.sleep(_LEASE_SECONDS)

    def go_remote(self, lease: RemoteLease, uploader: Uploader, *, counts_when_up: bool) -> None:
        """From now on the run is also in a store: under its lease, and uploaded as it grows."""
        self._lease = LocalAndRemoteLease(self._lease, lease)
        self.uploader, self.counts_when_up = uploader, counts_when_up
        lease.progress = lambda: (self.finished_now(), self.session.planned)
        lease.behind = lambda: uploader.lag.segments
        for source in (lease.failures, uploader.failures):
            self._attend(source)
        if lease.session < self.number:
            lease.session = self.number
            lease.renew()
        uploader.start(self._writer)

    def is_held(self) -> bool:
        """Whether work may begin now.

        Raises:
            RunHeld: never again: another session may be executing the run.
            SegmentConflict: what is done now could not count.
        """
        if self._lease.is_lost():
            raise self._no_longer_held()
        self.check_store()
        return self._lease.is_held()

    def check_store(self) -> None:
        """Raises SegmentConflict where trials count only once they are up, and the store has no room for them."""
        if self.counts_when_up and self.uploader is not None and self.uploader.conflict is not None:
            raise self.uploader.conflict

    def when_counted(self, tell: Callable[[], None]) -> None:
        """Calls `tell` once what was committed so far counts: at once, or, where the store decides, when it is up."""
        if self.uploader is None or not self.counts_when_up:
            tell()
            return
        loop = asyncio.get_running_loop()

        def up() -> None:
            loop.call_soon_threadsafe(tell)

        self.uploader.when_up(self._last_seq, up)

    def put(self, record: Record) -> None:
        """As `append`, and never waits for room; for those who wait for a later record of theirs.

        Raises:
            StorageFailure: the journal has ended.
        """
        self._queue.put(self._line(record), getattr(record, "trial", ""))

    async def keep(self, record: Record) -> RecordId:
        """As `commit`, for a coroutine that may be cancelled: the cancellation waits until the record is durable.

        Raises:
            StorageFailure: it could not be made durable.
            RunHeld: the lease ran out, and another session may have taken the run.
        """
        try:
            ident = await self._queue.keep(self._line(record), getattr(record, "trial", ""))
        except asyncio.CancelledError:
            # The record is durable all the same, and counts once its frame does.
            self._last_seq = self._writer.last_seq
            raise
        self._last_seq = max(self._last_seq, ident.seq)
        if not self._lease.is_held():
            await self._until_held()
        return ident

    def close(self, how: str, exit_code: int = 0, **fields: Any) -> None:
        """Ends the session in an orderly way: writes what waits, the session's end, and seals.

        Raises:
            StorageFailure: the end could not be recorded; what was acknowledged is intact.
        """

        def last(pins: list[SegmentPin]) -> bytes:
            end = SessionEndRecord(number=self.number, how=how, exit_code=exit_code, at=now(), pins=pins, **fields)
            if found := self.failures():
                end = msgspec.structs.replace(end, ledger={**end.ledger, FAILURES: found})
            return encode(end)

        try:
            self._writer.close(last)
            self._bring_up_index()
            if self.uploader is not None:
                self.uploader.finish()
        finally:
            self.abandon()

    def _bring_up_index(self) -> None:
        """The session has ended; an index that cannot be brought up to that costs time, never data."""
        try:
            self.reader.index.refresh(settle=False, again=False)
        except OSError as error:
            self.reader.index.failures.note(INDEX, error)

    def abandon(self) -> None:
        """Lets go of the run without another word, as a crash would; nothing is written after that."""
        self._writer.abandon()
        if self.uploader is not None:
            self.uploader.stop()
            self._keep_what_is_late(self.uploader)
        self.reader.close()
        self._lease.release()

    def _keep_what_is_late(self, uploader: Uploader) -> None:
        """A session that has lost the run writes no more; what it had goes up all the same, under its own number."""
        if self._lease.is_lost():
            with contextlib.suppress(StorageFailure, OSError):
                uploader.upload_late()
