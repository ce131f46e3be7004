"""Warnings in somebody else's process: on standard error, if it can be written."""

from __future__ import annotations

import contextlib
import sys

from holdfast.terminal.text import printable


def print_warning(text: str) -> None:
    """Prints a warning for people; where there is no standard error, nothing happens."""
    print_note(f"warning: {text}")


def print_note(text: str) -> None:
    """Prints something that people should know before the first call; where there is no standard error, nothing."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"holdfast: {printable(text)}\n")
