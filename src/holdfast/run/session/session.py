"""A run open for executing: under its lease, with the sink that its records go to, and its end.

A failure outside the journal does not stop the session, and is counted in the ledger. Other processes may write for
the session: the session issues their numbers, and its end vouches for what all of them have written.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.errors import RunHeld, StorageFailure
from holdfast.journal import JournalWriter, SegmentPin
from holdfast.run.core.keys.key_free_records import key_free_line
from holdfast.run.core.provenance import utc_timestamp
from holdfast.run.core.records import FAILURE, FAILURES, NoteRecord, SessionEndRecord, SessionRecord
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.states import StateCounts
from holdfast.run.session.index_feed import IndexFeed
from holdfast.run.session.journal_sink import JournalSink
from holdfast.run.session.session_counts import LeftByWriters, SessionCounts
from holdfast.run.session.session_lease import SessionLease, held_layout
from holdfast.run.session.store_copy import SegmentUploader, StoreCopy
from holdfast.storage import Lease
from holdfast.storage.leases.holder import AcknowledgedFrames, UnrecordedEnd
from holdfast.storage.leases.remote import HolderProgress
from holdfast.storage.leases.writers import WRITERS_NAME, WriterAdmission, WriterTerms
from holdfast.storage.tolerated_failures import ToleratedFailure, ToleratedFailures, merge_failures

_NOTHING_LEFT = LeftByWriters([], [])


class RunSession:
    """The one session that executes a run now."""

    def __init__(self, reader: RunReader, journal: JournalWriter, lease: Lease, record: SessionRecord) -> None:
        self.reader, self.record, self.run, self.layout = reader, record, reader.run, reader.layout
        self.lease = SessionLease(lease, str(self.layout.root))
        self.sink = JournalSink(journal, reader.blobs, self.lease)
        self.held = held_layout(lease, self.layout, reader.fs)
        """The places of the run in its directory itself, until the session has ended."""
        self._feed = IndexFeed(reader, self.lease.is_in_place, self.held.index)
        journal.on_written, journal.check_lease = self._feed.written, lease.check
        self.lease.watch_journal(journal.find_loss)
        self._process = os.getpid()
        self.counts = SessionCounts(reader, self._feed, record.number)
        self._writers = WriterAdmission(reader.fs, self.layout.root, WriterTerms(record.number))
        self._store: StoreCopy | None = None
        self._finished: Callable[[], int] = lambda: 0
        self._on_failure: Callable[[ToleratedFailure], None] = lambda _: None
        self.derived = ToleratedFailures()
        """Failures to write what is only derived from the journal."""
        self._sources: list[ToleratedFailures] = []
        for source in (self.derived, reader.index.failures, lease.failures):
            self._watch_failures(source)

    # What fails beside the journal.

    def _watch_failures(self, source: ToleratedFailures) -> None:
        """From now on what fails there is in the ledger."""
        self._sources.append(source)
        source.listen(self._record_failure)

    def _record_failure(self, failure: ToleratedFailure) -> None:
        """The first failure of its kind is recorded at once: the session may be killed before its end."""
        with contextlib.suppress(StorageFailure, RunHeld):
            self.sink.put(NoteRecord(kind=FAILURE, text=str(failure), data=failure))
        self._on_failure(failure)

    def report_failures(self, report: Callable[[ToleratedFailure], None]) -> None:
        """Reports the first failure of each kind from now on, from any thread; those of before, at once."""
        self._on_failure = report
        for failure in self.failures():
            report(failure)

    def failures(self) -> list[ToleratedFailure]:
        """What has failed in this session and stopped nothing."""
        return merge_failures(self._sources)

    # The lease, and the copy in a store.

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

    def attach_store(self, store: StoreCopy) -> None:
        """From now on the run is also in a store: under its lease, and uploaded as it grows.

        Called once the run has its name and its session record: before, there is nothing that may be uploaded.
        """
        self._store, uploader = store, store.uploader
        self.lease.add_store(store.lease, uploader.url)
        if store.counts_when_uploaded:
            self.sink.count_when_uploaded(uploader)
            self.counts.count_when_uploaded(uploader)
        for source in (store.lease.failures, uploader.failures):
            self._watch_failures(source)
        # At once: a session that is killed before its first renewal has published what it started with.
        finished = self.reader.fold.counts.finished
        self._finished = lambda: finished
        store.lease.publish(self._progress, self.number, self.run.hex())
        self._writers.change(seal_seconds=uploader.interval, counts_when_uploaded=store.counts_when_uploaded)
        uploader.watch_lease(store.lease.paused_since)
        uploader.report_confirmed(self._pass_on_confirmed)
        uploader.start(self.sink.journal)

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
            RunGone: never again: the run is not at its place any more.
            SegmentConflict: what is done now could not count.
            StorageFailure: the upload or the lease has stopped with an error in the program itself.
        """
        if self.lease.is_lost():
            raise self.lease.lost_error()
        self.check_store()
        return self.lease.is_held()

    def check_store(self) -> None:
        """Raises what will not pass: an error of our own in the upload or in the lease, or, where trials count only
        once they are up, a SegmentConflict: the store has no room for them.
        """
        if self.uploader is not None and self.uploader.defect is not None:
            raise self.uploader.defect
        if self._store is not None and self._store.lease.defect is not None:
            raise self._store.lease.defect
        if self.counts_when_uploaded and self.uploader is not None and self.uploader.conflict is not None:
            raise self.uploader.conflict

    # Other processes that write for the session.

    def admit_writer(self) -> int:
        """The number under which one more process may write for this session, with `join_session`.

        Raises:
            RunHeld: the session has ended.
            StorageFailure: the filesystem of the run has no locks.
        """
        return self._writers.admit()

    def _pass_on_confirmed(self, confirmed: dict[int, int]) -> None:
        """Tells the other writers what of theirs the store has; the uploader is in this process."""
        try:
            if self.uploader is not None:
                # The interval grows with the age of the session, for all its writers.
                self._writers.change(uploaded=confirmed, seal_seconds=self.uploader.interval)
        except OSError as error:
            self.derived.note(WRITERS_NAME, error)

    def _end_writers(self) -> LeftByWriters:
        """Stops the other writers, and gives what they have left.

        Raises:
            StorageFailure: one of them has not stopped, or what they left cannot be read.
        """
        # Also where nobody has joined: from now on nobody can.
        have_stopped = self._have_writers_stopped()
        if not self._writers.terms.admitted:
            return _NOTHING_LEFT
        if not have_stopped:
            raise StorageFailure(
                f"A process that writes for session {self.number} of {self.lease.place} has not stopped.",
                hint="All synced records are intact; stop that process, then resume.",
            )
        left = self.counts.left_by_others(self.sink.journal.writer)
        for doubtful in left.doubtful:
            # Its records are rewritten; this is for the pin, which says how long the segment is.
            with contextlib.suppress(OSError), self.reader.journal.scan(doubtful.segment) as scan:
                scan.file.sync()
        return left

    def _have_writers_stopped(self) -> bool:
        try:
            return self._writers.end()
        except OSError as error:
            raise StorageFailure(f"{self.layout.root / WRITERS_NAME} cannot be used: {error.strerror}.") from error

    def acknowledged_frames(self) -> AcknowledgedFrames:
        """How far this process has come: what it has acknowledged is durable."""
        journal = self.sink.journal
        # The number first: a segment may begin meanwhile.
        seq = journal.acknowledged_seq
        return AcknowledgedFrames(self.number, journal.writer, journal.segment_number, seq)

    # The end.

    def acknowledged_counts(self) -> StateCounts:
        """The states of the trials by what was acknowledged, once nothing more can be written.

        Raises:
            StorageFailure: it cannot be read.
        """
        journal = self.sink.journal
        return self.counts.acknowledged(journal.writer, journal.acknowledged_seq)

    def close(self, how: str, exit_code: int = 0, *, ledger: Mapping[str, Any] | None = None) -> StateCounts | None:
        """Ends the session in an orderly way: writes what waits, the session's end, and seals.

        Gives the states of the trials, or None if the disk cannot say. Where another writer does not stop,
        what waits is written and sealed anyway, without an end: that would vouch for what is still being
        written.

        Raises:
            StorageFailure: the end could not be recorded; acknowledged records are intact.
        """
        end = SessionEndRecord(number=self.number, how=how, exit_code=exit_code, ledger=dict(ledger or {}))
        counts: StateCounts | None = None
        try:
            # The other writers stop first: the end vouches for their segments too.
            left = self._end_writers_or_seal()
            copies = [doubtful.copy for doubtful in left.doubtful]
            self.sink.journal.close(lambda pins: self._last_line(end, [*pins, *left.pins]), copies)
            if self.uploader is not None:
                self.uploader.finish()
            with contextlib.suppress(StorageFailure):
                counts = self.counts.now()
            self._feed.finish()
        except StorageFailure:
            self.note_end(how, exit_code)
            raise
        finally:
            self.abandon()
        return counts

    def note_end(self, how: str, exit_code: int) -> None:
        """Leaves the session's end outside the journal, which cannot be written; before the run is given up."""
        self.lease.note_end(UnrecordedEnd(self.number, how, exit_code, utc_timestamp()))

    def _end_writers_or_seal(self) -> LeftByWriters:
        try:
            return self._end_writers()
        except StorageFailure:
            self.sink.journal.close()
            raise

    def _last_line(self, end: SessionEndRecord, pins: list[SegmentPin]) -> bytes:
        """The session's end, once everything before it is durable: what failed until then is counted in it.

        It counts what the journal holds, in the store or not: whoever reads it there has what is before it too.
        """
        with contextlib.suppress(StorageFailure):
            counts, kept = self.counts.on_record()
            end = msgspec.structs.replace(
                end, finished=kept, failed=counts.failed, planned=counts.planned, states=counts.states()
            )
        failures = self.failures()
        ledger = {**end.ledger, FAILURES: failures} if failures else end.ledger
        return key_free_line(msgspec.structs.replace(end, at=utc_timestamp(), ledger=ledger, pins=pins))[0]

    def abandon(self) -> None:
        """Gives the run up without writing anything more, as a crash would."""
        if os.getpid() != self._process:
            # A child that a task has forked, and that left the task: the run is its parent's.
            return
        with contextlib.ExitStack() as undo:
            # Released last: until then no other session can start.
            undo.callback(self.lease.release)
            undo.callback(self.reader.close)
            self.sink.journal.abandon()
            self._feed.close()
            if self.uploader is not None:
                self.uploader.stop()
            if not self.lease.is_in_place():
                self._writers.cut_off()
                return
            with contextlib.suppress(StorageFailure, OSError):
                if self._have_writers_stopped() and self.uploader is not None and self.lease.is_lost():
                    # A session that has lost the run writes no more; what it has is uploaded under its own number.
                    self.uploader.upload_late()
