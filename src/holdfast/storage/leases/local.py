"""One writer: at most one session executes a run.

The authority is the kernel's lock (`flock`) on the file `lease` in the run: it ends with its process in every case,
and no process id is ever trusted. The text in the file only shows people who holds the run. Forked children of the
holder do not share its lock (forked_children.py), and a holder whose file has lost its name notices (held_place.py).

On a filesystem without locks a file `lease-<generation>`, created exclusively, is used instead. Its holder rewrites it
every few seconds. A taker that can see the holder's process asks the kernel; one that cannot watches the file for a
whole lifetime on its own clock, and takes over only if nothing moved. Taking over creates the next generation
exclusively, so of many takers one wins. A holder that finds a newer generation than its own, or that could not rewrite
its file for a lifetime on its own clock, has lost the run.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import threading
import time
import warnings
from pathlib import Path
from typing import Protocol

import msgspec

from holdfast.errors import RunGone, RunHeld, StorageFailure
from holdfast.storage.filesystem import FileSystem, RealFileSystem, is_file_at, open_identity
from holdfast.storage.leases.forked_children import (
    close_in_children,
    end_orphans,
    forget_children,
    processes_with,
    write_child_name,
)
from holdfast.storage.leases.held_place import HeldPlace
from holdfast.storage.leases.holder import (
    AcknowledgedFrames,
    LeaseHolder,
    UnrecordedEnd,
    decode_acknowledged,
    decode_holder,
    decode_unrecorded_end,
    is_alive,
    this_process,
)
from holdfast.storage.leases.writers import LEASE_NAME, end_writers
from holdfast.storage.tolerated_failures import ToleratedFailures

_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_ATTEMPTS, _ATTEMPTS_FAR = 100, 20
_PAUSE_SECONDS = 0.05
_BEATS_IN_LIFETIME = 6
LIFETIME_SECONDS = 30.0
_TEXT_BYTES = 1 << 16


class Lease(Protocol):
    """The right to execute a run, until it is released or its process ends."""

    failures: ToleratedFailures
    notes: list[str]
    """What was found and done when it was taken; for people."""

    @property
    def loss(self) -> RunGone | None:
        """What became of the run's directory, where the run is not at its place any more."""

    @property
    def root(self) -> Path:
        """The held directory itself, whatever has its name by now."""

    def check(self) -> None:
        """Compares the run's place with what is held.

        Raises:
            RunGone: the run was moved, deleted or replaced.
        """

    @property
    def unrecorded(self) -> UnrecordedEnd | None:
        """How the last session ended, if its journal does not say; it stays in the file when the lease is released."""

    def note_end(self, end: UnrecordedEnd | None) -> None:
        """Sets what stays in the file; None if the journal has it."""

    def publish(self, frames: AcknowledgedFrames) -> None:
        """Writes down how far the session has come, for whoever reads the run after a kill."""

    def is_held(self) -> bool: ...
    def is_lost(self) -> bool:
        """Whether it will never be held again; one that is not held at the moment may be renewed."""

    def moved_to(self, run: Path) -> None: ...
    def release(self) -> None: ...


