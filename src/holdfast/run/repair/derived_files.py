"""Repairing derived files: `config.yaml`, the run's index, and the index of this user's readers.

They are checked first, and changed only where they are missing, cannot be read, or contradict the journal; what is
replaced is moved to the backup.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import ResumeAborted
from holdfast.journal.index.database import is_sound, sum_path
from holdfast.run.core.config_file import SameValues, check_config, write_config
from holdfast.run.core.layout import Layout, reader_index_path
from holdfast.run.core.records import SessionRecord
from holdfast.run.fold.reader import RunReader, write_index
from holdfast.run.fold.rows.fold_tables import SCHEMA
from holdfast.run.repair.backup import Backup
from holdfast.run.repair.rebuild_journal import back_up_index
from holdfast.run.verify.fold_comparison import fold_differences
from holdfast.storage import take_lease
from holdfast.storage.filesystem import FileSystem


class DerivedFiles:
    """The derived files of one run."""

    def __init__(self, layout: Layout, fs: FileSystem, backup: Backup, same: SameValues) -> None:
        self._layout, self._fs, self._backup, self._same = layout, fs, backup, same
        self._sessions: list[SessionRecord] = []
        self._before: list[list[SessionRecord]] = []
        self._index = self._config = ""
        self._cache: Path | None = None

    def check(self, reader: RunReader) -> None:
        """Finds out what is wrong; `reader` has folded the run from its frames."""
        self._index = self._index_problem(reader)
        self._sessions, self._before = reader.sessions, list(reader.sessions_before())
        self._config = self._config_problem()
        cache = reader_index_path(self._layout.root, reader.run)
        if cache.is_file():
            self._cache = None if self._agrees(cache, reader) else cache

    def _index_problem(self, reader: RunReader) -> str:
        if not self._layout.index.is_file():
            return "index.sqlite was missing"
        if not is_sound(self._layout.index, reader.run, SCHEMA):
            return "index.sqlite could not be used: it is damaged, or belongs to another run or version"
        return "" if self._agrees(self._layout.index, reader) else "index.sqlite contradicted the journal"

    def _agrees(self, index: Path, reader: RunReader) -> bool:
        """Whether an index, brought up to the journal, says the same as the frames; checking changes nothing."""
        with tempfile.TemporaryDirectory(prefix="holdfast-") as directory:
            copy = Path(directory) / index.name
            for source, target in ((index, copy), (sum_path(index), sum_path(copy))):
                if source.is_file():
                    shutil.copyfile(source, target)
            with contextlib.closing(RunReader(self._layout.root, self._fs, index=copy)) as other:
                return not fold_differences(other, reader)

    def _config_problem(self) -> str:
        if not self._sessions:
            return ""
        try:
            return check_config(self._layout.config, self._sessions, self._same, before=self._before)
        except ResumeAborted as error:
            return f"{error.message.removeprefix('Resume aborted: ')} It was rewritten from the journal."

    def repair(self) -> Iterator[str]:
        """Repairs what is wrong; gives what was done, one by one.

        Raises:
            RunHeld: a session is using the run.
            OSError: the disk failed.
        """
        if self._cache is not None:
            self._cache.unlink(missing_ok=True)
            yield f"The readers' index {self._cache} contradicted the journal; it was removed."
        if not self._index and not self._config:
            return
        lease = take_lease(self._fs, self._layout.root)
        try:
            if self._index:
                back_up_index(self._layout, self._backup)
                write_index(self._layout, self._fs)
                yield f"{self._index}; it was rebuilt from the journal."
            if self._config:
                self._write_config()
                yield self._config
        finally:
            lease.release()

    def _write_config(self) -> None:
        path = self._layout.config
        if path.is_file() and not path.is_symlink():
            self._backup.copy(path)
        elif os.path.lexists(path):
            self._backup.move(path)
        write_config(self._fs, path, self._sessions)
