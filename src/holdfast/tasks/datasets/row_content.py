"""What a row says, apart from its id: what is asked, and what the answer is judged by.

The target is the target's column, or whatever the task's target template names; everything else is input. So an edited
target changes the target's digest alone.

The rows of a dataset mostly have the same columns, so which of them are what is worked out once for all that do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.digests import canonical_json
from holdfast.tasks.datasets.columns import Columns
from holdfast.tasks.json_values import MISSING, lookup, none_if_missing, without

_SHAPES = 1000

Row = Mapping[str, Any]


class RowContents:
    """The two contents of every row of one dataset."""

    def __init__(self, columns: Columns) -> None:
        self._targets = columns.target_paths()
        self._is_one_field = columns.target is None or columns.target.is_one_field
        self._not_input = (columns.column("id"), "scoring", *columns.only_target_paths())
        self._left_out = frozenset(self._not_input)
        self._has_plain_paths = not any("." in path for path in (*self._targets, *self._not_input))
        self._plain: dict[tuple[str, ...], bool] = {}

    def input(self, row: Row) -> bytes:
        """What the input digest is taken of."""
        if self._is_plain(row):
            return canonical_json({name: value for name, value in row.items() if name not in self._left_out})
        kept: Any = row
        for path in self._not_input:
            kept = without(kept, _row_path(row, path))
        return canonical_json(kept)

    def target(self, row: Row) -> bytes:
        """What the target digest is taken of."""
        if self._is_plain(row):
            values = {path: row.get(path) for path in self._targets}
        else:
            values = {path: none_if_missing(lookup(row, _row_path(row, path))) for path in self._targets}
        return canonical_json([values, row.get("scoring")])

    def empty_target(self) -> bytes | None:
        """What the target digest is taken of where the target is an empty text; None where it is not one field."""
        if len(self._targets) != 1 or not self._is_one_field:
            return None
        return canonical_json([{self._targets[0]: ""}, None])

    def _is_plain(self, row: Row) -> bool:
        """Whether every path that matters is the name of a column, or leads nowhere."""
        shape = tuple(row)
        if (known := self._plain.get(shape)) is not None:
            return known
        if len(self._plain) >= _SHAPES:
            self._plain.clear()
        plain = self._has_plain_paths and not any(name.partition(".")[0] == "metadata" for name in shape)
        self._plain[shape] = plain
        return plain


def content_at(row: Row, paths: Iterable[str]) -> bytes:
    """What a row says at these paths alone."""
    return canonical_json([none_if_missing(lookup(row, _row_path(row, path))) for path in paths])


def _row_path(row: Row, path: str) -> str:
    """Where in the row a template's path leads: a key of the nested metadata also goes by its own name."""
    return path if lookup(row, path) is not MISSING else f"metadata.{path}"
