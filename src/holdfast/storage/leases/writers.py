"""Other processes that write for a session, and how they and the holder of the run know when it has ended.

The file `lease.writers` in the run says for which session others may write, and on what terms. Every such process
holds a shared lock on it (`flock`), which ends with the process in every case.

- The process that ends a session, or takes the run after it, first empties the file, and then waits until all shared
  locks are released.
- A writing process checks the file a few times a second, and whether anybody still has the lock of the file `lease`.
  If the file is empty or that lock is free, it stops, and releases its own lock after its last write.

So nothing is written for a session after its end, or beside the session after it. It works between processes that see
one another's locks: those of one machine, or of several on a filesystem that has locks for all of them.
"""

import contextlib
import os
import threading
import time
from pathlib import Path

import msgspec

from holdfast.errors import RunGone, RunHeld, StorageFailure, UsageError
from holdfast.storage.filesystem import FileSystem
from holdfast.storage.leases.forked_children import close_in_children
from holdfast.storage.leases.held_place import HeldPlace
from holdfast.storage.leases.holder import AcknowledgedFrames, UnrecordedEnd
from holdfast.storage.tolerated_failures import ToleratedFailures

LEASE_NAME, WRITERS_NAME = "lease", "lease.writers"
_LEAVE_SECONDS = 10.0
"""Several times as long as a process needs to notice that it has to stop, and to finish the write it is at."""
_PAUSE_SECONDS = 0.02


class WriterTerms(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the holder of a run publishes for the processes that write for its session."""

    session: int
    admitted: int = 0
    """The highest writer number that was issued; the holder's own is 0."""
    seal_seconds: float = 0.0
    """How often a segment is to be sealed so that it can be uploaded; 0 where the run is in no store."""
    counts_when_uploaded: bool = False
    uploaded: dict[int, int] = {}
    """By writer, the last frame that the store has confirmed."""


class WriterAdmission:
    """The holder's side: issues writer numbers, and ends it for all of them."""

    def __init__(self, fs: FileSystem, run: Path, terms: WriterTerms) -> None:
        self._fs, self._run, self.terms = fs, run, terms
        self._fd = -1
        self._length = 0
        self._is_over = False
        self._have_stopped = True
        # The uploader's thread changes the terms too, and never writes to a descriptor that has been closed.
        self._lock = threading.RLock()

    def admit(self) -> int:
        """The number for one more writer.

        Raises:
            RunHeld: the session has ended.
            StorageFailure: this filesystem has no locks, or the file cannot be written.
        """
        path = self._run / WRITERS_NAME
        try:
            with self._lock:
                if self._is_over:
                    raise _session_over(self._run, self.terms.session)
                if self._fd < 0:
                    self._fd = self._open(path)
                self.change(admitted=self.terms.admitted + 1)
                return self.terms.admitted
        except OSError as error:
            raise StorageFailure(
                f"No other process can write for this session: {path} cannot be used ({error.strerror}).",
                hint="Several processes can write to one run only if its filesystem supports locks.",
            ) from error

    def _open(self, path: Path) -> int:
        # Only to see that there are locks.
        if (locked := self._fs.lock(path, shared=True)) is not None:
            os.close(locked)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def change(self, **fields: object) -> None:
        """Changes the terms, for those who have joined too.

        Raises:
            OSError: the file cannot be written.
        """
        with self._lock:
            self.terms = msgspec.structs.replace(self.terms, **fields)
            if self._fd >= 0:
                # Never shorter than before, so that nobody ever reads the rest of an older text, or an empty file.
                data = msgspec.json.encode(self.terms).ljust(self._length)
                self._length = len(data)
                os.pwrite(self._fd, data, 0)

    def cut_off(self) -> None:
        """Lets nobody write any more, without a look at the place, which another run may have taken."""
        with self._lock:
            fd, self._fd, self._is_over = self._fd, -1, True
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, 0)
            os.close(fd)

    def end(self, seconds: float = _LEAVE_SECONDS) -> bool:
        """Lets nobody write any more, now or later; whether all have stopped within this many seconds."""
        with self._lock:
            fd, self._fd, self._is_over = self._fd, -1, True
        if fd >= 0:
            os.close(fd)
            self._have_stopped = False
            self._have_stopped = end_writers(self._fs, self._run, seconds)
        return self._have_stopped


