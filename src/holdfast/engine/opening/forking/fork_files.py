"""The files in `artifacts` of the trials that a fork keeps: the new run has them too, and can do without the old one.

They are linked where both runs are on one file system, and copied otherwise: no file of a run is ever changed in
place. A result file is written anew, as a result of the new run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.digests import file_parts
from holdfast.engine.planning.trial_keys import KeySet
from holdfast.run.core.layout import Layout
from holdfast.run.core.result_file import RESULT, ResultFile, load_result_file, write_result_file
from holdfast.storage.filesystem import FileSystem


class ForkFiles:
    """Takes note of the trials that are kept, and gives the new run their files."""

    def __init__(self, old: Layout, source: str) -> None:
        """`source` is the id of the old run."""
        self._old, self._source = old, source
        self._kept: list[str] = []
        self._whole: list[str] = []

    def keep(self, key: str, *, is_whole: bool) -> None:
        """A trial is kept; unless it is kept as a whole it will have a result of its own."""
        if (self._old.artifacts / key).is_dir():
            self._kept.append(key)
            if is_whole:
                self._whole.append(key)

    def copy(self, fs: FileSystem, new: Layout, run: str) -> None:
        """Puts the files into the new run, whose id is `run`, durably.

        Raises:
            OSError: the disk failed.
        """
        whole = KeySet(self._whole)
        for key in self._kept:
            for source, target in _files(self._old.artifacts / key, new.artifacts / key, fs):
                if source.name != RESULT:
                    _link_or_copy(fs, source, target)
            if bytes.fromhex(key) in whole:
                self._write_result(fs, new, key, run)
            fs.sync_directory(new.artifacts / key)
        fs.sync_directory(new.artifacts)

    def _write_result(self, fs: FileSystem, new: Layout, key: str, run: str) -> None:
        found = load_result_file(self._old.artifacts / key / RESULT)
        if isinstance(found, ResultFile):
            trial = msgspec.structs.replace(found.trial, source=self._source)
            write_result_file(fs, new, trial, found.answer, run)


def _files(old: Path, new: Path, fs: FileSystem) -> Iterator[tuple[Path, Path]]:
    """The files below a directory, with their new places, whose directories are made; links are not followed."""
    fs.make_directory(new)
    for entry in sorted(os.scandir(old), key=lambda one: one.name):
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path), new / entry.name, fs)
            fs.sync_directory(new / entry.name)
        elif entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
            yield Path(entry.path), new / entry.name


def _link_or_copy(fs: FileSystem, source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        file = fs.create(target)
        try:
            for part in file_parts(source):
                file.write(part)
            file.sync()
        finally:
            file.close()
        target.chmod(source.stat().st_mode & 0o777)
