"""Expressions that have a name of their own, as `--wrong` and `--failed`, and several expressions as one."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.errors import UsageError
from holdfast.run.core.slots.slot_names import scorer_of
from holdfast.run.where.clause import Names

FAILED = "status=failed"


def wrong_expression(names: Names, option: str = "--wrong") -> str:
    """Selects valid trials that have a score below 1; what single judges say does not matter where several do.

    Raises:
        UsageError: the run has no scorers.
    """
    if not names.scorers:
        raise UsageError(f"{option} selects trials by their scores, and this run has no scorers.")
    scorers = {name for name in names.scorers if scorer_of(name) not in names.scorers - {name}}
    scores = " or ".join(f"{_quoted(f'scores.{name}')}<1" for name in sorted(scorers))
    return f"status=valid and ({scores})"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def joined_expression(expressions: Iterable[str]) -> str | None:
    """Selects what all of them select; None where there are none."""
    given = list(expressions)
    return " and ".join(f"({one})" for one in given) if len(given) > 1 else next(iter(given), None)
