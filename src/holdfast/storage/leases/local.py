"""One writer: at most one session executes a run.

The authority is the kernel's lock (`flock`) on the file `lease` in the run: it ends with its process in every case,
and no process id is ever trusted. The text in the file only shows people who holds the run.

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

from holdfast.errors import RunHeld, StorageFailure
from holdfast.storage.filesystem import FileSystem
from holdfast.storage.leases.holder import LeaseHolder, decode_holder, is_alive, this_process
from holdfast.storage.leases.writers import LEASE_NAME, end_writers
from holdfast.storage.tolerated_failures import ToleratedFailures

_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_ATTEMPTS, _ATTEMPTS_FAR = 100, 20
_PAUSE_SECONDS = 0.05
_BEATS_IN_LIFETIME = 6
LIFETIME_SECONDS = 30.0


class Lease(Protocol):
    """The right to execute a run, until it is released or its process ends."""

    failures: ToleratedFailures

    def is_held(self) -> bool: ...
    def is_lost(self) -> bool:
        """Whether it will never be held again; one that is not held at the moment may be renewed."""

    def moved_to(self, run: Path) -> None: ...
    def release(self) -> None: ...


class _FileLockLease:
    """A lease that is the kernel's lock on the file `lease`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.failures = ToleratedFailures()
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, msgspec.json.encode(this_process()) + b"\n", 0)
        except OSError as error:
            # On a full disk the run is still ours; only its holder's name cannot be read.
            self.failures.note(LEASE_NAME, error)

    def is_held(self) -> bool:
        return self._fd >= 0

    def is_lost(self) -> bool:
        return self._fd < 0

    def moved_to(self, run: Path) -> None:
        """The run's directory has been renamed; the lock goes with the file."""

    def release(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1


def take_lease(fs: FileSystem, run: Path, *, lifetime_seconds: float = LIFETIME_SECONDS) -> Lease:
    """The lease of the run in this directory.

    Raises:
        RunHeld: another session is using the run; the message names it.
        StorageFailure: the lease file cannot be opened.
    """
    path = run / LEASE_NAME
    try:
        return _take_from_writers(fs, run, _take_lock(fs, run))
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
        if not end_writers(fs, run):
            raise RunHeld(
                f"A process that wrote for an earlier session of the run {run} has not stopped.",
                hint="Wait until it ends, or stop it, then resume.",
            )
        undo.pop_all()
    return lease


def _take_lock(fs: FileSystem, run: Path) -> Lease:
    path = run / LEASE_NAME
    holder: LeaseHolder | None = None
    for attempt in range(_ATTEMPTS):
        if (fd := fs.lock(path)) is not None:
            return _FileLockLease(fd)
        # A reader that only looks who holds the run takes the lock for an instant, and writes no name; a name that
        # stands there then is a dead holder's.
        holder = decode_holder(path.read_bytes())
        alive = is_alive(holder) if holder else False
        if alive or (alive is None and attempt >= _ATTEMPTS_FAR):
            break
        time.sleep(_PAUSE_SECONDS)
    raise run_held(run, holder)


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
        self.failures = ToleratedFailures()
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
            os.pwrite(self._fd, self._line + f"{self._beats} {word}\n".encode(), 0)
            newest = _newest_generation(self._run)
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

    def is_held(self) -> bool:
        return not self._stop.is_set() and self._is_in_time()

    def is_lost(self) -> bool:
        return not self.is_held()

    def moved_to(self, run: Path) -> None:
        """The run's directory has been renamed, and the file with it."""
        self._run = run

    def release(self) -> None:
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            self._beat("released")
            os.close(self._fd)


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
