"""The artifacts of a run that are uploaded: files that a later attempt at a trial may replace.

A file is uploaded again if it was replaced since. Of a directory that has not changed, the files are not looked at, so
that a round of uploads costs one look at each trial.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from holdfast.run.core.layout import Layout
from holdfast.storage.object_store import ObjectStore

_SETTLED_NS = 2_000_000_000
"""A directory that changed more recently may change again without another time."""


class _Version(NamedTuple):
    """What a file has that another one in its place does not have."""

    inode: int
    size: int
    mtime_ns: int


class _Directory(NamedTuple):
    """A directory as it was looked at."""

    path: Path
    mtime_ns: int
    inner: tuple[Path, ...]
    """The directories in it."""


class ArtifactFiles:
    """What is below `artifacts`, as far as this process has uploaded it."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._uploaded: dict[str, _Version] = {}
        self._settled: dict[Path, _Directory] = {}
        """Directories in which nothing was left to upload."""

    def take_as_uploaded(self, keys: Collection[str]) -> None:
        """Files that are in the store are those of this machine: whoever opens the run compares them."""
        for directory in self._changed_directories():
            self._uploaded |= {key: version for key, _, version in self._files(directory.path) if key in keys}

    def upload_changed(self, store: ObjectStore) -> None:
        """Uploads every file that is new, or was replaced.

        Raises:
            StorageFailure: the store did not take one; what was uploaded stays.
        """
        for directory in self._changed_directories():
            is_settled = time.time_ns() - directory.mtime_ns > _SETTLED_NS
            for key, path, version in self._files(directory.path):
                if self._uploaded.get(key) != version:
                    store.put_file(key, path)
                    self._uploaded[key] = version
            if is_settled:
                self._settled[directory.path] = directory

    def _changed_directories(self) -> Iterator[_Directory]:
        """Every directory that may hold something new."""
        waiting = [self._layout.artifacts]
        while waiting:
            try:
                found = self._look_at(waiting.pop())
            except (FileNotFoundError, NotADirectoryError):
                continue
            waiting += found.inner
            if self._settled.get(found.path) is not found:
                yield found

    def _look_at(self, path: Path) -> _Directory:
        # The time before the content: what comes meanwhile is found the next time.
        mtime_ns = path.stat(follow_symlinks=False).st_mtime_ns
        settled = self._settled.get(path)
        if settled is not None and settled.mtime_ns == mtime_ns:
            return settled
        inner = sorted(Path(entry.path) for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False))
        return _Directory(path, mtime_ns, tuple(inner))

    def _files(self, directory: Path) -> Iterator[tuple[str, Path, _Version]]:
        for entry in sorted(os.scandir(directory), key=lambda one: one.name):
            if entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
                found, path = entry.stat(follow_symlinks=False), Path(entry.path)
                version = _Version(found.st_ino, found.st_size, found.st_mtime_ns)
                yield str(path.relative_to(self._layout.root)), path, version
