"""Text in columns: aligned, and the last column wrapped between words at the width of the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

_GAP = "  "
_NARROWEST = 20
"""The last column is never narrower, however narrow the terminal is."""


def column_lines(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """One line for each row, or more where its last column has to be wrapped."""
    widths = [max(map(len, column)) for column in zip(*(row[:-1] for row in rows), strict=True)]
    indent = sum(widths) + len(_GAP) * len(widths)
    room = max(width - indent, _NARROWEST)
    for row in rows:
        before = "".join(cell.ljust(size) + _GAP for cell, size in zip(row, widths, strict=False))
        wrapped = textwrap.wrap(row[-1], room, break_long_words=False, break_on_hyphens=False) or [""]
        yield (before + wrapped[0]).rstrip()
        yield from (" " * indent + line for line in wrapped[1:])
