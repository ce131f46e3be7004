"""Text in columns: aligned, and the last column wrapped between words at the width of the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.terminal.width import columns_of, hanging, padded

_GAP = "  "


def column_lines(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """One line for each row, or more where its last column has to be wrapped."""
    widths = [max(map(columns_of, column)) for column in zip(*(row[:-1] for row in rows), strict=True)]
    for row in rows:
        lead = "".join(padded(cell, size) + _GAP for cell, size in zip(row, widths, strict=False))
        yield from hanging(lead, row[-1], width)
