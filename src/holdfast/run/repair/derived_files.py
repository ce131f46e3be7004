"""Repairing what is derived from the journal: `config.yaml`, the run's index, and the index of this user's readers.

They are checked first, and changed only where they are missing, cannot be read, or say otherwise than the journal;
what is replaced is moved to the backup.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from holdfast.errors import ResumeAborted
from holdfast.run.core.config_file import SameValues, check_config, write_config
from holdfast.run.core.layout import Layout, reader_index_path
from holdfast.run.core.reader import RunReader
from holdfast.run.core.records import SessionRecord
from holdfast.run.fold.attempt_ends import AttemptEnds
from holdfast.run.repair.backup import Backup
from holdfast.run.repair.rebuild_journal import back_up_index
from holdfast.storage import take_lease
from holdfast.storage.filesystem import FileSystem


class JournalTotals:
    """The records of a journal, totals without an index."""

    def __init__(self, ends: AttemptEnds) -> None:
        self.ends = ends
        self.kinds: Counter[str] = Counter()

    def agrees_with(self, reader: RunReader) -> bool:
        """Whether a reader's index holds the same records and the same finished trials."""
        pairs = zip_longest(reader.finished(), self.ends.kept_keys())
        return reader.index.counts() == self.kinds and all(indexed == kept for indexed, kept in pairs)


class DerivedFiles:
    """The derived files of one run."""

    def __init__(self, layout: Layout, fs: FileSystem, backup: Backup, same: SameValues) -> None:
        self._layout, self._fs, self._backup, self._same = layout, fs, backup, same
        self._sessions: list[SessionRecord] = []
        self._index = self._config = ""
        self._cache: Path | None = None

    def open_with_copied_index(self, directory: Path) -> RunReader:
        """A reader with a copy of the run's own index: checking changes nothing."""
        copy = directory / self._layout.index.name
        for suffix in ("", "-journal", ".sum"):
            path = self._layout.index.with_name(self._layout.index.name + suffix)
            if path.is_file():
                shutil.copyfile(path, copy.with_name(copy.name + suffix))
        return RunReader(self._layout.root, self._fs, index=copy)

    def check(self, reader: RunReader, totals: JournalTotals, directory: Path) -> RunReader:
        """Finds out what is wrong; `reader` has the copied index. Returns a reader whose index is sound."""
        self._index = self._index_problem(reader, totals)
        if self._index:
            reader.close()
            reader = RunReader(self._layout.root, self._fs, index=directory / "anew.sqlite")
        self._sessions = reader.sessions
        self._config = self._config_problem()
        cache = reader_index_path(self._layout.root, reader.run)
        if cache.is_file():
            other = RunReader(self._layout.root, self._fs)
            self._cache = None if totals.agrees_with(other) else cache
            other.close()
        return reader

    def _index_problem(self, reader: RunReader, totals: JournalTotals) -> str:
        if not self._layout.index.is_file():
            return "index.sqlite was missing"
        if reader.index.note:
            return f"index.sqlite was of no use: {reader.index.note}"
        return "" if totals.agrees_with(reader) else "index.sqlite contradicted the journal"

    def _config_problem(self) -> str:
        if not self._sessions:
            return ""
        try:
            return check_config(self._layout.config, self._sessions, self._same)
        except ResumeAborted as error:
            return f"{error.message.removeprefix('Resume aborted: ')} It is written again from the journal."

    def repair(self) -> Iterator[str]:
        """Repairs what is wrong; gives what was done, one by one.

        Raises:
            RunHeld: a session executes the run.
            OSError: the disk failed.
        """
        if self._cache is not None:
            self._cache.unlink(missing_ok=True)
            yield f"The readers' index {self._cache} contradicted the journal; it is removed."
        if not self._index and not self._config:
            return
        lease = take_lease(self._fs, self._layout.root)
        try:
            if self._index:
                back_up_index(self._layout, self._backup)
                RunReader(self._layout.root, self._fs, index=self._layout.index).close()
                yield f"{self._index}; it is built anew from the journal."
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
