"""Warnings that are printed before anything is called or written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from holdfast.cli.ui.standard_streams import say
from holdfast.models.env_file import read_env_file
from holdfast.models.errors import excerpt
from holdfast.terminal.text import quantity

_SHOWN_CHARACTERS = 160
"""Of each: the whole sentence is above, and in JSON."""


def print_warnings(warnings: Sequence[str]) -> None:
    """Prints what a person should know before the first call, also with -q: it may be about money."""
    for warning in warnings:
        say(f"warning: {warning}", always=True)


def print_warnings_again(warnings: Sequence[str]) -> None:
    """Prints at the end how many warnings there were before the first call, and what they were about."""
    if not warnings:
        return
    about = "; ".join(excerpt(_first_sentence(warning), _SHOWN_CHARACTERS) for warning in warnings)
    say(f"{quantity(len(warnings), 'warning')} before the start: {about}")


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?]) ", text, maxsplit=1)[0]


def print_env_warnings(eval_file: Path | None) -> None:
    """Reads the `.env` beside an edited eval file, before any code of its tasks is loaded."""
    if eval_file is not None:
        print_warnings(read_env_file(eval_file.parent))
