"""Lines at the bottom of a terminal that are replaced in place, with other text above them.

Promises: nothing is left behind when the terminal is made narrower or wider, as terminals do it that wrap lines anew;
the cursor is on an empty line below the area, so that whatever ends the process leaves a usable terminal; a
terminal that has gone costs the output and nothing else.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Sequence
from typing import NamedTuple, TextIO

from holdfast.terminal.broken_stream import mute_if_broken


class AreaLine(NamedTuple):
    """One line of the area: its text, with colours, and how many columns it takes."""

    text: str
    width: int


class LiveArea:
    """The area of one terminal. May be used from any thread."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown: Sequence[AreaLine] = ()
        self._columns = 0
        self._lock = threading.RLock()
        self.is_broken = False
        """Whether the terminal has gone."""

    def size(self) -> os.terminal_size:
        """The columns and rows of the terminal, as they are now."""
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except OSError:
            return os.terminal_size((80, 24))
        return os.terminal_size((size.columns or 80, size.lines or 24))

    def paint(self, lines: Sequence[AreaLine]) -> None:
        """Puts these lines in the place of those before."""
        with self._lock:
            columns, rows = self.size().columns, self._rows()
            # Each line is written over the one before it, because erasing all of them first would flicker; not so in
            # rows that the terminal has wrapped: it remembers that, and would join them when it is made wider.
            start = _up(rows) if columns == self._columns else _erase(rows)
            self._write(f"{start}{_body(lines)}\x1b[J")
            self._shown, self._columns = tuple(lines), columns

    def print_above(self, text: str) -> None:
        """Prints whole lines above the area."""
        with self._lock:
            erase = _erase(self._rows()) if self._shown else ""
            self._write(f"{erase}{text}\n{_body(self._shown)}")

    def clear(self) -> None:
        """Takes the area away."""
        with self._lock:
            if self._shown:
                self._write(_erase(self._rows()))
            self._shown = ()

    def _rows(self) -> int:
        """How many rows the area takes now: a line that has become too wide takes several."""
        columns = self.size().columns
        return sum(max(1, math.ceil(line.width / columns)) for line in self._shown)

    def _write(self, text: str) -> None:
        if self.is_broken or not text:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self.is_broken = True
            mute_if_broken(self._stream)


def _up(rows: int) -> str:
    """To the beginning of the area; the cursor is below it."""
    return f"\r\x1b[{rows}A" if rows else "\r"


def _erase(rows: int) -> str:
    """The same, with all rows empty: one by one, because clearing a whole screen puts it into some histories."""
    return _up(rows) + "\x1b[2K\n" * rows + "\x1b[2K" + _up(rows)


def _body(lines: Sequence[AreaLine]) -> str:
    return "".join(f"{line.text}\x1b[K\n" for line in lines)
