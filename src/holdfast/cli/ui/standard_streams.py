"""Standard streams: a reader that has gone, a full disk or a closed stream costs what was to be printed, nothing else.

A stream that was closed before the program started would leave its descriptor to the next file that is opened, a
segment of the journal for instance, and whatever a library or a child writes there would go into it. So each
descriptor is occupied before anything is opened.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO

import click

from holdfast.terminal.broken_stream import mute_if_broken
from holdfast.terminal.text import fitted


def reopen_closed_streams() -> None:
    """Puts the null device in the place of standard streams that are closed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _occupy_descriptor(number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _occupy_descriptor(number: int) -> None:
    opened = os.open(os.devnull, os.O_RDWR)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    os.set_inheritable(number, True)


class _Route:
    """Where messages for people go."""

    log: Callable[[str], None] | None = None
    is_quiet = False


def say(text: str, *, always: bool = False) -> None:
    """Prints a message for people to standard error, if it can be written; a log file gets it too.

    Where messages are silenced, only one that is `always` said is printed.
    """
    if _Route.log is not None:
        _Route.log(text)
    if always or not _Route.is_quiet:
        with contextlib.suppress(OSError):
            click.echo(fitted(text, sys.stderr), err=True)


@contextlib.contextmanager
def routing_messages(log: Callable[[str], None]) -> Iterator[None]:
    """While the block runs, `log` gets every message for people."""
    before, _Route.log = _Route.log, log
    try:
        yield
    finally:
        _Route.log = before


@contextlib.contextmanager
def silencing_messages(*, is_quiet: bool) -> Iterator[None]:
    """While the block runs, messages for people are not printed, if `is_quiet`; a log file still gets them."""
    before, _Route.is_quiet = _Route.is_quiet, is_quiet
    try:
        yield
    finally:
        _Route.is_quiet = before


class _Output:
    """Where the result of a command goes, if not to `sys.stdout`."""

    stream: TextIO | None = None


def output_stream() -> TextIO:
    """The stream of the result."""
    return _Output.stream or sys.stdout


@contextlib.contextmanager
def reserving_output() -> Iterator[None]:
    """While the block runs, standard output is for the result alone: what tasks print goes to standard error.

    So does what their commands print, where standard output is a descriptor of this process.
    """
    _Output.stream = stream = _moved_descriptor() if _is_first_descriptor(sys.stdout) else sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _Output.stream = None
        if stream is not sys.stdout:
            _put_back(stream)


def _is_first_descriptor(stream: TextIO) -> bool:
    try:
        return stream is sys.__stdout__ and stream.fileno() == 1
    except (OSError, ValueError):
        return False


def _moved_descriptor() -> TextIO:
    """Standard output under another number; its own leads to standard error from now on."""
    sys.stdout.flush()
    moved = os.fdopen(os.dup(1), "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)
    os.dup2(2, 1)
    return moved


def _put_back(stream: TextIO) -> None:
    mute_if_broken(stream)
    os.dup2(stream.fileno(), 1)
    stream.close()


def write_output(pieces: Iterable[bytes]) -> None:
    """Writes bytes to standard output as they are, one piece at a time."""
    for piece in pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def is_output_error(error: OSError) -> bool:
    """Whether printing failed: such an error names no file, but it was raised where printing is done."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    module = place.tb_frame.f_globals.get("__name__", "") if place else ""
    return module in {"click.utils", __name__}
