"""Uploading a run while it grows: a local spool holds it, and sealed segments are uploaded byte for byte.

A store that fails is retried with growing pauses, whatever it or its library does, and an upload that fails stops
nothing; the lag is written where other processes can read it. An error in the program itself is not retried: it ends
the session. Under `durability: remote` a trial counts only once its
segment is in the store.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec

from holdfast.errors import HoldfastError, SegmentConflict, StorageFailure
from holdfast.journal.segment import SegmentId
from holdfast.journal.writer import JournalWriter
from holdfast.run.core.display_text import shell_word
from holdfast.run.remote.upload_lag import LAG_FILE, UploadLag, segments_text, write_lag
from holdfast.run.remote.upload_schedule import UploadSchedule
from holdfast.run.remote.upload_set import UploadSet, segment_key
from holdfast.run.remote.upload_watermark import ConfirmedSegments, write_watermark
from holdfast.run.session.store_copy import ReportUpload
from holdfast.run.session.watermarks import Watermarks
from holdfast.storage.tolerated_failures import ToleratedFailures

UPLOADS = "objects in the store"
"""Under this name the ledger of a session counts what the store did not take."""
_SURVIVED = (HoldfastError, OSError)
"""What a round may end with, and the next one still comes: a failing store or disk. Any other error is one of ours."""
_NOTED_SECONDS = 1.0
"""How often, while uploads fail, it is looked at what other processes should know."""
_LAST_SECONDS = 60.0
"""How long a session waits for its last uploads."""
_PATIENCE_SECONDS, _PATIENCE_WITH_FAILING = 15.0, 5.0
"""How long while every one of them fails; less where the store was failing already."""


class Uploader:
    """Uploads a spool's files to the store, in a thread of its own."""

    def __init__(self, uploads: UploadSet, schedule: UploadSchedule, *, keeps_watermark: bool = False) -> None:
        """With `keeps_watermark`, what the store has confirmed is kept beside the spool, for readers."""
        self._uploads, self._schedule, self._keeps_watermark = uploads, schedule, keeps_watermark
        self._paused_since: Callable[[], str] = str
        self._kept: ConfirmedSegments | None = None
        self._noted: UploadLag | None = None
        self.failures = ToleratedFailures()
        self._journal: JournalWriter | None = None
        self._session = self._own = 0
        self._sealed: deque[tuple[SegmentId, int]] = deque()
        self._watermarks = Watermarks()
        self.uploaded_seq, self.when_uploaded = self._watermarks.confirmed, self._watermarks.when_uploaded
        self._wake = threading.Event()
        self._stop = self._is_rolling = False
        self._thread: threading.Thread | None = None
        self._done = threading.Condition()
        self._rounds = 0
        self.defect: StorageFailure | None = None
        """An error in the program itself that has ended the thread: nothing more is uploaded by this process."""
        self._is_over = False
        """Whether nobody writes for the session any more."""
        self._on_confirmed: Callable[[dict[int, int]], None] = lambda _: None
        self._report: ReportUpload | None = None
        self._reported = (0, 0, "")

    @property
    def url(self) -> str:
        return self._uploads.store.url

    @property
    def interval(self) -> float:
        """How often, in seconds, what was written is sealed and uploaded; it may grow."""
        return self._schedule.interval

    @property
    def lag(self) -> UploadLag:
        return self._uploads.lag

    @property
    def segments_behind(self) -> int:
        """How many sealed segments are not in the store yet."""
        return self.lag.segments

    def lag_text(self) -> str:
        """How far the store is behind, in words; empty where it is not."""
        return str(self.lag)

    @property
    def conflict(self) -> SegmentConflict | None:
        """A segment that the store holds with other bytes, if there is any: then not everything can be uploaded."""
        return self._uploads.conflict

    def watch_lease(self, paused_since: Callable[[], str]) -> None:
        """From now on the lag also says since when nothing starts because the lease could not be renewed."""
        self._paused_since = paused_since

    def start(self, journal: JournalWriter) -> None:
        """Starts to upload what the session writes; `journal` is its writer in this process."""
        self._journal, self._session, self._own = journal, journal.session, journal.writer
        self._thread = threading.Thread(target=self._run, name="holdfast-upload", daemon=True)
        self._thread.start()

    def sealed(self, ident: SegmentId, last_seq: int) -> None:
        """A segment has been sealed; called by the journal's writer in this process."""
        self._sealed.append((ident, last_seq))
        if not self._is_rolling and self.lag.failing_since is None:
            # A full segment is uploaded at once: at this rate the next round would be late.
            self._wake.set()

    def report_confirmed(self, report: Callable[[dict[int, int]], None]) -> None:
        """From now on reports, after every round that confirmed something, how far the store has each writer."""
        self._on_confirmed = report

    def report_uploads(self, report: ReportUpload) -> None:
        """From now on reports what every round has uploaded or failed to, in the uploader's thread."""
        self._report = report

    # The thread.

    def _run(self) -> None:
        is_in_order = False
        try:
            # The first round at once: from then on the store knows of this session.
            while not self._stop:
                self._wake.clear()
                pause = self._schedule.pause(succeeded=self._round())
                self._note_lag()
                self._wait(pause)
            is_in_order = True
        finally:
            if not is_in_order:
                self._note_defect(sys.exc_info()[1])

    def _note_defect(self, error: BaseException | None) -> None:
        """Ends the session: an error of our own would come again in every round, and look like a slow store."""
        self.defect = StorageFailure(
            f"The upload to {self.url} has stopped with an error in holdfast: {type(error).__name__}: {error}.",
            hint=f"All records are intact in {self._uploads.layout.root}. Please report the error with its traceback;"
            f" upload the rest with: holdfast resume {shell_word(self.url)}",
        )
        self.failures.note(UPLOADS, self.defect.message)
        with self._done:
            self._done.notify_all()

    def _wait(self, pause: float) -> None:
        """Waits until the next round is due; meanwhile the lease may run out or be renewed."""
        deadline = time.monotonic() + pause
        while not self._wake.is_set() and (left := deadline - time.monotonic()) > 0:
            self._wake.wait(min(left, _NOTED_SECONDS))
            self._note_lag()

    def _note_lag(self) -> None:
        """Writes the lag for other processes, if it has changed."""
        self.lag.paused_since = self._paused_since()
        if self.lag == self._noted:
            return
        try:
            write_lag(self._uploads.layout.root, self.lag)
            self._noted = msgspec.structs.replace(self.lag)
        except OSError as error:
            self.failures.note(LAG_FILE, error)

    def _round(self) -> bool:
        """Seals what was written, and uploads what is sealed; whether the store took it."""
        try:
            # Read once: another thread may clear it meanwhile.
            if (journal := self._journal) is not None and not self._stop:
                self._roll(journal)
            try:
                self._uploads.upload(everything=self._is_over)
            finally:
                # Of a round that fails, too, what the store has taken counts.
                self._keep_watermark()
                self._confirm()
            self._report_round(self.conflict.message if self.conflict is not None else "")
        except _SURVIVED as error:
            reason = error.message if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
            self._note_failure(reason)
            return False
        finally:
            with self._done:
                self._rounds += 1
                self._done.notify_all()
        self.lag.failing_since, self.lag.reason = None, self._report_conflict()
        return True

    def _note_failure(self, reason: str) -> None:
        if self.lag.failing_since is None:
            self.lag.failing_since = time.monotonic()
        self.lag.reason = reason
        self.failures.note(UPLOADS, reason)
        self._report_round(reason)

    def _keep_watermark(self) -> None:
        """Keeps what the store has, before anybody counts on it."""
        if not self._keeps_watermark:
            return
        found = self._uploads.confirmed()
        if found != self._kept:
            write_watermark(self._uploads.layout.root, found)
            self._kept = found

    def _report_round(self, failure: str) -> None:
        """Reports what differs from the last report, before the callers that wait for the round continue.

        The first rounds may be over before anybody listens: what they did is in the first report.
        """
        before, now = self._reported, (self._uploads.segments_uploaded, self.lag.segments, failure)
        if self._report is not None and now != before:
            self._reported = now
            self._report(now[0] - before[0], now[1], failure)

    def _roll(self, journal: JournalWriter) -> None:
        self._is_rolling = True
        try:
            journal.roll()
        finally:
            self._is_rolling = False

    def _report_conflict(self) -> str:
        """The problem that a person has to solve before everything can be uploaded; retrying does not help."""
        if self.conflict is None:
            return ""
        self.failures.note(UPLOADS, self.conflict.message)
        return self.conflict.message

    def _confirm(self) -> None:
        """Raises the watermark of every writer of the session to what is in the store now."""
        before = self._watermarks.by_writer()
        while self._sealed and self._uploads.is_uploaded(segment_key(self._sealed[0][0], sealed=True)):
            ident, seq = self._sealed.popleft()
            self._watermarks.confirm(ident.writer, seq)
        for writer, seq in self._uploads.uploaded_by_others(self._session, self._own).items():
            self._watermarks.confirm(writer, seq)
        if (after := self._watermarks.by_writer()) != before:
            self._on_confirmed(after)

    # Ending.

    def flush(self, seconds: float) -> bool:
        """Seals and uploads now; whether everything is uploaded within this many seconds.

        A store that fails is not asked more often because of this.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.defect is None:
            self._wait_for_round(deadline)
            if self._has_tried_everything():
                return self.conflict is None
        return False

    def _has_tried_everything(self) -> bool:
        """Whether another round would change nothing: everything is uploaded, but for what only a person can solve."""
        is_done = self.lag.failing_since is None and self._uploads.only_conflicts_remain(everything=self._is_over)
        return is_done and (self.conflict is not None or not self._watermarks.is_awaited)

    def _wait_for_round(self, deadline: float) -> None:
        with self._done:
            before = self._rounds
            if self.lag.failing_since is None:
                self._wake.set()
            is_over = lambda: self._rounds > before or self.defect is not None  # noqa: E731
            self._done.wait_for(is_over, timeout=max(deadline - time.monotonic(), 0.01))

    def finish(self, seconds: float = _LAST_SECONDS) -> None:
        """Uploads what the session's end has added, and what a writer that was killed has left.

        For at most this many seconds; the rest is uploaded next time.
        """
        self._journal, self._is_over = None, True
        patience = _PATIENCE_SECONDS
        if self.lag.failing_since is not None:
            patience = _PATIENCE_WITH_FAILING
            # Once more at once, and from then on with pauses that grow again.
            self._schedule.forgive()
            self._wake.set()
        began = time.monotonic()
        while time.monotonic() < began + seconds and not self._has_failed_for(patience, began):
            if self.flush(_NOTED_SECONDS) or self._has_tried_everything() or self.defect is not None:
                return

    def _has_failed_for(self, seconds: float, began: float) -> bool:
        """Whether the store has taken nothing for so long that the next session has to upload the rest."""
        since = self.lag.failing_since
        return since is not None and time.monotonic() - max(since, began) > seconds

    @property
    def is_behind(self) -> bool:
        """Whether anything that the spool's journal holds is not in the store; for when the session has ended."""
        return bool(self._left())

    def _left(self) -> list[Path]:
        return [path for path in self._uploads.missing(everything=True) if path.stat().st_size]

    def left_text(self) -> str:
        """What is not in the store yet, where it is, and how to upload it; for when the session has ended."""
        left = self._left()
        if not left:
            return ""
        reason = str(
            self.conflict or self._defect_text() or self.lag.reason or "The session ended before they were uploaded."
        )
        here = f"Not in {self.url} yet, but safe in {self._uploads.layout.root}: {segments_text(len(left))}"
        command = "" if self.conflict else f" Upload them with: holdfast resume {shell_word(self.url)}"
        return f"{here}. {reason}{command}"

    def _defect_text(self) -> str:
        return self.defect.message if self.defect is not None else ""

    def upload_late(self) -> None:
        """Uploads whatever there is, once nobody writes any more.

        Raises:
            StorageFailure: the store does not take it.
        """
        self._uploads.upload(everything=True)

    def stop(self) -> None:
        """Ends the thread; what is not uploaded stays in the spool for the next session."""
        self._stop = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
