"""A table for people: a header, aligned columns, and no line wider than the terminal.

Where there is not room for all of it, columns that may be left out are, the first of them first, until the others are
wide enough to say something. Then the widest of the flexible ones are cut, with "…".
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.cli.ui.output_text import styled
from holdfast.terminal.width import columns_of, distinct_cuts, distinct_endings, one_line, padded

_GAP = "  "
_MOST_CHARACTERS = 1000
"""Of a cell; no terminal is wider."""


class Column(NamedTuple):
    """One column: its title, and how it is laid out."""

    title: str
    is_flexible: bool = False
    """Whether it is cut where there is not room for all columns."""
    least: int = 8
    """How wide a flexible column is at least, unless everything in it is shorter."""
    is_optional: bool = False
    """Whether it is left out where there is not room for what all columns need at least."""
    most: int | None = None
    """It is never wider than this."""
    is_number: bool = False
    """Whether it is aligned to the right."""
    is_name: bool = False
    """Whether it is cut in the middle: names often differ at their ends."""
    is_prose: bool = False
    """Whether it holds texts that may begin alike: where these are cut, what differs is shown."""
    colours: Mapping[str, str] = {}
    """The colour of a cell by its first word."""


def table_lines(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """The lines of the table: the header, then the rows."""
    cells = [[one_line(cell, _MOST_CHARACTERS) for cell in row] for row in rows]
    texts = [[column.title, *(row[place] for row in cells)] for place, column in enumerate(columns)]
    widths = _fit(columns, [max(map(columns_of, text)) for text in texts], width)
    for place, column in enumerate(columns):
        if (column.is_name or column.is_prose) and widths[place]:
            cutting = distinct_cuts if column.is_name else distinct_endings
            shown = cutting({row[place] for row in cells}, widths[place])
            cells = [[*row[:place], shown[row[place]], *row[place + 1 :]] for row in cells]
    header = _line(columns, [column.title for column in columns], widths)
    return [styled(header, bold=True), *(_line(columns, row, widths, in_colour=True) for row in cells)]


def _fit(columns: Sequence[Column], natural: list[int], width: int) -> list[int]:
    """The widths of all columns; 0 for one that is left out."""
    widths = [min(own, column.most or own) for column, own in zip(columns, natural, strict=True)]
    least = [min(own, column.least) if column.is_flexible else own for column, own in zip(columns, widths, strict=True)]
    optional = [place for place, column in enumerate(columns) if column.is_optional]
    while optional and _total(least) > width:
        left_out = optional.pop(0)
        widths[left_out] = least[left_out] = 0
    while _total(widths) > width and max(widths) > 1:
        cuttable = [place for place, own in enumerate(widths) if own > least[place]] or range(len(widths))
        widths[max(cuttable, key=widths.__getitem__)] -= 1
    return widths


def _total(widths: Sequence[int]) -> int:
    shown = [width for width in widths if width]
    return sum(shown) + len(_GAP) * (len(shown) - 1)


def _line(columns: Sequence[Column], cells: Sequence[str], widths: list[int], *, in_colour: bool = False) -> str:
    parts = []
    for column, cell, width in zip(columns, cells, widths, strict=True):
        if width:
            text = padded(cell, width, right=column.is_number)
            colour = column.colours.get(cell.partition(" ")[0]) if in_colour else None
            parts.append(styled(text, fg=colour) if colour else text)
    return _GAP.join(parts).rstrip()
