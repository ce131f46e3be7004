"""The copy of a session's run in an object store: a lease there, and an uploader.

The uploader itself is in `run/remote`, above this package; the code that opens the session passes it in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from holdfast.errors import SegmentConflict, StorageFailure
from holdfast.journal import JournalWriter
from holdfast.storage.leases.remote import RemoteLease
from holdfast.storage.tolerated_failures import ToleratedFailures

ReportUpload = Callable[[int, int, str], None]
"""Gets how many segments a store has just taken, how many are still missing there, and why, if it failed."""


class SegmentUploader(Protocol):
    """Uploads what a session writes."""

    @property
    def url(self) -> str: ...

    @property
    def failures(self) -> ToleratedFailures: ...

    @property
    def conflict(self) -> SegmentConflict | None:
        """A segment that the store holds with other bytes, if there is any: then not everything can be uploaded."""

    @property
    def defect(self) -> StorageFailure | None:
        """An error in the program itself, after which nothing more is uploaded, if there was one."""

    @property
    def interval(self) -> float:
        """How often, in seconds, what was written is sealed and uploaded; it may grow."""

    def uploaded_seq(self, writer: int) -> int:
        """The last frame of this writer of the session that the store has confirmed."""

    @property
    def segments_behind(self) -> int:
        """How many sealed segments are not in the store yet."""

    def lag_text(self) -> str:
        """How far the store is behind, in words; empty where it is not."""

    @property
    def is_behind(self) -> bool:
        """Whether anything is not in the store; for when the session has ended."""

    def watch_lease(self, paused_since: Callable[[], str]) -> None:
        """From now on the lag also says since when nothing starts because the lease could not be renewed."""

    def report_uploads(self, report: ReportUpload) -> None:
        """From now on reports what every round has uploaded or failed to, in the uploader's thread."""

    def report_confirmed(self, report: Callable[[dict[int, int]], None]) -> None:
        """From now on reports, after every round that confirmed something, how far the store has each writer."""

    def start(self, journal: JournalWriter) -> None:
        """Starts to upload what the session writes; `journal` is its writer in this process."""

    def when_uploaded(self, writer: int, seq: int, callback: Callable[[], None]) -> None:
        """Calls back, in any thread, once the frame `seq` of this writer of the session is in the store."""

    def flush(self, seconds: float) -> bool:
        """Seals and uploads now; whether everything is uploaded within this many seconds."""

    def finish(self) -> None:
        """Uploads what the session's end has added, and what a writer that was killed has left, for a bounded time."""

    def left_text(self) -> str:
        """What is not in the store yet, where it is, and how to upload it; for when the session has ended."""

    def upload_late(self) -> None:
        """Uploads whatever there is, once nobody writes any more.

        Raises:
            StorageFailure: the store does not take it.
        """

    def stop(self) -> None:
        """Ends the upload; what is not uploaded stays in the spool for the next session."""


@dataclass(frozen=True)
class StoreCopy:
    """The copy of a run in an object store, while a session is using the run."""

    lease: RemoteLease
    uploader: SegmentUploader
    counts_when_uploaded: bool
    """Whether a trial counts only once its segment is in the store."""
