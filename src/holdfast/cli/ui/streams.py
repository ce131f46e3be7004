"""Standard streams: a reader that has gone, a full disk or a closed stream costs what was to be printed, nothing else.

A stream that was closed before the program began would leave its number to the next file that is opened, a segment of
the journal for instance, and whatever a library or a child writes there would go into it. So each has its number taken
before anything is opened.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO

import click


def open_closed() -> None:
    """Puts the null device in the place of standard streams that are closed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _take(number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _take(number: int) -> None:
    opened = os.open(os.devnull, os.O_RDWR)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    os.set_inheritable(number, True)


def say(text: str) -> None:
    """Tells a person something on standard error, if anybody can be told."""
    with contextlib.suppress(OSError):
        click.echo(text, err=True)


def is_of_output(error: OSError) -> bool:
    """Whether an error is that of printing; it names no file, but it comes from where printing is done."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    module = place.tb_frame.f_globals.get("__name__", "") if place else ""
    return module in {"click.utils", "holdfast.cli.cat"}


def mute_if_broken(stream: TextIO) -> None:
    """Gives up what a stream still holds if it cannot be written any more, so that it is not tried again at exit."""
    try:
        stream.flush()
    except OSError:
        with contextlib.suppress(OSError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
