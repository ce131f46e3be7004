"""The index of a reader that cannot use the run's own: in the user's cache, because the run is not the reader's.

The file in the cache has one reader at a time, who holds a lock beside it. Another one meanwhile gets a copy, which is
used only if it is, byte for byte, as an index was left. Each starts from whichever covers more of the journal, so that
what was read once is not read again. All of them are only caches: without one, reading takes longer, with the same
result.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from holdfast.journal.index.database import INDEX_ERRORS, copy_index, has_its_sum, indexed_bytes, sum_path
from holdfast.run.core.layout import Layout, reader_index_path
from holdfast.run.fold.rows.fold_tables import SCHEMA
from holdfast.storage.leases.forked_children import close_in_children


class ReaderIndex:
    """The index file of one reader, which nobody else uses until it is closed."""

    def __init__(self, layout: Layout, run: bytes) -> None:
        self.path: Path | None = None
        """None where there is no place for a file."""
        self._lock, self._private = -1, ""
        close_in_children(self)
        with contextlib.suppress(OSError):
            cache = reader_index_path(layout.root, run)
            cache.parent.mkdir(parents=True, exist_ok=True)
            self.path = self._locked(cache, layout) or self._copied(cache, layout)

    def _locked(self, cache: Path, layout: Layout) -> Path | None:
        """The file in the cache, if nobody else uses it."""
        self._lock = os.open(cache.with_name(cache.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return None
        for other in (layout.index, layout.index_in_use):
            _copy_if_further(cache, other)
        return cache

    def _copied(self, cache: Path, layout: Layout) -> Path:
        """A file of this reader's own, with what another has read already."""
        import shutil  # noqa: PLC0415 - for the rare reader that has another beside it
        import tempfile  # noqa: PLC0415 - as above

        self._private = tempfile.mkdtemp(prefix="holdfast-index-")
        path = Path(self._private) / cache.name
        for source in (cache, layout.index, layout.index_in_use):
            with contextlib.suppress(OSError):
                shutil.copyfile(source, path)
                shutil.copyfile(sum_path(source), sum_path(path))
            if has_its_sum(path):
                break
        return path

    def close(self) -> None:
        """Lets the next reader have the file; doing so again does nothing."""
        lock, self._lock, private, self._private = self._lock, -1, self._private, ""
        if lock >= 0:
            os.close(lock)
        if private:
            import shutil  # noqa: PLC0415 - as above

            shutil.rmtree(private, ignore_errors=True)

    def leave_to_parent(self) -> None:
        """In a forked child: the lock and the file are the parent's alone."""
        lock, self._lock, self._private = self._lock, -1, ""
        if lock >= 0:
            os.close(lock)

    def __del__(self) -> None:
        self.close()


def adopt_indexes(published: Path, in_use: Path, cached: Path) -> None:
    """Starts the index of a session, `in_use`, which the caller may write, from whichever covers most of the journal.

    So what was read before the run was opened is not read again to execute it.
    """
    for other in (published, cached):
        _copy_if_further(in_use, other)


def _copy_if_further(index: Path, other: Path) -> None:
    """Replaces an index by one that covers more, and a missing one by any; either is checked when it is used."""
    with contextlib.suppress(OSError, *INDEX_ERRORS):
        known = indexed_bytes(index, SCHEMA) if has_its_sum(index) else 0
        if indexed_bytes(other, SCHEMA) > known and has_its_sum(other):
            copy_index(other, index)
