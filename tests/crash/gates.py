"""A FileSystem with a gate before every operation: a test looks at the disk there, or ends the process's life."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

from holdfast.storage.filesystem import AppendFile, FileSystem, ReadFile

Gate = Callable[[str, Path], None]


class GatedFileSystem:
    """Passes everything on after the gate has been asked; the gate may raise."""

    def __init__(self, inner: FileSystem, gate: Gate) -> None:
        self.inner, self.gate = inner, gate

    def create(self, path: Path) -> AppendFile:
        self.gate("create", path)
        return GatedAppendFile(self.inner.create(path), self, path)

    def open(self, path: Path) -> ReadFile:
        return _GatedReadFile(self.inner.open(path), self, path)

    def rename(self, old: Path, new: Path) -> None:
        self.gate("rename", old)
        self.inner.rename(old, new)

    def remove(self, path: Path) -> None:
        self.gate("remove", path)
        self.inner.remove(path)

    def remove_tree(self, path: Path) -> None:
        self.gate("remove_tree", path)
        self.inner.remove_tree(path)

    def make_directory(self, path: Path) -> None:
        self.gate("make_directory", path)
        self.inner.make_directory(path)

    def sync_directory(self, path: Path) -> None:
        self.gate("sync_directory", path)
        self.inner.sync_directory(path)

    def list(self, path: Path) -> list[str]:
        return self.inner.list(path)

    def lock(self, path: Path, *, shared: bool = False) -> int | None:
        return self.inner.lock(path, shared=shared)


class GatedAppendFile:
    def __init__(self, inner: AppendFile, fs: GatedFileSystem, path: Path) -> None:
        self.inner, self._fs, self._path = inner, fs, path

    def write(self, data: bytes) -> None:
        self._fs.gate("write", self._path)
        self.inner.write(data)

    def sync(self) -> None:
        self._fs.gate("sync", self._path)
        self.inner.sync()

    def is_at(self, path: Path) -> bool:
        return self.inner.is_at(path)

    def close(self) -> None:
        self.inner.close()


class _GatedReadFile:
    def __init__(self, inner: ReadFile, fs: GatedFileSystem, path: Path) -> None:
        self._inner, self._fs, self._path = inner, fs, path

    def size(self) -> int:
        return self._inner.size()

    def read_at(self, offset: int, size: int) -> bytes:
        return self._inner.read_at(offset, size)

    def sync(self) -> None:
        self._fs.gate("settle", self._path)
        self._inner.sync()

    def close(self) -> None:
        self._inner.close()


class Life:
    """A gate that lets `operations` pass and none after: the process is dead, and its cleaning up does nothing."""

    def __init__(self, operations: int) -> None:
        self.left = operations

    def __call__(self, operation: str, path: Path) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.EOWNERDEAD, f"dead before {operation}", str(path))
