"""A terminal for tests: it understands what the program writes, wraps lines, and wraps them anew when it is resized."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

PATIENCE_SECONDS = 120.0
_PIECES = re.compile(r"\x1b\[([0-9;?]*)([a-zA-Z])|([\s\S])")
_UNFINISHED = re.compile(r"\x1b(\[[0-9;?]*)?\Z")


class Screen:
    """What a terminal of endless height shows after all that was written to it."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._rows: list[list[str]] = [[]]
        self._is_wrapped = [False]
        """Whether a row is the continuation of the one before it."""
        self._at = (0, 0)
        self._begun = ""
        """A control sequence of which the rest is still to be written."""
        self.style = ""

    def write(self, text: str) -> None:
        text = self._begun + text
        unfinished = _UNFINISHED.search(text)
        self._begun = unfinished.group() if unfinished else ""
        for numbers, action, character in _PIECES.findall(text.removesuffix(self._begun)):
            if action:
                self._act(numbers, action)
            else:
                self._put(character)

    def _act(self, numbers: str, action: str) -> None:
        row, column = self._at
        if action == "A":
            self._at = max(row - int(numbers or 1), 0), column
        elif action == "m":
            self.style = "" if numbers in {"", "0"} else numbers
        elif action == "K":
            self._rows[row] = [] if numbers == "2" else self._rows[row][:column]
            self._is_wrapped[row] = self._is_wrapped[row] and column > 0
        elif action == "J":
            self._rows[row] = self._rows[row][:column]
            del self._rows[row + 1 :], self._is_wrapped[row + 1 :]
        else:
            raise AssertionError(f"a terminal is not asked to do this: {numbers}{action}")

    def _put(self, character: str) -> None:
        row, column = self._at
        if character == "\r":
            self._at = row, 0
        elif character == "\n":
            self._at = row + 1, column
            if row + 1 == len(self._rows):
                self._add_row(wrapped=False)
        else:
            assert character.isprintable(), f"a control character on the screen: {character!r}"
            if column == self.columns:
                self._add_row(wrapped=True) if row + 1 == len(self._rows) else None
                row, column = row + 1, 0
            line = self._rows[row]
            line += " " * (column - len(line))
            line[column : column + 1] = [character]
            self._at = row, column + 1

    def _add_row(self, *, wrapped: bool) -> None:
        self._rows.append([])
        self._is_wrapped.append(wrapped)

    def resize(self, columns: int) -> None:
        """Wraps all lines anew; the cursor stays at the end of the last row, as the program leaves it."""
        lines: list[list[str]] = []
        for row, is_wrapped in zip(self._rows, self._is_wrapped, strict=True):
            if is_wrapped and lines:
                lines[-1] += row
            else:
                lines.append(list(row))
        self.columns, self._rows, self._is_wrapped = columns, [], []
        for line in lines:
            for start in range(0, max(len(line), 1), columns):
                self._rows.append(line[start : start + columns])
                self._is_wrapped.append(start > 0)
        self._at = len(self._rows) - 1, len(self._rows[-1])

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self._rows]


class TerminalProgram:
    """The program on a terminal of its own."""

    def __init__(
        self, directory: Path, *arguments: object, columns: int = 80, rows: int = 24, **variables: str
    ) -> None:
        self.screen, self.written = Screen(columns), ""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._terminal, end = pty.openpty()
        self._set_size(columns, rows)
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "", **variables}
        self._rows = rows
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *map(str, arguments)],
            cwd=directory,
            env={name: value for name, value in environment.items() if value},
            stdin=end,
            stdout=end,
            stderr=end,
            start_new_session=True,
        )
        os.close(end)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds: float) -> bool:
        """Takes in what is written within this time; whether more may follow."""
        readable, _, _ = select.select([self._terminal], [], [], seconds)
        try:
            part = os.read(self._terminal, 65536) if readable else b"-"
        except OSError:  # how the end of a terminal is told
            part = b""
        if readable:
            text = self._decoder.decode(part)
            self.written += text
            self.screen.write(text)
        return bool(part)

    def until(self, found) -> None:
        """Reads until the screen is as wanted."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not found(self.screen.lines):
            assert self.read(1.0) and time.monotonic() < deadline, self.screen.lines

    def resize(self, columns: int) -> None:
        """Makes the terminal wider or narrower while nothing is being written."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)
        while select.select([self._terminal], [], [], 0)[0] and self.read(0):
            pass
        self._set_size(columns, self._rows)
        self.screen.resize(columns)
        self.process.send_signal(signal.SIGCONT)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGWINCH)

    def close(self) -> None:
        """Closes the terminal: whatever is written from now on fails."""
        os.close(self._terminal)

    def wait(self) -> int:
        """Reads to the end; the exit code."""
        while self.read(PATIENCE_SECONDS):
            pass
        os.close(self._terminal)
        return self.process.wait(PATIENCE_SECONDS)
