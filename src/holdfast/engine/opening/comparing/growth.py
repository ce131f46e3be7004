"""How much more a resume with a grown eval would run than the session before it planned, and what that may cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from holdfast.engine.planning.cost import CostBound, CostEstimate, cost_bounds
from holdfast.engine.planning.prepared_eval import PreparedEval
from holdfast.run.core.prices import USD
from holdfast.run.core.records import PlanEntry
from holdfast.run.fold.reader import RunReader


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


def measure_growth(before: Sequence[PlanEntry], prepared: PreparedEval, reader: RunReader) -> Growth | None:
    """What a plan adds to the one before it; None if nothing."""
    known = {(entry.task, entry.model): entry for entry in before}
    added = {
        (task.name, model): task.planned_of(model)
        - (known[task.name, model].planned if (task.name, model) in known else 0)
        for task in prepared.tasks
        for model in task.models
    }
    added = {pair: count for pair, count in added.items() if count > 0}
    scored = sum(
        _scored_again(known.get((task.name, model)), task.slots) for task in prepared.tasks for model in task.models
    )
    if not added and not scored:
        return None
    bounds = [bound for bound in cost_bounds(prepared) if (bound.task, bound.model) in added]
    why = list(dict.fromkeys(filter(None, (_why_unbounded(bound, prepared) for bound in bounds))))
    most = math.fsum((bound.most_cost or 0.0) / bound.trials * added[bound.task, bound.model] for bound in bounds)
    estimate = CostEstimate(reader, prepared.spec)
    for (task, model), count in added.items():
        estimate.add_trials(task, model, count)
    return Growth(
        sum(added.values()),
        prepared.planned,
        None if why else most,
        why,
        estimate.cost,
        scored,
        prepared.spec.currency or USD,
        any(bound.most_calls != bound.calls for bound in bounds),
    )


def _scored_again(before: PlanEntry | None, scorers: Sequence[str]) -> int:
    return before.planned if before is not None and not set(scorers) <= set(before.scorers) else 0


def _why_unbounded(bound: CostBound, prepared: PreparedEval) -> str:
    """Why no upper bound of the cost of these trials is known; empty if one is."""
    if bound.calls is None:
        return f"the code of {bound.task} decides how many calls it makes"
    if bound.most_cost is None:
        is_priced = prepared.spec.models[bound.model].price is not None
        return f"{bound.model} has no generation.max_tokens" if is_priced else f"{bound.model} has no price"
    if bound.judges:
        return f"judges of {bound.task} may read more than was asked and answered"
    return f"repaired requests of {bound.task} may be longer" if bound.is_lower_bound else ""
