"""Text for standard output: how wide it is, how it is styled, and times and costs as people read them."""

from __future__ import annotations

import math
import os
import sys
from typing import Any

import click

from holdfast.cli.ui.terminal_text import terminal_columns


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


def cost_amount(cost: float) -> str:
    """A cost as a plain number: four decimals, more where the first digits come later, never an exponent."""
    decimals = 4 if cost >= 0.01 or not cost else 1 - math.floor(math.log10(cost))
    return f"{cost:,.{decimals}f}"
