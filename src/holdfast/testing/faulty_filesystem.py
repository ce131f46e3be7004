"""A FileSystem whose operations fail on order: the n-th write, sync, rename … raises the error that was asked for.

A failing write leaves half of its bytes in the file, as a full disk does.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from holdfast.storage.filesystem import AppendFile, FileSystem, ReadFile

FILESYSTEM_OPERATIONS = (
    "create",
    "write",
    "sync",
    "rename",
    "remove",
    "make_directory",
    "sync_directory",
    "open",
    "read",
    "settle",
    "list",
    "lock",
)


class InjectedFault(NamedTuple):
    """The `nth` call of `operation` (counted from 1; 0 for every call) on a path containing `where` fails."""

    operation: str
    nth: int
    errno: int
    where: str = ""


class FaultyFileSystem:
    """Passes everything to another FileSystem, except what is ordered to fail."""

    def __init__(self, inner: FileSystem, faults: list[InjectedFault]) -> None:
        for fault in faults:
            if fault.operation not in FILESYSTEM_OPERATIONS:
                raise ValueError(
                    f"no operation {fault.operation!r}; operations are: {', '.join(FILESYSTEM_OPERATIONS)}"
                )
        self._inner = inner
        self._faults = faults
        self._counts: Counter[InjectedFault] = Counter()
        self._lock = threading.Lock()

    def check(self, operation: str, path: Path) -> None:
        """Raises the ordered error if this call is the one."""
        with self._lock:
            for fault in self._faults:
                if fault.operation == operation and fault.where in str(path):
                    self._counts[fault] += 1
                    if fault.nth in {0, self._counts[fault]}:
                        raise OSError(fault.errno, os.strerror(fault.errno), str(path))

    def create(self, path: Path) -> AppendFile:
        self.check("create", path)
        return _FaultyAppendFile(self, path, self._inner.create(path))

    def open(self, path: Path) -> ReadFile:
        self.check("open", path)
        return _FaultyReadFile(self, path, self._inner.open(path))

    def rename(self, old: Path, new: Path) -> None:
        self.check("rename", new)
        self._inner.rename(old, new)

    def remove(self, path: Path) -> None:
        self.check("remove", path)
        self._inner.remove(path)

    def remove_tree(self, path: Path) -> None:
        self.check("remove", path)
        self._inner.remove_tree(path)

    def make_directory(self, path: Path) -> None:
        self.check("make_directory", path)
        self._inner.make_directory(path)

    def sync_directory(self, path: Path) -> None:
        self.check("sync_directory", path)
        self._inner.sync_directory(path)

    def list(self, path: Path) -> list[str]:
        self.check("list", path)
        return self._inner.list(path)

    def lock(self, path: Path, *, shared: bool = False) -> int | None:
        self.check("lock", path)
        return self._inner.lock(path, shared=shared)


class _FaultyAppendFile:
    def __init__(self, fs: FaultyFileSystem, path: Path, inner: AppendFile) -> None:
        self._fs, self._path, self._inner = fs, path, inner

    def write(self, data: bytes) -> None:
        try:
            self._fs.check("write", self._path)
        except OSError:
            self._inner.write(data[: len(data) // 2])
            raise
        self._inner.write(data)

    def sync(self) -> None:
        self._fs.check("sync", self._path)
        self._inner.sync()

    def is_at(self, path: Path) -> bool:
        return self._inner.is_at(path)

    def close(self) -> None:
        self._inner.close()


class _FaultyReadFile:
    def __init__(self, fs: FaultyFileSystem, path: Path, inner: ReadFile) -> None:
        self._fs, self._path, self._inner = fs, path, inner

    def size(self) -> int:
        return self._inner.size()

    def read_at(self, offset: int, size: int) -> bytes:
        self._fs.check("read", self._path)
        return self._inner.read_at(offset, size)

    def sync(self) -> None:
        self._fs.check("settle", self._path)
        self._inner.sync()

    def close(self) -> None:
        self._inner.close()