def end_writers(fs: FileSystem, run: Path, seconds: float = _LEAVE_SECONDS) -> bool:
    """Makes every process that writes for a session of the run stop; whether all have, within this many seconds.

    Raises:
        OSError: the file cannot be written.
    """
    path = run / WRITERS_NAME
    if not path.exists():
        return True
    os.truncate(path, 0)
    deadline = time.monotonic() + seconds
    while (fd := fs.lock(path)) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_SECONDS)
    os.close(fd)
    return True


def _session_over(run: Path, session: int) -> RunHeld:
    return RunHeld(
        f"Session {session} of the run {run} has ended, or does not let other processes write.",
        hint="All synced records are intact; see `holdfast status`, then resume.",
    )


class JoinedLease:
    """What a process that has joined a session has in place of the lease: a share of it, while the holder has it."""

    def __init__(self, fs: FileSystem, run: Path, session: int, writer: int) -> None:
        """Takes a share.

        Raises:
            RunHeld: nobody may write for this session, or not any more.
            UsageError: the number was not issued.
            StorageFailure: the file cannot be used.
        """
        self._fs, self._run, self._session = fs, run, session
        self.failures = ToleratedFailures()
        self.terms = WriterTerms(session, admitted=writer)
        self._is_lost = False
        self.notes: list[str] = []
        self._fd = self._take_share()
        self._place = HeldPlace(run, WRITERS_NAME, self._fd)
        close_in_children(self)
        with contextlib.ExitStack() as undo:
            undo.callback(self.release)
            self._check_admitted(writer)
            undo.pop_all()

    def _take_share(self) -> int:
        path = self._run / WRITERS_NAME
        try:
            fd = self._fs.lock(path, shared=True) if path.exists() else None
        except OSError as error:
            raise StorageFailure(f"{path} cannot be locked: {error.strerror}.") from error
        if fd is None:
            raise _session_over(self._run, self._session)
        return fd

    def _check_admitted(self, writer: int) -> None:
        # Only with the share: a process that ended the session earlier did not wait for this one.
        if (terms := self.look()) is None:
            raise _session_over(self._run, self._session)
        if not 1 <= writer <= terms.admitted:
            raise UsageError(
                f"Writer {writer} of session {self._session} was not issued; the numbers 1 to {terms.admitted} were.",
                hint="The process that holds the run issues the numbers.",
            )

    def look(self) -> WriterTerms | None:
        """The terms as they are now; None, from then on, if the session has ended or its holder is gone."""
        with contextlib.suppress(RunGone):
            self.check()
        if not self._is_lost:
            data = os.pread(self._fd, 1 << 16, 0)
            with contextlib.suppress(msgspec.MsgspecError):
                # What is not readable is the middle of a write; an empty file is the end.
                self.terms = msgspec.json.decode(data, type=WriterTerms)
            self._is_lost = not data or self.terms.session != self._session or self._is_holder_gone()
        return None if self._is_lost else self.terms

    def _is_holder_gone(self) -> bool:
        """Whether nobody has the lock of the run: a holder that was killed has left the rest as it was."""
        try:
            fd = self._fs.lock(self._run / LEASE_NAME, shared=True)
        except OSError:
            # The directory itself may be gone.
            return True
        if fd is not None:
            os.close(fd)
        return fd is not None

    @property
    def loss(self) -> RunGone | None:
        return self._place.loss

    @property
    def root(self) -> Path:
        return self._place.root

    def check(self) -> None:
        try:
            self._place.check()
        except RunGone:
            self._is_lost = True
            raise

    @property
    def unrecorded(self) -> UnrecordedEnd | None:
        """None: the holder of the run looks after the end of the session before."""
        return None

    def note_end(self, end: UnrecordedEnd | None) -> None:
        """Nothing: the end of the session is the holder's."""

    def publish(self, frames: AcknowledgedFrames) -> None:
        """Nothing: the file is the holder's."""

    def is_held(self) -> bool:
        return not self._is_lost

    def is_lost(self) -> bool:
        return self._is_lost

    def moved_to(self, run: Path) -> None:
        """The run's directory has been renamed; the lock goes with the file."""
        self._run = run
        self._place.moved_to(run)

    def release(self) -> None:
        """Gives the share back; only after the last write."""
        self._is_lost = True
        if self._fd >= 0:
            self._place.close()
            os.close(self._fd)
            self._fd = -1

    def leave_to_parent(self) -> None:
        """In a forked child: the share is the parent's alone."""
        self.release()
