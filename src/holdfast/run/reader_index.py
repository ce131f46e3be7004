"""Whose index a run is read with: its writer's lies in the run, every other reader's in that user's cache.

Each begins from the other where that knows more of the journal, so that what was read once is not read again. Either
is only a cache: where one cannot be had or copied, reading takes longer and finds the same.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from holdfast.journal.index_file import copy_index, extent, has_its_sum
from holdfast.run.layout import Layout, reader_cache


def own_cache(layout: Layout, run: bytes) -> Path | None:
    """This reader's index file, begun from the run's own where there is one; None if there is no place for it."""
    cache = reader_cache(layout.root, run)
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    _take_further(cache, layout.index)
    return cache


def take_further(layout: Layout, run: bytes) -> None:
    """Begins the run's own index, which the caller may write, from this user's where that knows more of the journal.

    So what was read to look at the run is not read again to execute it.
    """
    _take_further(layout.index, reader_cache(layout.root, run))


def _take_further(index: Path, other: Path) -> None:
    """Replaces an index by one that knows more, and nothing by whatever there is; either is checked when it is used."""
    with contextlib.suppress(OSError, sqlite3.Error):
        known = extent(index)
        if extent(other) > known and (not known or has_its_sum(other)):
            copy_index(other, index)
