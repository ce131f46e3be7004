"""Tables of figures that fit a terminal: aligned columns, and names that are too long shortened with "…".

Figures are never cut: half a number would be a different number.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.terminal.width import columns_of, distinct_cuts, one_line, padded

_GAP = "  "
_SHORTEST = 4
_LONGEST_NAME = 400


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], names: int, width: int) -> list[str]:
    """The lines of a table; the first `names` columns hold names: aligned left, and shortened if the table is wider.

    Only names are shortened: where the figures alone are wider than `width`, so is the table.
    """
    table = [header, *rows]
    widths = [max(map(columns_of, column)) for column in zip(*table, strict=True)]
    _shrink(widths, names, width - len(_GAP) * (len(widths) - 1))
    shown = [distinct_cuts({row[place] for row in table}, widths[place]) for place in range(names)]
    return [_line([*map(dict.__getitem__, shown, row), *row[names:]], widths, names) for row in table]


def fits(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Whether the table is no wider than this without any name being shortened."""
    widths = [max(map(columns_of, column)) for column in zip(header, *rows, strict=True)]
    return sum(widths) + len(_GAP) * (len(widths) - 1) <= width


def least_width(header: Sequence[str], rows: Sequence[Sequence[str]], names: int) -> int:
    """How wide the table is at least, with all names shortened as far as they may be."""
    widths = [max(map(columns_of, column)) for column in zip(header, *rows, strict=True)]
    shortened = [min(width, _SHORTEST) for width in widths[:names]]
    return sum(shortened) + sum(widths[names:]) + len(_GAP) * (len(widths) - 1)


def _shrink(widths: list[int], names: int, room: int) -> None:
    """Takes columns from the widest name until everything fits."""
    while sum(widths) > room:
        widest = max(range(names), key=widths.__getitem__)
        if widths[widest] <= _SHORTEST:
            return
        widths[widest] -= 1


def _line(row: Sequence[str], widths: Sequence[int], names: int) -> str:
    cells = (padded(row[place], width, right=place >= names) for place, width in enumerate(widths))
    return _GAP.join(cells).rstrip()


def plain_name(name: str) -> str:
    """A name in one line, without characters that act on a terminal or hide something."""
    return one_line(name, _LONGEST_NAME)
