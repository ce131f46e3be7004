"""A strategy from the `sampling` of an eval file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.errors import ConfigurationError
from holdfast.sampling.budget import SamplingBudget
from holdfast.sampling.requirements.registry import build_requirement
from holdfast.sampling.requirements.requirement import Requirement
from holdfast.sampling.strategies.best_of_n import BestOfN
from holdfast.sampling.strategies.escalate import Escalate
from holdfast.sampling.strategies.repair import MultiTurn, Rejection, Repair
from holdfast.sampling.strategies.strategy import Strategy
from holdfast.sampling.strategies.vote import Vote
from holdfast.spec import SamplingSpec, plain_data
from holdfast.tasks.source.code_files import CodeBase

_STRATEGIES: dict[str, type[Strategy]] = {
    kind.name: kind for kind in (Rejection, Repair, MultiTurn, Vote, BestOfN, Escalate)
}


def build_strategy(spec: SamplingSpec, place: str, directory: CodeBase = Path()) -> Strategy:
    """The strategy that a `sampling` describes, which is at `place`; files in it start at `directory`.

    Raises:
        ConfigurationError: a requirement does not exist, something is wrong with it, or the scorer gives no score; the
            message begins with where.
    """
    checks = {at: build_requirement(given, f"{place}.{at}", base_dir=directory) for at, given in spec.checks()}
    scorer = checks.pop("scorer", None)
    if scorer is not None and not scorer.gives_score:
        raise _without_score(f"{place}.scorer", scorer)
    own = _own_options(spec, scorer)
    try:
        return _STRATEGIES[spec.strategy](
            loop_budget=spec.loop_budget,
            concurrency_budget=spec.concurrency_budget,
            selection=spec.selection or "first",
            requirements=list(checks.values()),
            budget=SamplingBudget(**plain_data(spec.budget)),
            short_circuit=spec.short_circuit,
            **own,
        )
    except ValueError as error:
        raise ConfigurationError(f"{place}: {error}") from None


def _without_score(place: str, scorer: Requirement) -> ConfigurationError:
    return ConfigurationError(
        f"{place}: the requirement {scorer.derived_id()} gives no score, so best_of_n cannot choose by it.",
        hint="Name a judge with scored: true, or a function that returns a number from 0 to 1.",
    )


def _own_options(spec: SamplingSpec, scorer: Requirement | None) -> dict[str, Any]:
    """What a strategy takes beside the options of all."""
    if spec.strategy == "vote":
        return {"by": spec.vote or "majority", "extract": spec.extract}
    if spec.strategy == "best_of_n":
        return {"scorer": scorer}
    return {"to": spec.escalate_to or []} if spec.strategy == "escalate" else {}
