"""Tables of plain text that fit a terminal: aligned columns, and names that are too long shortened with "…"."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_GAP = "  "
_SHORTEST = 4
_LONGEST_NAME = 400
_FLAT = {"Mn", "Me", "Cf"}
"""The categories of characters that take no column."""


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], names: int, width: int) -> list[str]:
    """The lines of a table; the first `names` columns hold names: aligned left, and shortened if the table is wider.

    Only names are shortened: where the figures alone are wider than `width`, so is the table.
    """
    table = [list(header), *(list(row) for row in rows)]
    widths = [max(map(columns_of, column)) for column in zip(*table, strict=True)]
    _shrink(widths, names, width - len(_GAP) * (len(widths) - 1))
    return [_line(row, widths, names) for row in table]


def _shrink(widths: list[int], names: int, room: int) -> None:
    """Takes columns from the widest name until everything fits."""
    while sum(widths) > room:
        widest = max(range(names), key=widths.__getitem__)
        if widths[widest] <= _SHORTEST:
            return
        widths[widest] -= 1


def _line(row: Sequence[str], widths: Sequence[int], names: int) -> str:
    cells = []
    for place, (text, width) in enumerate(zip(row, widths, strict=True)):
        shown = shortened(text, width)
        padding = " " * (width - columns_of(shown))
        cells.append(shown + padding if place < names else padding + shown)
    return _GAP.join(cells).rstrip()


def plain_name(name: str) -> str:
    """A name in one line, without characters that act on a terminal or hide something."""
    line = " ".join(name[:_LONGEST_NAME].split())
    return line if line.isprintable() else "".join(character for character in line if character.isprintable())


def shortened(text: str, width: int) -> str:
    """The text, or its beginning and "…", in so many columns."""
    if columns_of(text) <= width:
        return text
    while text and columns_of(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes: wide characters take two, marks on others none."""
    if text.isascii():
        return len(text)
    return sum(
        1 + (unicodedata.east_asian_width(one) in "WF") for one in text if unicodedata.category(one) not in _FLAT
    )
