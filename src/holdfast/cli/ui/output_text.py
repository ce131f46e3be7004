"""Text for standard output: how wide it is, and how it is styled."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from holdfast.terminal.text import terminal_columns


def output_columns() -> int:
    """How wide standard output is: as COLUMNS says, else as its terminal is, else 80."""
    chosen = os.environ.get("COLUMNS", "")
    return int(chosen) if chosen.isdecimal() and int(chosen) else terminal_columns(sys.stdout)


def styled(text: str, **style: Any) -> str:
    """The text with a style, unless NO_COLOR is set; `click.echo` leaves it out where there is no terminal."""
    return text if os.environ.get("NO_COLOR") else click.style(text, **style)
