"""The run that a command was given, for commands whose output does not name it."""

from __future__ import annotations

from pathlib import Path

from holdfast.cli.ui.standard_streams import say
from holdfast.run.locate import LATEST, find_run
from holdfast.terminal.text import printable


def find_named_run(text: str) -> Path:
    """As `find_run`; for `@latest`, it is printed which run that is.

    Raises:
        UsageError: more than one run matches.
        NotARun: no run matches.
    """
    root = find_run(text)
    if text == LATEST:
        say(printable(f"Newest run: {root}"))
    return root
