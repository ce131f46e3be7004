"""Progress on a terminal: one line that moves; elsewhere: a plain line now and then. Colours only on a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator
from typing import TextIO

from holdfast.cli.ui.printable import printable
from holdfast.cli.ui.streams import mute_if_broken
from holdfast.engine.progress import Progress

_PLAIN_SECONDS = 10.0


def progress_text(progress: Progress) -> str:
    """Where a session stands, in one line."""
    percent = 100 * progress.done / progress.planned if progress.planned else 100
    parts = [f"{progress.done}/{progress.planned} trials ({percent:.0f}%)"]
    if rate := progress.rate():
        parts.append(f"{rate:.1f}/s")
    if (eta := progress.eta_seconds()) is not None and progress.done < progress.planned:
        parts.append(f"{duration(eta)} left")
    parts.append(f"{progress.active} under way")
    tokens = progress.usage.input_tokens + progress.usage.output_tokens
    if tokens:
        parts.append(f"{tokens:,} tokens")
    if progress.cost:
        parts.append(f"cost {progress.cost:.4f}")
    troubles = {"failed": progress.failed, "unfinished": progress.unfinished, "retries": progress.counts.retries}
    parts += [f"{count} {name}" for name, count in troubles.items() if count]
    if lag := progress.lag():
        parts.append(lag)
    return " · ".join(parts)


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"


class Display:
    """Shows a session's progress until it ends; without `lines`, only what went wrong.

    A terminal that has gone away takes nothing with it but the display.
    """

    def __init__(
        self, progress: Progress, *, interval: float, lines: bool = True, stream: TextIO | None = None
    ) -> None:
        self._progress, self._stream, self._lines = progress, stream or sys.stderr, lines
        self._on_terminal = self._stream.isatty()
        self._interval = interval if self._on_terminal else max(interval, _PLAIN_SECONDS)
        self._is_moving = False

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """Shows progress while the block runs."""
        task = asyncio.create_task(self._keep_showing())
        try:
            yield
        finally:
            task.cancel()
            self._print_messages()
            self._line(final=True)

    async def _keep_showing(self) -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(min(self._interval, 0.25))
            self._print_messages()
            if time.monotonic() - last >= self._interval:
                last = time.monotonic()
                self._line()

    def _print_messages(self) -> None:
        while self._progress.messages:
            self._write(printable(self._progress.messages.popleft())[:400] + "\n")

    def _line(self, *, final: bool = False) -> None:
        if not self._lines:
            return
        text = progress_text(self._progress)
        if self._on_terminal and not final:
            # A line that wraps could not be erased.
            text = text[: self._columns() - 1]
            self._write(f"\r\033[36m{text}\033[0m", moving=True)
        else:
            self._write(text + "\n")

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except OSError:
            return 80

    def _write(self, text: str, *, moving: bool = False) -> None:
        """Writes in the place of the line that moves."""
        try:
            self._stream.write(f"\r\033[K{text}" if self._is_moving else text)
            self._stream.flush()
        except OSError:
            mute_if_broken(self._stream)
        self._is_moving = moving