class _FileLockLease:
    """A lease that is the kernel's lock on the file `lease`."""

    def __init__(self, run: Path, fd: int) -> None:
        self._fd = fd
        self._writing = threading.Lock()
        """Held while the file is written or closed: a number that was closed may belong to another file."""
        self.failures, self.notes = ToleratedFailures(), list[str]()
        text = os.pread(fd, _TEXT_BYTES, 0)
        self.killed = decode_holder(text)
        """Whose name is still in the file: of a session that did not end in order."""
        self.unrecorded = decode_unrecorded_end(text)
        self._acknowledged = decode_acknowledged(text)
        self._line = msgspec.json.encode(this_process()) + b"\n"
        self._place = HeldPlace(run, LEASE_NAME, fd)
        close_in_children(self)
        self._write_text(fd)

    def _write_text(self, fd: int) -> None:
        # What a killed session has left is kept until this one has acknowledged something: it is compared before that.
        text = self._line + (msgspec.json.encode(self._acknowledged) if self._acknowledged else b"")
        try:
            os.ftruncate(fd, len(text))
            os.pwrite(fd, text, 0)
        except OSError as error:
            # On a full disk the run is still ours; only its holder's name cannot be read.
            self.failures.note(LEASE_NAME, error)

    @property
    def loss(self) -> RunGone | None:
        return self._place.loss

    @property
    def root(self) -> Path:
        return self._place.root

    def check(self) -> None:
        self._place.check()

    def note_end(self, end: UnrecordedEnd | None) -> None:
        self.unrecorded = end

    def publish(self, frames: AcknowledgedFrames) -> None:
        with self._writing:
            if frames != self._acknowledged and self._fd >= 0:
                self._acknowledged = frames
                self._write_text(self._fd)

    def is_held(self) -> bool:
        return self._fd >= 0 and self._place.loss is None

    def is_lost(self) -> bool:
        return self._fd < 0 or self._place.loss is not None

    def moved_to(self, run: Path) -> None:
        """The run's directory has been renamed; the lock goes with the file."""
        self._place.moved_to(run)

    def release(self) -> None:
        with self._writing:
            if self._fd >= 0:
                forget_children(self._place.directory)
                self._leave_end()
                self._close()

    def _leave_end(self) -> None:
        """Empties the file, or leaves the end in it: that is shorter than what it had, so a full disk has room."""
        text = msgspec.json.encode(self.unrecorded) if self.unrecorded is not None else b""
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, min(len(text), os.fstat(self._fd).st_size))
            os.pwrite(self._fd, text, 0)

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        self._place.close()
        if fd >= 0:
            os.close(fd)

    def leave_to_parent(self) -> None:
        """In a forked child: the lock is the parent's alone; the run learns of the child."""
        if self._fd >= 0:
            write_child_name(self._place.directory)
            self._close()


def take_lease(fs: FileSystem, run: Path, *, lifetime_seconds: float = LIFETIME_SECONDS) -> Lease:
    """The lease of the run in this directory.

    Raises:
        RunHeld: another session is using the run; the message names it.
        StorageFailure: the lease file cannot be opened.
    """
    path = run / LEASE_NAME
    try:
        lease = _take_lock(fs, run)
        lease.notes += end_orphans(lease.root, lease.killed)
        return _take_from_writers(fs, run, lease)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise StorageFailure(
                f"The lease {path} cannot be taken: {error.strerror}.",
                hint="Running or resuming needs a writable directory; commands that only read still work.",
            ) from error
        return _take_without_locks(run, lifetime_seconds)


def _take_from_writers(fs: FileSystem, run: Path, lease: Lease) -> Lease:
    """The lease, once the processes that wrote for the holder before have stopped; they notice by themselves."""
    with contextlib.ExitStack() as undo:
        undo.callback(lease.release)
        # Not by the name of the run: another may have taken it.
        if not end_writers(fs, lease.root if isinstance(fs, RealFileSystem) else run):
            raise RunHeld(
                f"A process that wrote for an earlier session of the run {run} has not stopped.",
                hint="Wait until it ends, or stop it, then resume.",
            )
        undo.pop_all()
    return lease


def _take_lock(fs: FileSystem, run: Path) -> _FileLockLease:
    path = run / LEASE_NAME
    holder: LeaseHolder | None = None
    for attempt in range(_ATTEMPTS):
        if (fd := fs.lock(path)) is not None and (lease := _lease_of_lock(run, fd)) is not None:
            return lease
        # A reader that only looks who holds the run takes the lock for an instant, and writes no name; a name that
        # is there then is a dead holder's.
        holder = decode_holder(path.read_bytes())
        alive = is_alive(holder) if holder else False
        if alive or (alive is None and attempt >= _ATTEMPTS_FAR):
            break
        time.sleep(_PAUSE_SECONDS)
    else:
        if holder is not None:
            raise _held_by_child(run, holder)
    raise run_held(run, holder)


