"""Progress for people: on a terminal a table that is replaced in place, elsewhere a plain line now and then.

It looks at the session a few times a second, whatever happens in between: a trial costs it nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

from holdfast.api.progress.text import end_text, progress_text
from holdfast.engine.progress import Progress
from holdfast.terminal.live_area import LiveArea
from holdfast.terminal.printed_above import printing_above
from holdfast.terminal.text import fitted, printable

if TYPE_CHECKING:
    from holdfast.api.progress.frame import ProgressFrame

PLAIN_SECONDS = 10.0
"""Between two plain lines, unless told otherwise."""
_TICK_SECONDS = 0.25
_MOST_MESSAGES = 100
_MOST_CHARACTERS = 400


class ProgressDisplay:
    """Shows a session's progress until it ends, and messages above it; without `lines`, only these.

    A terminal that is closed meanwhile ends the display, not the session.
    """

    def __init__(
        self,
        progress: Progress,
        *,
        interval: float,
        lines: bool = True,
        stream: TextIO | None = None,
        log_interval: float = PLAIN_SECONDS,
    ) -> None:
        """`interval` is between two looks on a terminal, `log_interval` between two plain lines; in seconds."""
        self._progress, self._stream, self._lines = progress, stream or sys.stderr, lines
        self._is_live = lines and can_be_redrawn(self._stream)
        self._interval = max(interval, _TICK_SECONDS) if self._is_live else log_interval
        self._area = LiveArea(self._stream)
        # Where more come at once than anybody reads, the first are left out.
        self._messages: deque[str] = deque(maxlen=_MOST_MESSAGES)
        self._left_out = 0

    def tell(self, message: str) -> None:
        """Shows a message in a moment, on a line of its own."""
        self._left_out += len(self._messages) == _MOST_MESSAGES
        self._messages.append(printable(message)[:_MOST_CHARACTERS])

    @contextlib.asynccontextmanager
    async def showing(self) -> AsyncIterator[None]:
        """Shows progress while the block runs."""
        with contextlib.ExitStack() as undo:
            if self._is_live:
                undo.enter_context(printing_above(self._print_foreign))
            task = asyncio.create_task(self._keep_showing())
            try:
                yield
            finally:
                task.cancel()
                self._area.clear()
                self._print_messages()
                if self._lines:
                    self._area.print_above(fitted(end_text(self._progress), self._stream))

    async def _keep_showing(self) -> None:
        """Prints what waits and, where it is time or the terminal has another size, the progress."""
        last, size = time.monotonic(), None
        while not self._area.is_broken:
            await asyncio.sleep(min(self._interval, _TICK_SECONDS))
            self._print_messages()
            is_resized = self._is_live and size != self._area.size()
            if is_resized or time.monotonic() - last >= self._interval:
                last, size = time.monotonic(), self._area.size()
                self._show_progress()

    def _print_messages(self) -> None:
        messages, left_out = list(self._messages), self._left_out
        self._messages.clear()
        self._left_out = 0
        if left_out:
            messages.insert(0, f"({left_out} messages are left out here)")
        if messages:
            self._area.print_above(fitted("\n".join(messages), self._stream))

    def _show_progress(self) -> None:
        if self._is_live:
            size = self._area.size()
            self._area.paint(self._frame.lines(size.columns, size.lines))
        elif self._lines:
            self._area.print_above(fitted(progress_text(self._progress), self._stream))

    @cached_property
    def _frame(self) -> ProgressFrame:
        # Where nothing is painted, rich is not loaded.
        from holdfast.api.progress.frame import ProgressFrame  # noqa: PLC0415

        return ProgressFrame(self._progress, self._stream)

    def _print_foreign(self, text: str) -> None:
        """Prints what the code of a task has printed."""
        self._area.print_above(printable(text))


def can_be_redrawn(stream: TextIO) -> bool:
    """Whether a stream is a terminal in which the cursor can be moved."""
    return stream.isatty() and os.environ.get("TERM") not in {"dumb", "unknown"}
