"""The option `--fail-under` of `run`, `resume` and `report`, and its messages."""

from __future__ import annotations

from collections.abc import Iterable

import click

from holdfast.analysis.fail_under import BoundResult, ScoreBound, parse_bounds
from holdfast.cli.ui.standard_streams import say
from holdfast.terminal.text import printable


def _parsed(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> list[ScoreBound]:
    return parse_bounds(texts)


fail_under_option = click.option(
    "--fail-under",
    "bounds",
    multiple=True,
    metavar="[NAME=]SCORE",
    callback=_parsed,
    help="Exit with 1 if a score is lower, as in: capitals.exact=0.8; may be repeated.",
)


def bound_failures(results: Iterable[BoundResult], *, is_complete: bool) -> list[str]:
    """Why a run does not pass its bounds: the scores that are below, and that it is incomplete; empty if it passes."""
    below = [str(result) for result in results if not result.passed]
    return below if is_complete else [*below, "the run is incomplete, so it does not pass"]


def print_bound_failures(failures: Iterable[str]) -> None:
    """A line on stderr for each reason."""
    for text in failures:
        say(printable(f"holdfast: --fail-under: {text}."))
