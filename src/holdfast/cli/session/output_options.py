"""The options of `run` and `resume` that say how much a session prints: -v, -q and --log-file."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from holdfast.cli.session.log_file import LogFile
from holdfast.cli.ui.options.local_path import LocalPath
from holdfast.cli.ui.standard_streams import routing_messages
from holdfast.errors import HoldfastError, UsageError


@dataclass(frozen=True)
class SessionOutput:
    """How much a session prints, and the log file it writes, if any."""

    verbose: bool = False
    quiet: bool = False
    log: LogFile | None = None

    def note(self, text: str) -> None:
        """Writes a line into the log file, if there is one."""
        if self.log is not None:
            self.log.write(text)


def output_options(command: Callable[..., int]) -> Callable[..., int]:
    """Gives a command these options, and their values as its argument `output`."""

    @click.option("-v", "--verbose", is_flag=True, help="Print every retry and every failed trial.")
    @click.option("-q", "--quiet", is_flag=True, help="Print only warnings, the result and errors.")
    @click.option("--log-file", type=LocalPath(), help="Append messages and progress to this file.")
    @functools.wraps(command)
    def with_output(*args: Any, verbose: bool, quiet: bool, log_file: Path | None, **options: Any) -> int:
        if verbose and quiet:
            raise UsageError("-v and -q cannot be used together.")
        with _opened_log(log_file) as log:
            return command(*args, output=SessionOutput(verbose, quiet, log), **options)

    return with_output


@contextlib.contextmanager
def _opened_log(path: Path | None) -> Iterator[LogFile | None]:
    """The log file, which also gets what is printed for people, and the error that ends the command."""
    if path is None:
        yield None
        return
    with contextlib.closing(LogFile(path)) as log, routing_messages(log=log.write):
        try:
            yield log
        except HoldfastError as error:
            log.write(f"holdfast: {error}")
            raise