def _lease_of_lock(run: Path, fd: int) -> _FileLockLease | None:
    """The lease that a lock gives; None if the file lost its name before it was locked."""
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, fd)
        if is_file_at(run / LEASE_NAME, open_identity(fd)):
            lease = _FileLockLease(run, fd)
            undo.pop_all()
            return lease
    return None


def _held_by_child(run: Path, dead: LeaseHolder) -> RunHeld:
    """The error where a holder has ended and its lock has not: code that is not Python's has forked a process."""
    keepers = processes_with(run / LEASE_NAME)
    who = ", ".join(keepers) or "a process that cannot be seen from here"
    return RunHeld(
        f"The run {run} was in use by process {dead.pid}, which has ended; its lock is kept by {who}.",
        hint="Stop what keeps it, then resume.",
    )


def run_held(run: Path, holder: LeaseHolder | None) -> RunHeld:
    """The error that says who executes the run."""
    who = str(holder) if holder else "another process"
    return RunHeld(f"The run {run} is in use by {who}.", hint="Wait until it ends, or stop it, then resume.")


def refuse_held(fs: FileSystem, run: Path) -> None:
    """Raises RunHeld if a session executes the run at this moment; the lease itself decides when it is taken."""
    if (holder := find_holder(fs, run)) is not None:
        raise run_held(run, holder)


def find_holder(fs: FileSystem, run: Path) -> LeaseHolder | None:
    """Who executes the run at this moment, or None; for display only."""
    path = run / LEASE_NAME
    if not path.exists() and not _newest_generation(run):
        return None
    try:
        fd = fs.lock(path)
    except OSError:
        current = _newest_generation(run)
        holder = decode_holder(_read_generation(run, current)) if current else None
        return holder if holder and is_alive(holder) is not False and not _is_released(run, current) else None
    if fd is None:
        holder = decode_holder(path.read_bytes())
        # Another reader that looks at this very moment has the lock too; the name is then that of a dead holder.
        return holder if holder and is_alive(holder) is not False else None
    os.close(fd)
    return None


def read_acknowledged(run: Path) -> AcknowledgedFrames | None:
    """How far the session that holds the run, or that was killed last, had come; None where nothing says so."""
    try:
        return decode_acknowledged((run / LEASE_NAME).read_bytes()[:_TEXT_BYTES])
    except OSError:
        return None


def read_unrecorded_end(run: Path) -> UnrecordedEnd | None:
    """How the last session of a run ended, if it could not write that to the journal."""
    try:
        return decode_unrecorded_end((run / LEASE_NAME).read_bytes()[:_TEXT_BYTES])
    except OSError:
        return None


def _generations(run: Path) -> list[int]:
    names = (path.name.removeprefix("lease-") for path in run.iterdir() if path.name.startswith("lease-"))
    return sorted(int(name) for name in names if name.isdigit())


def _newest_generation(run: Path) -> int:
    return max(_generations(run), default=0)


def _generation_path(run: Path, generation: int) -> Path:
    return run / f"lease-{generation}"


def _read_generation(run: Path, generation: int) -> bytes:
    try:
        return _generation_path(run, generation).read_bytes()
    except FileNotFoundError:
        return b""


def _is_released(run: Path, generation: int) -> bool:
    return _read_generation(run, generation).endswith(b"released\n")


