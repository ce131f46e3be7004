"""Choosing and ordering samples: slice, shuffle, filter, repeat, and the task's limit.

A selection holds row numbers and occurrence numbers, eight bytes a sample, and never a row. The place of a row in a
shuffle depends on the seed and that row alone, so appending rows does not reorder the others.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.spec import Filter, Operation, Repeat, Shuffle, Slice
from holdfast.suggestions import did_you_mean, listing
from holdfast.tasks.datasets.row_file import Rows
from holdfast.tasks.datasets.row_identity import RowIdentities
from holdfast.tasks.json_values import MISSING, json_text, lookup

BUCKET = 256


class Selection(msgspec.Struct, frozen=True):
    """The chosen rows, in order, each with its occurrence number."""

    rows: array[int]
    occurrences: array[int]

    def pick(self, positions: Iterable[int]) -> Selection:
        chosen = positions if isinstance(positions, array) else array("I", positions)
        return Selection(
            array("I", (self.rows[position] for position in chosen)),
            array("I", (self.occurrences[position] for position in chosen)),
        )

    def part(self, start: int, end: int | None) -> Selection:
        return Selection(self.rows[start:end], self.occurrences[start:end])


def select(
    rows: Rows, identities: RowIdentities, operations: Sequence[Operation] = (), limit: int | None = None
) -> Selection:
    """The rows that the operations leave, in the order they come to, up to the limit."""
    selection = Selection(array("I", range(len(rows))), identities.take_occurrences())
    for number, operation in enumerate(operations, start=1):
        selection = _apply_operation(operation, selection, rows, identities)
        _refuse_empty(selection, f"Operation {number}", rows)
    selection = selection if limit is None else selection.part(0, limit)
    _refuse_empty(selection, "The limit", rows)
    return selection


def _refuse_empty(selection: Selection, cause: str, rows: Rows) -> None:
    if not selection.rows:
        raise ConfigurationError(
            f"{cause} on the dataset {rows.source} leaves none of {len(rows)} samples.", hint="Widen or remove it."
        )


def _apply_operation(operation: Operation, selection: Selection, rows: Rows, identities: RowIdentities) -> Selection:
    if operation.slice is not None:
        return _slice(selection, operation.slice)
    if operation.shuffle is not None:
        return _shuffle(selection, operation.shuffle, identities)
    if operation.filter is not None:
        return _filter(selection, operation.filter, rows)
    if operation.repeat is not None:
        return _repeat(selection, operation.repeat)
    raise ConfigurationError(
        f"An operation on the dataset {rows.source} is empty.", hint="Give slice, shuffle, filter or repeat."
    )


def _slice(selection: Selection, given: Slice) -> Selection:
    return selection.part(given.start, None if given.num is None else given.start + given.num)


def _repeat(selection: Selection, given: Repeat) -> Selection:
    """The whole selection, times over; numbered so that rows appended later change no number."""
    occurrences = array("I")
    for turn in range(given.times):
        occurrences.extend((earlier - 1) * given.times + turn + 1 for earlier in selection.occurrences)
    return Selection(selection.rows * given.times, occurrences)


def _filter(selection: Selection, given: Filter, rows: Rows) -> Selection:
    keeps = _filter_test(given)
    kept = selection.pick(
        position for position, row in enumerate(selection.rows) if keeps(lookup(rows[row], given.field))
    )
    if not kept.rows and all(lookup(rows[row], given.field) is MISSING for row in selection.rows):
        has = list(rows[selection.rows[0]])
        raise ConfigurationError(
            f"A filter of the dataset {rows.source} names the field {given.field!r}, which no row has; the first has"
            f" {listing(has)}.",
            hint=did_you_mean(given.field, has),
        )
    return kept


def _filter_test(given: Filter) -> Callable[[Any], bool]:
    if given.matches is not None:
        pattern = _compiled_filter(given.matches)
        return lambda value: value is not MISSING and pattern.search(json_text(value)) is not None
    wanted = given.in_ if given.in_ is not None else [given.equals]
    return lambda value: any(_equal_values(value, item) for item in wanted)


def _equal_values(value: Any, wanted: Any) -> bool:
    """JSON equality; where one side is text, as in every CSV cell, the texts are compared."""
    if value is MISSING:
        return False
    if isinstance(value, str) or isinstance(wanted, str):
        return json_text(value) == json_text(wanted)
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)


def _compiled_filter(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ConfigurationError(
            f"The filter's pattern {pattern!r} is not a valid regular expression: {error}."
        ) from None


def _shuffle(selection: Selection, given: Shuffle, identities: RowIdentities) -> Selection:
    seed = str(given.seed).encode()
    ranks = array("Q")
    for row, occurrence in zip(selection.rows, selection.occurrences, strict=True):
        content = identities.key_digest(row) + occurrence.to_bytes(4)
        ranks.append(int.from_bytes(hashlib.blake2b(content, digest_size=8, key=seed).digest()))
    return selection.pick(_ascending(ranks))


def _ascending(ranks: array[int]) -> array[int]:
    """The positions in the order of their 64-bit ranks.

    Spread over buckets first and sorted bucket by bucket: sorting all at once would hold an object for each.
    """
    buckets = len(ranks) // BUCKET + 1
    sizes = array("I", [0]) * buckets
    for rank in ranks:
        sizes[rank * buckets >> 64] += 1
    ends = array("I", accumulate(sizes, initial=0))
    placed = array("I", [0]) * len(ranks)
    for position, rank in enumerate(ranks):
        bucket = rank * buckets >> 64
        placed[ends[bucket]] = position
        ends[bucket] += 1
    for size, end in zip(sizes, ends, strict=False):
        placed[end - size : end] = array("I", sorted(placed[end - size : end], key=ranks.__getitem__))
    return placed
