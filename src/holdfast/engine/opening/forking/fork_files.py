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
from holdfast.engine.planning.trial_keys import KEY_BYTES
from holdfast.run.core.layout import Layout
from holdfast.run.core.result_file import RESULT, ResultFile, encode_result, load_result_file
from holdfast.storage.filesystem import FileSystem
from holdfast.storage.operating_system import sync_filesystem


class ForkFiles:
    """Takes note of the trials that are kept, and gives the new run their files."""

    def __init__(self, old: Layout, source: str) -> None:
        """`source` is the id of the old run."""
        self._old, self._source = old, source
        self._has_files = old.artifacts.is_dir() and any(old.artifacts.iterdir())
        # As digests, one behind the other: a run may have very many trials.
        self._whole, self._in_part = bytearray(), bytearray()

    def keep(self, key: str, *, is_whole: bool) -> None:
        """A trial is kept; unless it is kept as a whole it will have a result of its own."""
        if self._has_files:
            (self._whole if is_whole else self._in_part).extend(bytes.fromhex(key))

    def copy(self, fs: FileSystem, new: Layout, run: str) -> None:
        """Puts the files into the new run, whose id is `run`, durably.

        Raises:
            OSError: the disk failed.
        """
        for key in _keys(self._in_part):
            self._copy_files(fs, new, key)
        for key in _keys(self._whole):
            if self._copy_files(fs, new, key):
                self._write_result(fs, new, key, run)
        if self._whole or self._in_part:
            # Once for all of them: the run does not have its name yet.
            sync_filesystem(new.artifacts)

    def _copy_files(self, fs: FileSystem, new: Layout, key: str) -> bool:
        """Whether the trial has a directory of files."""
        if not (self._old.artifacts / key).is_dir():
            return False
        for source, target in _files(self._old.artifacts / key, new.artifacts / key, fs):
            if source.name != RESULT:
                _link_or_copy(fs, source, target)
        return True

    def _write_result(self, fs: FileSystem, new: Layout, key: str, run: str) -> None:
        found = load_result_file(self._old.artifacts / key / RESULT)
        if isinstance(found, ResultFile):
            trial = msgspec.structs.replace(found.trial, source=self._source)
            file = fs.create(new.artifacts / key / RESULT)
            try:
                file.write(encode_result(trial, found.answer, run))
            finally:
                file.close()


def _keys(packed: bytearray) -> Iterator[str]:
    return (packed[at : at + KEY_BYTES].hex() for at in range(0, len(packed), KEY_BYTES))


def _files(old: Path, new: Path, fs: FileSystem) -> Iterator[tuple[Path, Path]]:
    """The files below a directory, with their new places, whose directories are made; links are not followed."""
    fs.make_directory(new)
    for entry in sorted(os.scandir(old), key=lambda one: one.name):
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path), new / entry.name, fs)
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
        finally:
            file.close()
        target.chmod(source.stat().st_mode & 0o777)
