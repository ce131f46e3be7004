"""`backup-<n>` in a run: the files that a repair replaced, byte for byte, durable before they are replaced.

Each repair that replaces anything has its own directory, with the next number; a backup is never written to again.
"""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.storage import crashpoints
from holdfast.storage.filesystem import FileSystem

_PREFIX = "backup-"
_CHUNK = 1 << 20


class Backup:
    """The backup of one repair; there is no directory before something is put into it."""

    def __init__(self, fs: FileSystem, root: Path) -> None:
        self._fs, self._root = fs, root
        self._directory: Path | None = None

    @property
    def name(self) -> str:
        """The directory's name, or nothing if nothing was replaced."""
        return self._directory.name if self._directory else ""

    def copy(self, path: Path) -> None:
        """Puts a copy of a file aside that is about to be replaced.

        Raises:
            OSError: that could not be done; nothing may be replaced then.
        """
        directory = self._open()
        temporary = directory / f".{path.name}.{os.getpid()}.tmp"
        source, target = self._fs.open(path), self._fs.create(temporary)
        try:
            offset = 0
            while part := source.read_at(offset, _CHUNK):
                target.write(part)
                offset += len(part)
            target.sync()
        finally:
            source.close()
            target.close()
        self._fs.rename(temporary, directory / path.name)
        self._fs.sync_directory(directory)
        crashpoints.reach("repair.backed-up")

    def move(self, path: Path) -> None:
        """Puts a file or a directory itself aside.

        Raises:
            OSError: that could not be done.
        """
        directory = self._open()
        self._fs.rename(path, directory / path.name)
        self._fs.sync_directory(directory)
        self._fs.sync_directory(path.parent)
        crashpoints.reach("repair.backed-up")

    def _open(self) -> Path:
        if self._directory is None:
            directory = self._root / f"{_PREFIX}{_last_number(self._fs, self._root) + 1}"
            self._fs.make_directory(directory)
            self._fs.sync_directory(self._root)
            self._directory = directory
        return self._directory


def _last_number(fs: FileSystem, root: Path) -> int:
    numbers = (name.removeprefix(_PREFIX) for name in fs.list(root) if name.startswith(_PREFIX))
    return max((int(number) for number in numbers if number.isdecimal()), default=0)
