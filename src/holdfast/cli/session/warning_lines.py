"""Warnings that are printed before anything is called or written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.cli.ui.standard_streams import say
from holdfast.models.env_file import read_env_file


def print_warnings(warnings: Sequence[str]) -> None:
    """Prints what a person should know before the first call, also with -q: it may be about money."""
    for warning in warnings:
        say(f"warning: {warning}", always=True)


def print_env_warnings(eval_file: Path | None) -> None:
    """Reads the `.env` beside an edited eval file, before any code of its tasks is loaded."""
    if eval_file is not None:
        print_warnings(read_env_file(eval_file.parent))