class _HeartbeatLease:
    """A lease without locks: a file of this generation, rewritten every few seconds."""

    def __init__(self, run: Path, generation: int, fd: int, lifetime_seconds: float) -> None:
        self._run, self._generation, self._fd = run, generation, fd
        self._lifetime_seconds = lifetime_seconds
        self.failures, self.notes = ToleratedFailures(), list[str]()
        self._place = HeldPlace(run, _generation_path(run, generation).name, fd)
        self._is_parents = False
        close_in_children(self)
        self._line = msgspec.json.encode(this_process()) + b"\n"
        self._stop = threading.Event()
        self._beats = 0
        self._deadline = time.monotonic() + lifetime_seconds
        self._beat()
        self._thread = threading.Thread(target=self._keep_beating, name="holdfast-lease", daemon=True)
        self._thread.start()

    def _beat(self, word: str = "") -> None:
        """Rewrites the file; where that fails or comes too late, the lease runs out by itself."""
        deadline = time.monotonic() + self._lifetime_seconds
        self._beats += 1
        try:
            self._place.check()
            os.pwrite(self._fd, self._line + f"{self._beats} {word}\n".encode(), 0)
            newest = _newest_generation(self._run)
        except RunGone:
            self._deadline = -math.inf
            return
        except OSError as error:
            self.failures.note(LEASE_NAME, error)
            return
        if newest != self._generation:
            self._deadline = -math.inf
        elif self._is_in_time():
            self._deadline = deadline

    def _keep_beating(self) -> None:
        while not self._stop.wait(self._lifetime_seconds / _BEATS_IN_LIFETIME):
            self._beat()

    def _is_in_time(self) -> bool:
        return time.monotonic() < self._deadline

    @property
    def loss(self) -> RunGone | None:
        return self._place.loss

    @property
    def root(self) -> Path:
        return self._place.root

    def check(self) -> None:
        self._place.check()

    @property
    def unrecorded(self) -> UnrecordedEnd | None:
        """None: the file has the heartbeat in it."""
        return None

    def note_end(self, end: UnrecordedEnd | None) -> None:
        """Nothing, as above."""

    def publish(self, frames: AcknowledgedFrames) -> None:
        """Nothing, as above."""

    def is_held(self) -> bool:
        return not self._stop.is_set() and self._is_in_time() and self._place.loss is None

    def is_lost(self) -> bool:
        return not self.is_held()

    def moved_to(self, run: Path) -> None:
        """The run's directory has been renamed, and the file with it."""
        self._run = run
        self._place.moved_to(run)

    def release(self) -> None:
        if not self._stop.is_set() and not self._is_parents:
            self._stop.set()
            self._thread.join()
            self._beat("released")
            self._place.close()
            os.close(self._fd)

    def leave_to_parent(self) -> None:
        """In a forked child: the file is not locked, and the parent alone beats and releases."""
        # Nothing that takes a lock of a thread: another thread of the parent may have had it at the fork.
        self._is_parents = True


def _take_without_locks(run: Path, lifetime_seconds: float) -> Lease:
    warnings.warn(
        f"{run} is on a filesystem without locks; a heartbeat file protects the run instead.",
        RuntimeWarning,
        stacklevel=3,
    )
    current = _newest_generation(run)
    if current and not _is_released(run, current):
        _refuse_if_alive(run, current, lifetime_seconds)
    try:
        fd = os.open(_generation_path(run, current + 1), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        raise run_held(run, _named_holder(run, current + 1)) from None
    if _newest_generation(run) != current + 1:
        os.close(fd)
        _generation_path(run, current + 1).unlink(missing_ok=True)
        raise run_held(run, _named_holder(run, _newest_generation(run)))
    for generation in _generations(run)[:-1]:
        _generation_path(run, generation).unlink(missing_ok=True)
    return _HeartbeatLease(run, current + 1, fd, lifetime_seconds)


def _named_holder(run: Path, generation: int) -> LeaseHolder | None:
    """A process that has just created a lease file; its name follows in an instant."""
    for _ in range(_ATTEMPTS_FAR):
        if holder := decode_holder(_read_generation(run, generation)):
            return holder
        time.sleep(_PAUSE_SECONDS)
    return None


def _refuse_if_alive(run: Path, generation: int, lifetime_seconds: float) -> None:
    before = _read_generation(run, generation)
    holder = decode_holder(before)
    alive = is_alive(holder) if holder else None
    if alive:
        raise run_held(run, holder)
    if alive is None:
        deadline = time.monotonic() + lifetime_seconds
        while time.monotonic() < deadline:
            time.sleep(min(_PAUSE_SECONDS, lifetime_seconds))
            if _read_generation(run, generation) != before:
                raise run_held(run, holder or _named_holder(run, generation))
