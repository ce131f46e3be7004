"""A run open for executing: under its lease, with a journal of this session's own.

Nothing is written or acknowledged once the lease is lost, and nothing is acknowledged while it is in doubt. What fails
beside the journal stops nothing, and is counted in the ledger. Where trials count only once they are in a store, none
is reported before.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from holdfast.errors import NotARun, RunHeld, StorageFailure
from holdfast.journal import JournalWriter, RecordId, SegmentPin
from holdfast.run.core.codec import encode, outsource
from holdfast.run.core.provenance import utc_timestamp
from holdfast.run.core.records import (
    FAILURE,
    FAILURES,
    NoteRecord,
    Record,
    SessionEndRecord,
    SessionRecord,
    TrialRecord,
)
from holdfast.run.fold.cut import Cut
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.run_fold import FoldedTrial
from holdfast.run.fold.states import State, StateCounts
from holdfast.run.session.index_feed import IndexFeed
from holdfast.run.session.store_copy import SegmentUploader, StoreCopy
from holdfast.storage import Lease
from holdfast.storage.leases.remote import HolderProgress, LocalAndRemoteLease
from holdfast.storage.tolerated_failures import ToleratedFailure, ToleratedFailures, merge_failures

_LEASE_CHECK_SECONDS = 0.2
T = TypeVar("T")


class RunSession:
    """The one session that executes a run now. Records handed to it become durable, in order."""

    def __init__(self, reader: RunReader, writer: JournalWriter, lease: Lease, record: SessionRecord) -> None:
        self.reader, self._writer, self._lease, self.record = reader, writer, lease, record
        self._queue = writer.queue
        self._feed = IndexFeed(reader, writer.last_seq)
        writer.on_written = self._feed.written
        self.run = reader.run
        self.layout = reader.layout
        self._store: StoreCopy | None = None
        self._last_seq = 0
        self._finished: Callable[[], int] = lambda: 0
        self._on_lease: Callable[[bool], None] = lambda _: None
        self._on_failure: Callable[[ToleratedFailure], None] = lambda _: None
        self.derived = ToleratedFailures()
        """Failures to write what is only derived from the journal."""
        self._sources: list[ToleratedFailures] = []
        for source in (self.derived, reader.index.failures, lease.failures):
            self._watch_failures(source)

    def _watch_failures(self, source: ToleratedFailures) -> None:
        """From now on what fails there is in the ledger."""
        self._sources.append(source)
        source.listen(self._record_failure)

    def _record_failure(self, failure: ToleratedFailure) -> None:
        """The first failure of its kind is recorded at once: the session may be killed before its end."""
        note = NoteRecord(kind=FAILURE, text=str(failure), data=failure)
        with contextlib.suppress(StorageFailure, RunHeld):
            self._queue.put(self._encode_line(note), "", note)
        self._on_failure(failure)

    def report_failures(self, report: Callable[[ToleratedFailure], None]) -> None:
        """Reports the first failure of each kind from now on, from any thread; those of before, at once."""
        self._on_failure = report
        for failure in self.failures():
            report(failure)

    def failures(self) -> list[ToleratedFailure]:
        """What has failed in this session and stopped nothing."""
        return merge_failures(self._sources)

    @property
    def number(self) -> int:
        return self.record.number

    @property
    def uploader(self) -> SegmentUploader | None:
        """What uploads the run, if it is also in a store."""
        return self._store.uploader if self._store is not None else None

    @property
    def counts_when_uploaded(self) -> bool:
        """Whether a trial counts only once its segment is in a store."""
        return self._store is not None and self._store.counts_when_uploaded

    def _encode_line(self, record: Record) -> bytes:
        if self._lease.is_lost():
            raise self._lease_lost()
        try:
            return outsource(encode(record), self.reader.blobs)
        except OSError as error:
            raise StorageFailure(f"A blob of {self.layout.root} could not be written: {error.strerror}.") from error

    def _lease_lost(self) -> RunHeld:
        place = self._store.uploader.url if self._store is not None else self.layout.root
        return RunHeld(
            f"This session holds the run {place} no more; another may be executing it.",
            hint="What was acknowledged is intact; see `holdfast status`, then resume.",
        )

    def append(self, record: Record) -> None:
        """Hands a record in without waiting; it precedes everything handed in later."""
        self._queue.append(self._encode_line(record), getattr(record, "trial", ""), record)

    def commit(self, record: Record) -> RecordId:
        """Returns once the record is durable.

        Raises:
            StorageFailure: it could not be made durable.
            RunHeld: the lease ran out, and another session may have taken the run.
        """
        return self._queue.commit(self._encode_line(record), getattr(record, "trial", ""), record)

    async def _until_held(self) -> None:
        """Nothing is acknowledged while the lease is not held; it may be renewed, or turn out to be lost."""
        self._on_lease(False)
        while not self._lease.is_held():
            if self._lease.is_lost():
                raise self._lease_lost()
            await asyncio.sleep(_LEASE_CHECK_SECONDS)
        self._on_lease(True)

    def report_lease(self, report: Callable[[bool], None]) -> None:
        """Reports from now on whether the lease is held, whenever a record had to wait for that."""
        self._on_lease = report

    def attach_store(self, store: StoreCopy) -> None:
        """From now on the run is also in a store: under its lease, and uploaded as it grows.

        Called once the run has its name and its session record: before, there is nothing that may be uploaded.
        """
        self._lease, self._store = LocalAndRemoteLease(self._lease, store.lease), store
        for source in (store.lease.failures, store.uploader.failures):
            self._watch_failures(source)
        store.lease.publish(self._progress, self.number)
        store.uploader.start(self._writer)

    def publish_finished(self, count: Callable[[], int]) -> None:
        """From now on the lease in the store publishes this count of finished trials."""
        self._finished = count

    def _progress(self) -> HolderProgress:
        behind = self._store.uploader.segments_behind if self._store is not None else 0
        return HolderProgress(self._finished(), self.record.planned, behind)

    def is_held(self) -> bool:
        """Whether work may begin now.

        Raises:
            RunHeld: never again: another session may be executing the run.
            SegmentConflict: what is done now could not count.
        """
        if self._lease.is_lost():
            raise self._lease_lost()
        self.check_store()
        return self._lease.is_held()

    def check_store(self) -> None:
        """Raises SegmentConflict where trials count only once they are up, and the store has no room for them."""
        if self.counts_when_uploaded and self.uploader is not None and self.uploader.conflict is not None:
            raise self.uploader.conflict

    def when_counted(self, report: Callable[[], None]) -> None:
        """Calls `report` once what was committed so far counts: at once, or, where the store decides, when it is up."""
        if self.uploader is None or not self.counts_when_uploaded:
            report()
            return
        loop = asyncio.get_running_loop()

        def uploaded() -> None:
            loop.call_soon_threadsafe(report)

        self.uploader.when_uploaded(self._last_seq, uploaded)

    def put(self, record: Record) -> None:
        """As `append`, and never waits for room; for those who wait for a later record of theirs.

        Raises:
            StorageFailure: the journal has ended.
        """
        self._queue.put(self._encode_line(record), getattr(record, "trial", ""), record)

    async def keep(self, record: Record) -> RecordId:
        """As `commit`, for a coroutine that may be cancelled: the cancellation waits until the record is durable.

        Raises:
            StorageFailure: it could not be made durable.
            RunHeld: the lease ran out, and another session may have taken the run.
        """
        try:
            ident = await self._queue.keep(self._encode_line(record), getattr(record, "trial", ""), record)
        except asyncio.CancelledError:
            # The record is durable all the same, and counts once its frame does.
            self._last_seq = self._writer.last_seq
            raise
        self._last_seq = max(self._last_seq, ident.seq)
        if not self._lease.is_held():
            await self._until_held()
        return ident

    def close(self, how: str, exit_code: int = 0, *, ledger: Mapping[str, Any] | None = None) -> StateCounts | None:
        """Ends the session in an orderly way: writes what waits, the session's end, and seals.

        Gives how the trials stand, or None if the disk cannot say.

        Raises:
            StorageFailure: the end could not be recorded; what was acknowledged is intact.
        """
        end = SessionEndRecord(number=self.number, how=how, exit_code=exit_code, ledger=dict(ledger or {}))
        counts: StateCounts | None = None
        try:
            self._writer.close(lambda pins: self._last_line(end, pins))
            if self.uploader is not None:
                self.uploader.finish()
            with contextlib.suppress(StorageFailure):
                counts = self.counts()
            self._feed.finish(self.layout.index)
        finally:
            self.abandon()
        return counts

    def counts(self) -> StateCounts:
        """How the trials stand, by what is durable now: where the store decides, by what is there.

        Raises:
            StorageFailure: what was written cannot be read.
        """
        return self._ask_fold(self._counts_in)

    def finished_among(self, is_wanted: Callable[[bytes], bool]) -> int:
        """How many of these trials are valid or limited, and count.

        Raises:
            StorageFailure: what was written cannot be read.
        """
        return self._ask_fold(lambda reader: self._finished_among(reader, is_wanted))

    def acknowledged_counts(self) -> StateCounts:
        """How the trials stand by what was acknowledged, once nothing more can be written.

        Raises:
            StorageFailure: it cannot be read.
        """
        return self._ask_again(self._counts_in, Cut(self.number, confirmed={(self.number, 0): self._feed.last_seq}))

    def _ask_fold(self, question: Callable[[RunReader], T]) -> T:
        """Asks a reader that knows everything which is durable now."""
        if self._feed.catch_up() and self._is_newest():
            with self._as_storage_failure():
                return question(self.reader)
        return self._ask_again(question, Cut(self.number))

    def _ask_again(self, question: Callable[[RunReader], T], cut: Cut) -> T:
        """Asks a reader that has folded the frames of this session and those before it once more, up to a cut."""
        with self._as_storage_failure(), contextlib.closing(self.reader.folded_again(cut)) as reader:
            return question(reader)

    @contextlib.contextmanager
    def _as_storage_failure(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error, NotARun) as error:
            raise StorageFailure(f"{self.layout.root} cannot be read: {error}") from error

    def _is_newest(self) -> bool:
        """Whether no other has taken the run: what that one has done is not this session's to report."""
        return max((session.number for session in self.reader.sessions), default=0) <= self.number

    def _counts_in(self, reader: RunReader) -> StateCounts:
        if not self.counts_when_uploaded:
            return reader.fold.counts
        return reader.fold.counts_when_uploaded(lambda trial: self._is_uploaded(reader, trial))

    def _finished_among(self, reader: RunReader, is_wanted: Callable[[bytes], bool]) -> int:
        trials = (trial for trial in reader.fold.trials(State.VALID, State.LIMITED) if is_wanted(trial.packed_key))
        return sum(not self.counts_when_uploaded or self._is_uploaded(reader, trial) for trial in trials)

    def _is_uploaded(self, reader: RunReader, trial: FoldedTrial) -> bool:
        """Whether a result of a finished trial is in the store: the one that counts, or one that it had before."""
        end, confirmed = trial.row.end, self.uploader.uploaded_seq if self.uploader is not None else 0
        if end is None or end.session != self.number or end.seq <= confirmed:
            return True
        return end.attempt > 1 and any(
            isinstance(record := reader.read(placed.line), TrialRecord) and record.status.is_kept
            for placed in reader.lines_of(trial, "trial")
            if placed.ident.session != self.number or placed.ident.seq <= confirmed
        )

    def _last_line(self, end: SessionEndRecord, pins: list[SegmentPin]) -> bytes:
        """The session's end, once everything before it is durable: what failed until then is counted in it.

        It counts what the journal holds, in the store or not: whoever reads it there has what is before it too.
        """
        with contextlib.suppress(StorageFailure):
            counts, kept = self._ask_fold(lambda reader: (reader.fold.counts, reader.fold.kept))
            end = msgspec.structs.replace(
                end, finished=kept, failed=counts.failed, planned=counts.planned, states=counts.states()
            )
        failures = self.failures()
        ledger = {**end.ledger, FAILURES: failures} if failures else end.ledger
        return encode(msgspec.structs.replace(end, at=utc_timestamp(), ledger=ledger, pins=pins))

    def abandon(self) -> None:
        """Gives the run up without writing anything more, as a crash would."""
        self._writer.abandon()
        self._feed.close()
        if self.uploader is not None:
            self.uploader.stop()
            self._upload_after_loss(self.uploader)
        self.reader.close()
        self._lease.release()

    def _upload_after_loss(self, uploader: SegmentUploader) -> None:
        """A session that has lost the run writes no more; what it has is still uploaded, under its own number."""
        if self._lease.is_lost():
            with contextlib.suppress(StorageFailure, OSError):
                uploader.upload_late()
