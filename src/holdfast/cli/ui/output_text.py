"""Text for standard output: how wide it is, how it is styled, and times as people read them."""

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


def time_text(at: str | None, *, zone: bool = True) -> str:
    """A recorded time for people: "2026-11-17 11:32:12 UTC"."""
    if not at:
        return "(not known)"
    moment, plus, offset = at.replace("T", " ").partition("+")
    if plus and offset != "00:00":
        return at
    return f"{moment} UTC" if zone else moment
