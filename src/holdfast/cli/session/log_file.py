"""The log file of `run` and `resume`: every message and, now and then, the progress, each line with its time (UTC).

Lines are appended, so that all sessions of a run can share one file. What cannot be written is said once; it stops
nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

from holdfast.api.progress.text import end_text, progress_text
from holdfast.cli.ui.standard_streams import say
from holdfast.engine.progress import Progress
from holdfast.errors import UsageError
from holdfast.models.redaction import redact_error
from holdfast.terminal.text import printable


class LogFile:
    """A log file, open for appending."""

    def __init__(self, path: Path) -> None:
        """Opens it, or makes it.

        Raises:
            UsageError: it cannot be opened.
        """
        self._path = path
        # A pipe that nobody reads must not hold up the program.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            self._fd = os.open(path, flags, 0o644)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UsageError(
                f"The log file {path} cannot be opened: {reason}.", hint="Nothing was started; choose another file."
            ) from None
        self._has_failed = self._is_torn = False

    def write(self, text: str) -> None:
        """Appends a message, each of its lines with the time."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        lines = printable(redact_error(text)).splitlines() or [""]
        data = "".join(f"{now} {line}\n" for line in lines).encode(errors="backslashreplace")
        # Behind a line that a full disk has cut off, a new one begins.
        data = b"\n" + data if self._is_torn else data
        try:
            written = os.write(self._fd, data)
        except OSError as error:
            self._report(error.strerror or str(error))
        else:
            self._is_torn = written < len(data)

    def _report(self, reason: str) -> None:
        if not self._has_failed:
            self._has_failed = True
            say(f"warning: the log file {self._path} cannot be written: {reason}. The run continues without it.")

    @contextlib.asynccontextmanager
    async def following(self, progress: Progress, interval: float) -> AsyncIterator[None]:
        """Appends the progress every so many seconds while the block runs, and at its end."""
        task = asyncio.create_task(self._keep_writing(progress, interval))
        try:
            yield
        finally:
            task.cancel()
            self.write(end_text(progress))

    async def _keep_writing(self, progress: Progress, interval: float) -> None:
        while True:
            await asyncio.sleep(interval)
            self.write(progress_text(progress))

    def close(self) -> None:
        os.close(self._fd)
