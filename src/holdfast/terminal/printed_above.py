"""What a task's own code prints while a live area is shown: it is put above the area instead of into it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO

_NAMES = ("stdout", "stderr")


class StreamAbove:
    """Stands for a stream of the process: whole lines go to `show`; everything else is the stream's own."""

    def __init__(self, stream: TextIO, show: Callable[[str], None]) -> None:
        self._stream, self._show, self._rest = stream, show, ""

    def write(self, text: str) -> int:
        """Shows the lines that are whole, and keeps the rest for the next write."""
        whole, end, self._rest = (self._rest + text).rpartition("\n")
        if end:
            self._show(whole)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        self._stream.flush()

    def show_rest(self) -> None:
        """Shows a line that was never ended."""
        if self._rest:
            self.write("\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def printing_above(show: Callable[[str], None]) -> Iterator[None]:
    """While the block runs, what is printed to a terminal through `sys.stdout` and `sys.stderr` goes to `show`."""
    before = {name: getattr(sys, name) for name in _NAMES}
    placed = {name: StreamAbove(stream, show) for name, stream in before.items() if stream and stream.isatty()}
    for name, stream in placed.items():
        setattr(sys, name, stream)
    try:
        yield
    finally:
        for name, stream in placed.items():
            stream.show_rest()
            if getattr(sys, name) is stream:
                setattr(sys, name, before[name])
