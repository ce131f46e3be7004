"""How much more a resume with a grown eval would run than the session before it planned, and what that may cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from holdfast.engine.planning.cost import CostBound, CostEstimate, cost_bounds
from holdfast.engine.planning.prepared_eval import PreparedEval
from holdfast.run.core.prices import USD
from holdfast.run.core.records import PlanEntry
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.run_fold import RunFold
from holdfast.suggestions import first_of


class Growth(msgspec.Struct, frozen=True):
    """What has been added to a run."""

    trials: int
    planned: int
    """All trials, those that were added included."""
    most_cost: float | None
    """What the added trials cost at most, if every attempt fails and every reply is as long as it may be."""
    why_unbounded: list[str]
    """Why there is no such number."""
    likely_cost: float | None
    """What they are likely to cost, by what trials of the run have taken so far."""
    scored_again: int
    """How many of the trials that were planned before get scores of further scorers."""
    currency: str = USD
    may_retry: bool = True
    """Whether code of a user may fail, so that attempts are made again; the most is for that case."""
    without_trials: list[str] = []
    """The tasks and models that have no trial yet, whose likely cost goes by trials of others."""


class RemainingCost(msgspec.Struct, frozen=True):
    """What trials cost that a resume would run although nothing was added: see `Growth`."""

    trials: int
    most_cost: float | None
    why_unbounded: list[str]
    likely_cost: float | None
    currency: str = USD
    may_retry: bool = True
    without_trials: list[str] = []


class _Costs(NamedTuple):
    """What trials cost at most, why that is not known, and what they are likely to cost."""

    most: float | None
    why_unbounded: list[str]
    likely: float | None
    without_trials: list[str]


def trials_to_ask(fold: RunFold) -> dict[tuple[str, str], int]:
    """By task and model, for how many trials a resume would call models; those that lack scores alone have answers."""
    found = Counter({pair: counts.to_run for pair, counts in fold.counts_by_group().items()})
    for standing in fold.standings.values():
        if standing.lacks_scores and standing.group[:2] in found:
            found[standing.group[:2]] -= standing.trials
    return {pair: count for pair, count in found.items() if count > 0}


def measure_remaining(
    before: Sequence[PlanEntry], prepared: PreparedEval, reader: RunReader, fold: RunFold
) -> RemainingCost | None:
    """What a resume would run beside what a plan adds to the one before; None if nothing. `fold` is by the new plan."""
    added = _added_trials(before, prepared)
    left = {pair: count - added.get(pair, 0) for pair, count in trials_to_ask(fold).items()}
    left = {pair: count for pair, count in left.items() if count > 0}
    if not left:
        return None
    currency, may_retry = prepared.spec.currency or USD, _may_retry(left, prepared)
    costs = _costs(left, prepared, reader)
    return RemainingCost(sum(left.values()), *costs[:3], currency, may_retry, costs.without_trials)


def measure_growth(before: Sequence[PlanEntry], prepared: PreparedEval, reader: RunReader) -> Growth | None:
    """What a plan adds to the one before it; None if nothing."""
    known = {(entry.task, entry.model): entry for entry in before}
    added = _added_trials(before, prepared)
    scored = sum(
        _scored_again(known.get((task.name, model)), task.slots) for task in prepared.tasks for model in task.models
    )
    if not added and not scored:
        return None
    costs = _costs(added, prepared, reader)
    currency = prepared.spec.currency or USD
    may_retry = _may_retry(added, prepared)
    trials = sum(added.values())
    return Growth(trials, prepared.planned, *costs[:3], scored, currency, may_retry, costs.without_trials)


def _added_trials(before: Sequence[PlanEntry], prepared: PreparedEval) -> dict[tuple[str, str], int]:
    """By task and model, how many trials a plan adds to the one before it."""
    known = {(entry.task, entry.model): entry.planned for entry in before}
    added = {
        (task.name, model): task.planned_of(model) - known.get((task.name, model), 0)
        for task in prepared.tasks
        for model in task.models
    }
    return {pair: count for pair, count in added.items() if count > 0}


def _bounds_of(trials: Mapping[tuple[str, str], int], prepared: PreparedEval) -> list[CostBound]:
    return [bound for bound in cost_bounds(prepared) if (bound.task, bound.model) in trials]


def _may_retry(trials: Mapping[tuple[str, str], int], prepared: PreparedEval) -> bool:
    """Whether code of a user may fail, so that attempts are made again."""
    return any(bound.most_calls != bound.calls for bound in _bounds_of(trials, prepared))


def _costs(trials: Mapping[tuple[str, str], int], prepared: PreparedEval, reader: RunReader) -> _Costs:
    bounds = _bounds_of(trials, prepared)
    why = _causes_unbounded(bounds, prepared)
    most = math.fsum((bound.most_cost or 0.0) / bound.trials * trials[bound.task, bound.model] for bound in bounds)
    estimate = CostEstimate(reader, prepared.spec)
    for (task, model), count in trials.items():
        estimate.add_trials(task, model, count)
    return _Costs(None if why else most, why, estimate.cost, estimate.without_trials)


def _scored_again(before: PlanEntry | None, scorers: Sequence[str]) -> int:
    return before.planned if before is not None and not set(scorers) <= set(before.scorers) else 0


class _Cause(NamedTuple):
    """Why no upper bound of the cost is known: of one task or model, and of several."""

    one: str
    several: str


_OWN_CODE = _Cause("the code of {} decides how many calls it makes", "the code of {} decides how many calls each makes")
_NO_LENGTH = _Cause("{} has no generation.max_tokens", "{} have no generation.max_tokens")
_NO_PRICE = _Cause("{} has no price", "{} have no price")
_JUDGES = _Cause(*["judges of {} may read more than was asked and answered"] * 2)
_REPAIRS = _Cause(*["repaired requests of {} may be longer"] * 2)


def _causes_unbounded(bounds: Sequence[CostBound], prepared: PreparedEval) -> list[str]:
    """Every cause once, with all that it is true of."""
    found: dict[_Cause, dict[str, None]] = {}
    for bound in bounds:
        if (cause := _why_unbounded(bound, prepared)) is not None:
            name = bound.model if cause in {_NO_LENGTH, _NO_PRICE} else bound.task
            found.setdefault(cause, {})[name] = None
    return [
        (cause.one if len(names) == 1 else cause.several).format(first_of([*names])) for cause, names in found.items()
    ]


def _why_unbounded(bound: CostBound, prepared: PreparedEval) -> _Cause | None:
    """Why no upper bound of the cost of these trials is known; None if one is."""
    if bound.calls is None:
        return _OWN_CODE
    if bound.most_cost is None:
        return _NO_LENGTH if prepared.spec.models[bound.model].price is not None else _NO_PRICE
    if bound.judges:
        return _JUDGES
    return _REPAIRS if bound.is_lower_bound else None
