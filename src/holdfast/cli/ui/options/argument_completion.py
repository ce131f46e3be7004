"""Completion of arguments in a shell: RUN by the names of the runs below `runs/` and here, else directories; EVAL by
files; what `list` lists by its name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from holdfast.run.core.layout import RUNS, Layout


class RunReference(click.types.StringParamType):
    """A text that names a run."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002 - click's signature
        """What the text may become."""
        found = [CompletionItem(name) for name in _run_names(incomplete)]
        return found or [CompletionItem(incomplete, type="dir")]


def _run_names(beginning: str) -> Iterator[str]:
    """The runs below `runs/` and here whose names begin so: by their names, the newest of those below `runs/` first."""
    for directory in (RUNS, Path()):
        with contextlib.suppress(OSError):
            for root in sorted(directory.iterdir(), reverse=True):
                if root.name.startswith(beginning) and Layout(root).journal.is_dir():
                    yield root.name


class ListReference(click.types.StringParamType):
    """What `holdfast list` lists."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002 - click's signature
        """The few names that there are."""
        known = (param.metavar or "").split("|")
        return [CompletionItem(name) for name in known if name.startswith(incomplete)]


class EvalReference(click.types.StringParamType):
    """A text that names an eval file, or a task in a Python file."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002 - click's signature
        """The shell knows the files."""
        return [CompletionItem(incomplete, type="file")]


_REFERENCES = {"run": RunReference, "eval_file": EvalReference, "what": ListReference}


def complete_references(command: click.Command) -> None:
    """Gives the arguments RUN and EVAL of a command, if it has them, this completion."""
    for parameter in command.params:
        is_text = isinstance(parameter.type, click.types.StringParamType)
        if isinstance(parameter, click.Argument) and is_text and parameter.name in _REFERENCES:
            parameter.type = _REFERENCES[parameter.name]()
