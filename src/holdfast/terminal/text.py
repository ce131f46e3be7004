"""Text for a terminal: foreign text made harmless, and counts, durations and times in words.

Model output must not move the cursor, change colours or hide anything.
"""

from __future__ import annotations

import os
import re
from typing import TextIO

_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_]|[ -/]+[0-~])"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text without terminal sequences and control characters; line ends and tabs stay."""
    return _CONTROLS.sub("", _SEQUENCES.sub("", text.replace("\r\n", "\n")))


def quantity(count: int, thing: str) -> str:
    """A count with its noun: "1 trial", "2,000 trials"."""
    return f"{count} {thing}" if count == 1 else f"{count:,} {thing}s"


def duration_text(seconds: float) -> str:
    """Seconds in the units that people use: "42s", "3m05s", "2h10m"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"


def time_text(at: str | None, *, zone: bool = True) -> str:
    """A recorded time for people: "2026-11-17 11:32:12 UTC"."""
    if not at:
        return "(not known)"
    moment, plus, offset = at.replace("T", " ").partition("+")
    if plus and offset != "00:00":
        return at
    return f"{moment} UTC" if zone else moment


def fitted(text: str, stream: TextIO | None) -> str:
    """Sentences for a stream: on a terminal in lines of whole words, except those with a command to copy."""
    if stream is None or stream.closed or not stream.isatty():
        return text
    width = terminal_columns(stream)
    return "\n".join(_wrapped_line(line, width) for line in text.split("\n"))


def _wrapped_line(line: str, width: int) -> str:
    if len(line) <= width or "holdfast " in line:
        return line
    import textwrap  # noqa: PLC0415 - needed for long lines on a terminal only

    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(
        line.strip(),
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def terminal_columns(stream: TextIO) -> int:
    """How wide the terminal behind a stream is; 80 if it is not a terminal."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:
        return 80
