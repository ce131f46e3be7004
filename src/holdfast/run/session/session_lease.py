"""The lease of a session, as its records see it: nothing is written once it is lost, or acknowledged while in doubt."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator

from holdfast.errors import HoldfastError, RunGone, RunHeld
from holdfast.run.core.layout import Layout
from holdfast.storage import Lease, RealFileSystem
from holdfast.storage.filesystem import FileSystem
from holdfast.storage.leases.holder import AcknowledgedFrames, UnrecordedEnd
from holdfast.storage.leases.remote import LocalAndRemoteLease, RemoteLease, paused_text

INTACT_HINT = "All synced records are intact; see `holdfast status`, then resume."
_CHECK_SECONDS = 0.2
_DELETION_SECONDS = 0.5


def held_layout(lease: Lease, layout: Layout, fs: FileSystem) -> Layout:
    """The places of a held run, in its directory itself: what is made there is made in no other run.

    Another file system than the machine's own knows the run by its name only.
    """
    return Layout(lease.root) if isinstance(fs, RealFileSystem) else layout


@contextlib.contextmanager
def noticing_loss(lease: Lease) -> Iterator[None]:
    """Lets a block that reads a run by its name end only while that run is there.

    Raises:
        RunGone: it is not, whatever else the block met because of that.
    """
    try:
        yield
    except (HoldfastError, OSError):
        lease.check()
        raise
    lease.check()


class SessionLease:
    """What a session, and each of its sinks, asks about the lease."""

    is_held: Callable[[], bool]
    is_lost: Callable[[], bool]
    """Whether it will never be held again. Asked for every record, so it is the lease's own method."""

    def __init__(self, lease: Lease, place: str, lost: str = "") -> None:
        """`place` names the run in messages; `lost` is what is said where the lease is lost."""
        self._lost = lost
        self._find_journal_loss: Callable[[], RunGone | None] = lambda: None
        self._journal_loss: RunGone | None = None
        self._report: Callable[[bool], None] = lambda _: None
        self._paused_since: Callable[[], str] = str
        self.waiting_replies = 0
        """How many replies are durable and wait for the lease."""
        self._use(lease, place)

    def _use(self, lease: Lease, place: str) -> None:
        self._lease, self.place = lease, place
        self.is_held, self.is_lost = lease.is_held, lease.is_lost

    def add_store(self, remote: RemoteLease, url: str) -> None:
        """From now on the session holds the run only while it holds this lease too."""
        self._use(LocalAndRemoteLease(self._lease, remote), url)
        self._paused_since = remote.paused_since

    def paused_text(self) -> str:
        """What is said while the lease in a store could not be renewed in time; empty while it is held."""
        return paused_text(self._paused_since())

    def watch_journal(self, find_loss: Callable[[], RunGone | None]) -> None:
        """From now on the segment that is being written belongs to the place that is held."""
        self._find_journal_loss = find_loss

    def report(self, report: Callable[[bool], None]) -> None:
        """Reports from now on whether the lease is held, whenever a record had to wait for that."""
        self._report = report

    @property
    def loss(self) -> RunGone | None:
        """What became of the run, where it is not at its place any more."""
        return self._lease.loss or self._journal_loss

    @property
    def notes(self) -> list[str]:
        """What was found and done when the lease was taken; for people."""
        return self._lease.notes

    def check(self) -> None:
        """Looks now, rather than at the next acknowledgement, whether the run is at its place.

        Raises:
            RunGone: it was moved, deleted or replaced, or its journal was.
        """
        self._lease.check()
        if self._journal_loss is None:
            # Where it cannot be said, who writes to the journal meets the error.
            with contextlib.suppress(OSError):
                self._journal_loss = self._find_journal_loss()
            if self._journal_loss is not None:
                self._wait_for_deletion()
        if self._journal_loss is not None:
            raise self._journal_loss

    def _wait_for_deletion(self) -> None:
        """Who deletes a run may delete its journal first: a moment later it is known whether the rest is gone too."""
        deadline = time.monotonic() + _DELETION_SECONDS
        while time.monotonic() < deadline:
            self._lease.check()
            time.sleep(_DELETION_SECONDS / 20)

    def note_end(self, end: UnrecordedEnd) -> None:
        """Leaves the end of the session in the lease file: the journal cannot have it."""
        self._lease.note_end(end)

    def publish(self, frames: AcknowledgedFrames) -> None:
        """Writes down how far the session has come."""
        self._lease.publish(frames)

    def is_in_place(self) -> bool:
        """Whether files of the run may be written by their names: looks now."""
        with contextlib.suppress(RunGone):
            self.check()
        return self.loss is None

    def lost_error(self) -> RunHeld | RunGone:
        """The error for whoever writes to a run that this process has lost."""
        return self.loss or RunHeld(
            self._lost or f"This session has lost the run {self.place}; another session may be using it.",
            hint=INTACT_HINT,
        )

    async def until_held(self, *, is_reply: bool = False) -> None:
        """Returns once the lease is held; `is_reply` if what waits for it is the reply of a call.

        Raises:
            RunHeld: it is lost.
            RunGone: the run is not at its place any more.
        """
        self._report(False)
        self.waiting_replies += is_reply
        try:
            while not self.is_held():
                if self.is_lost():
                    raise self.lost_error()
                await asyncio.sleep(_CHECK_SECONDS)
        finally:
            self.waiting_replies -= is_reply
        self._report(True)

    def release(self) -> None:
        self._lease.release()
