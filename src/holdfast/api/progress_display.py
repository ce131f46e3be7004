"""Progress: on a terminal one coloured line that is rewritten in place, elsewhere a plain line now and then."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import TextIO

from holdfast.engine.progress import Progress
from holdfast.terminal.broken_stream import mute_if_broken
from holdfast.terminal.text import duration_text, printable, terminal_columns

_PLAIN_SECONDS = 10.0
_MOST_MESSAGES = 100


def progress_text(progress: Progress) -> str:
    """The progress of a session, in one line."""
    percent = 100 * progress.done / progress.planned if progress.planned else 100
    parts = [f"{progress.done}/{progress.planned} trials ({percent:.0f}%)"]
    if rate := progress.rate():
        parts.append(f"{rate:.1f}/s")
    if (eta := progress.eta_seconds()) is not None and progress.done < progress.planned:
        parts.append(f"{duration_text(eta)} left")
    parts.append(f"{progress.active} running")
    tokens = progress.usage.input_tokens + progress.usage.output_tokens
    if tokens:
        parts.append(f"{tokens:,} tokens")
    if cost := progress.cost:
        parts.append(f"cost {cost:.4f}")
    troubles = {"failed": progress.failed, "unfinished": progress.unfinished, "retries": progress.counts.retries}
    parts += [f"{count} {name}" for name, count in troubles.items() if count]
    if lag := progress.lag():
        parts.append(lag)
    return " · ".join(parts)


class ProgressDisplay:
    """Shows a session's progress until it ends, and messages above it; without `lines`, only these.

    A terminal that is closed meanwhile ends the display, not the session.
    """

    def __init__(
        self, progress: Progress, *, interval: float, lines: bool = True, stream: TextIO | None = None
    ) -> None:
        self._progress, self._stream, self._lines = progress, stream or sys.stderr, lines
        self._on_terminal = self._stream.isatty()
        self._interval = interval if self._on_terminal else max(interval, _PLAIN_SECONDS)
        self._is_erasable = False
        # Where more come at once than anybody reads, the first are left out.
        self._messages: deque[str] = deque(maxlen=_MOST_MESSAGES)

    def tell(self, message: str) -> None:
        """Shows a message in a moment, on a line of its own."""
        self._messages.append(message)

    @contextlib.asynccontextmanager
    async def showing(self) -> AsyncIterator[None]:
        """Shows progress while the block runs."""
        task = asyncio.create_task(self._keep_showing())
        try:
            yield
        finally:
            task.cancel()
            self._print_messages()
            self._print_progress(final=True)

    async def _keep_showing(self) -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(min(self._interval, 0.25))
            self._print_messages()
            if time.monotonic() - last >= self._interval:
                last = time.monotonic()
                self._print_progress()

    def _print_messages(self) -> None:
        while self._messages:
            self._write_line(printable(self._messages.popleft())[:400] + "\n")

    def _print_progress(self, *, final: bool = False) -> None:
        if not self._lines:
            return
        text = progress_text(self._progress)
        if self._on_terminal and not final:
            # A line that wraps could not be erased.
            text = text[: terminal_columns(self._stream) - 1]
            self._write_line(f"\r\033[36m{text}\033[0m", erasable=True)
        else:
            self._write_line(text + "\n")

    def _write_line(self, text: str, *, erasable: bool = False) -> None:
        """Writes in the place of the line before it, if that is `erasable`."""
        try:
            self._stream.write(f"\r\033[K{text}" if self._is_erasable else text)
            self._stream.flush()
        except OSError:
            mute_if_broken(self._stream)
        self._is_erasable = erasable
