"""Two folds of one run, compared: the index with the frames."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, zip_longest

import msgspec

from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.rows.fold_tables import unpack_key, unpack_places
from holdfast.run.fold.run_fold import RunFold

_NAMED = 1000
"""How many differing trials are named at most."""


class FoldDifference(msgspec.Struct, frozen=True):
    """What differs, and in which trials."""

    detail: str
    keys: tuple[str, ...] = ()


def fold_differences(index: RunReader, frames: RunReader) -> list[FoldDifference]:
    """The differences between the index of one reader and the frames that another has folded."""
    found: dict[str, list[str]] = {}
    for key, detail in _differing_trials(index.fold, frames.fold):
        found.setdefault(detail, []).append(key)
    differences = [
        FoldDifference(f"{len(keys)} trials {detail}", tuple(keys[:_NAMED])) for detail, keys in found.items()
    ]
    if _sums(index.fold) != _sums(frames.fold):
        differences.append(FoldDifference("the totals in the index differ from those in the journal"))
    if not differences and any(a != b for a, b in zip_longest(_slots(index.fold), _slots(frames.fold))):
        differences.append(FoldDifference("the scores in the index differ from those in the journal"))
    return differences


def covers_the_same(index: RunReader, frames: RunReader) -> bool:
    """Whether both have read the same bytes: a session may have continued to write in between."""
    query = "SELECT session, writer, number, length FROM segments WHERE NOT gone ORDER BY session, writer, number"
    return list(index.index.query(query)) == list(frames.index.query(query))


def _differing_trials(index: RunFold, frames: RunFold) -> Iterator[tuple[str, str]]:
    mine, theirs = _comparable_rows(index), _comparable_rows(frames)
    a, b = next(mine, None), next(theirs, None)
    while a is not None or b is not None:
        if a is not None and b is not None and a[0] == b[0]:
            if a != b:
                yield a[0][1], "differ between the index and the journal"
            a, b = next(mine, None), next(theirs, None)
        elif b is None or (a is not None and a[0] < b[0]):
            yield a[0][1], "are in the index but not in the journal"  # type: ignore[index]
            a = next(mine, None)
        else:
            yield b[0][1], "are in the journal but not in the index"
            b = next(theirs, None)


def _comparable_rows(fold: RunFold) -> Iterator[tuple[tuple[bool, str], object, int, int, int, bytes, int]]:
    """Rows without the numbers that an index gives to things in the order in which it meets them."""
    standings = {number: one._replace(number=0, trials=0) for number, one in fold.standings.items()}
    for key, standing, counted, answer, moment, row, places in fold.raw_rows():
        # As the table sorts them: keys that are no digests first.
        order = isinstance(key, bytes), unpack_key(key)
        yield order, standings.get(standing), counted, answer, moment, row, len(unpack_places(places))


def _sums(fold: RunFold) -> tuple[object, ...]:
    standings = sorted(repr(one._replace(number=0)) for one in fold.standings.values())
    return standings, sorted(fold.spent().items()), fold.samplings(), sorted(fold.record_counts().items())


def _slots(fold: RunFold) -> Iterator[tuple[object, list[tuple[str, float | None]]]]:
    """The scores of one trial after another, in an order that does not depend on who gave the first one."""
    for key, slots in groupby(fold.slots(), lambda slot: slot.key):
        yield key, sorted((slot.scorer, slot.value) for slot in slots)
