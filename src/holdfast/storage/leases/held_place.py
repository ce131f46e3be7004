"""Where a held run is: a session notices that its run was moved, deleted or replaced, and stops.

A lock belongs to a file, not to a name. If the file `lease` is deleted or the whole run is moved away, its lock keeps
nobody out of what is at the old path from then on. So the holder compares the file at that path with the one that it
has locked before it acknowledges anything. A run that was moved and linked back under its old name is still there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from pathlib import Path

from holdfast.errors import RunGone
from holdfast.storage.filesystem import FileIdentity, is_file_at, open_identity
from holdfast.storage.operating_system import is_deleted, name_of_directory, path_of_descriptor

_DELETION_SECONDS = 0.5


class HeldPlace:
    """The directory of a held run, and the file in it whose lock is held."""

    def __init__(self, run: Path, name: str, fd: int) -> None:
        """`fd` is open on the file `name` in the run.

        Raises:
            OSError: that file is not in the directory that is at `run` now.
        """
        self._name, self._identity = name, open_identity(fd)
        self.directory = _open_directory_of(run, name, self._identity)
        """Open on the run, wherever it is moved to."""
        self._lock = threading.Lock()
        self.loss: RunGone | None = None
        """What was found, once the run was not where it had been; it stays lost."""
        self.moved_to(run)

    def moved_to(self, run: Path) -> None:
        """The run's directory was renamed by its holder."""
        # Absolute, because a task may change the working directory.
        self._run = run.absolute()
        self._path = str(self._run / self._name)

    @property
    def root(self) -> Path:
        """The held directory itself, whatever has its name by now; its name where this system has no such path."""
        with contextlib.suppress(OSError):
            held = path_of_descriptor(self.directory) if self.directory >= 0 else None
            if held is not None and is_file_at(held, open_identity(self.directory)):
                return held
        return self._run

    def check(self) -> None:
        """Compares the place with what is held, until it is closed; costs one call of the kernel.

        Raises:
            RunGone: the run is no longer at its place, or its lease file was replaced.
        """
        if self.loss is None and self.directory >= 0:
            try:
                if is_file_at(self._path, self._identity):
                    return
                self._note_loss("")
            except OSError as error:
                self._note_loss(error.strerror or str(error))
        if self.loss is not None:
            raise self.loss

    def _note_loss(self, reason: str) -> None:
        with self._lock:
            if self.loss is None:
                self.loss = self._unreadable(reason) if reason else self._describe()

    def _unreadable(self, reason: str) -> RunGone:
        return RunGone(
            f"Whether {self._path} is still the file that this session has locked cannot be checked: {reason}.",
            hint="The session has stopped, because another could use the run. Make it accessible, then resume.",
        )

    def _describe(self) -> RunGone:
        """What is known; nothing is said to be intact that cannot be seen."""
        directory = open_identity(self.directory)
        self._wait_for_deletion(directory)
        is_here = other = False
        with contextlib.suppress(OSError):
            is_here = is_file_at(self._run, directory)
            other = not is_here and self._run.exists()
        if is_here:
            return self._lost_file()
        at_old_path = f" Something else is at {self._run} now; nothing more is written there." if other else ""
        now = name_of_directory(self.directory)
        if now is not None and is_file_at(now, directory):
            return RunGone(
                f"The run {self._run} was moved to {now} while this session was using it.{at_old_path}",
                hint=f"The session has stopped. What it had synced was moved with the run: `holdfast status {now}`.",
                moved_to=str(now),
            )
        became = "deleted" if is_deleted(self.directory) else "moved or deleted"
        return RunGone(
            f"The run {self._run} was {became} while this session was using it.{at_old_path}",
            hint="The session has stopped. Its results are lost unless there is a copy of the run.",
        )

    def _wait_for_deletion(self, directory: FileIdentity) -> None:
        """Who deletes a run deletes its files first: a moment later it is known which of the two it was."""
        deadline = time.monotonic() + _DELETION_SECONDS
        with contextlib.suppress(OSError):
            while time.monotonic() < deadline and is_file_at(self._run, directory) and not self._is_file_there():
                time.sleep(_DELETION_SECONDS / 20)

    def _is_file_there(self) -> bool:
        return os.path.lexists(self._path)

    def _lost_file(self) -> RunGone:
        became = "replaced" if self._is_file_there() else "deleted"
        return RunGone(
            f"The file {self._path} was {became} while this session held its lock; another may be using the run.",
            hint="The session has stopped. Check the run with `holdfast verify`, then resume.",
            moved_to=str(self._run),
        )

    def close(self) -> None:
        """Frees the descriptor; doing so again does nothing."""
        directory, self.directory = self.directory, -1
        if directory >= 0:
            os.close(directory)


def _open_directory_of(run: Path, name: str, identity: FileIdentity) -> int:
    """A descriptor of the run in which this very file is: another run may have taken the path since it was opened."""
    directory = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = os.stat(name, dir_fd=directory)
        if (found.st_dev, found.st_ino) != identity:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(run / name))
    except OSError:
        os.close(directory)
        raise
    return directory
