"""Bounds on scores, for CI: `--fail-under capitals.exact=0.8`.

A bound applies to every score that its name matches: `scorer`, `task.scorer` or `task.model.scorer`; without a name it
applies to all. Names may contain dots, so they are compared with the names in the plan, and never split. A score
without a value is below every bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.errors import UsageError
from holdfast.run.core.records import PlanEntry
from holdfast.suggestions import did_you_mean

if TYPE_CHECKING:
    from holdfast.analysis.report import TaskReports

_PERCENT = 100
_HOW = "Write it as in: --fail-under capitals.exact=0.8"


class ScoreBound(NamedTuple):
    """The least that the scores with a name must reach; without a name, that all scores must reach."""

    name: str
    least: float

    def matches(self, task: str, model: str, scorer: str) -> bool:
        return self.name in {"", *_spellings(task, model, scorer)}


class BoundResult(msgspec.Struct, frozen=True):
    """How one score compares with a bound."""

    score: str
    """`task.model.scorer`"""
    value: float | None
    """None where nothing was measured."""
    least: float
    passed: bool

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.score} has no value, below {self.least:.6g}"
        # Where they look alike when rounded, all digits are printed.
        form = ".6g" if f"{self.value:.6g}" != f"{self.least:.6g}" else ".17g"
        return f"{self.score} is {self.value:{form}}, below {self.least:{form}}"


def _spellings(task: str, model: str, scorer: str) -> tuple[str, str, str]:
    return scorer, f"{task}.{scorer}", f"{task}.{model}.{scorer}"


def parse_bounds(texts: Iterable[str]) -> list[ScoreBound]:
    """The bounds that a command line gives.

    Raises:
        UsageError: one of them is not a number, or a name and a number.
    """
    return [_parsed(text) for text in texts]


def _parsed(text: str) -> ScoreBound:
    name, equals, number = text.rpartition("=")
    try:
        least = float(number)
    except ValueError:
        raise UsageError(f"--fail-under {text!r} does not end with a number.", hint=_HOW) from None
    if not math.isfinite(least) or (equals and not name):
        raise UsageError(f"--fail-under {text!r} is not a bound.", hint=_HOW)
    return ScoreBound(name, least)


def check_bounds(bounds: Iterable[ScoreBound], plan: Iterable[PlanEntry]) -> None:
    """Checks that every bound matches a score of the plan, and that the score can be below it and can reach it.

    Raises:
        UsageError: one matches none, and the nearest name is suggested; or it can never be reached, or never fail.
    """
    plan = list(plan)
    scores = [(entry.task, entry.model, scorer) for entry in plan for scorer in entry.shown_scorers]
    for bound in bounds:
        if not any(bound.matches(*score) for score in scores):
            near = did_you_mean(bound.name, [name for score in scores for name in _spellings(*score)[1:3]])
            what = f"no score {bound.name!r}" if bound.name else "no scorer"
            raise UsageError(f"--fail-under: the eval has {what}.", hint=f"{near} {_all_of(scores)}".strip())
        for entry in plan:
            for scorer in entry.binary or ():
                if scorer in entry.shown_scorers and bound.matches(entry.task, entry.model, scorer):
                    _refuse_impossible(bound.least, f"{entry.task}.{scorer}")


def _refuse_impossible(least: float, score: str) -> None:
    """Refuses a bound on an accuracy that decides before anything is measured."""
    if 0 < least <= 1:
        return
    never = "no score can reach it" if least > 1 else "no score is below it, so it can never fail"
    percent = f" Did you mean {least / _PERCENT:.6g}?" if 1 < least <= _PERCENT else ""
    raise UsageError(
        f"--fail-under {least:.6g}: {score} is an accuracy, between 0 and 1: {never}.{percent}",
        hint="" if percent else _HOW,
    )


def _all_of(scores: Iterable[tuple[str, str, str]]) -> str:
    names = sorted({_spellings(*score)[1] for score in scores})
    return f"There are: {', '.join(names)}." if names else ""


def compare_bounds(bounds: Sequence[ScoreBound], plan: Iterable[PlanEntry], tasks: TaskReports) -> list[BoundResult]:
    """Every score that has a bound, in the order of the bounds."""
    entries = list(plan)
    return [result for bound in bounds for result in _results(bound, entries, tasks)]


def _results(bound: ScoreBound, plan: Iterable[PlanEntry], tasks: TaskReports) -> Iterator[BoundResult]:
    for entry in plan:
        for scorer in entry.shown_scorers:
            if bound.matches(entry.task, entry.model, scorer):
                value = _value(tasks, entry, scorer)
                passed = value is not None and value >= bound.least
                name = _spellings(entry.task, entry.model, scorer)[2]
                yield BoundResult(name, value, bound.least, passed)


def _value(tasks: TaskReports, entry: PlanEntry, scorer: str) -> float | None:
    group = tasks.get(entry.task, {}).get(entry.model)
    metrics = group.metrics.get(scorer, {}) if group is not None else {}
    return next((metric.value for metric in metrics.values()), None)
