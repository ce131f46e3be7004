"""Directories for files that exist only while a process works: what a killed process has left is removed by the next.

A process holds a lock on a file in its directory. A directory whose lock is free belongs to no process any more,
whichever container or namespace it was made in.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from types import TracebackType

PREFIX = "holdfast-"
_LOCK = ".lock"


class ScratchDirectory:
    """A directory of this process's own, among the temporary files of the system."""

    def __init__(self) -> None:
        _remove_abandoned(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = os.open(self.path / "new", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        # Whoever does not close it: at the end of the process it is removed all the same.
        self._remove = weakref.finalize(self, _remove, self.path, lock)
        # Under its name only when it is held: until then nobody takes the directory for an abandoned one.
        # Where there are no locks it never gets that name, and what a killed process leaves stays.
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
            (self.path / "new").rename(self.path / _LOCK)

    def close(self) -> None:
        """Removes it."""
        self._remove()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _remove(path: Path, lock: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


def _remove_abandoned(place: Path) -> None:
    for lock in place.glob(f"{PREFIX}*/{_LOCK}"):
        with contextlib.suppress(OSError):
            fd = os.open(lock, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(fd)
