"""A solver that draws its answer by a strategy: `sampled(generate("…"), strategy=Repair(loop_budget=3))`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import FunctionType, MethodType
from typing import Any, ClassVar

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.sampling.requirements.registry import Given, as_requirements
from holdfast.sampling.requirements.requirement import Requirement, in_order
from holdfast.sampling.requirements.user_function import FunctionRequirement
from holdfast.sampling.strategies.repair import Rejection
from holdfast.sampling.strategies.strategy import Strategy
from holdfast.spec import SamplingSpec
from holdfast.tasks.solver import Generate
from holdfast.tasks.source.digest import source_digest
from holdfast.tasks.source.origin import object_state
from holdfast.tasks.trial_interface import Trial

_ONE_CANDIDATE = Rejection()


class SampledGenerate(Generate, frozen=True, kw_only=True, dict=True):
    """Asks as `generate` does, and answers with the candidate that the strategy chooses."""

    is_sampled: ClassVar[bool] = True

    strategy: Strategy
    requirements: tuple[Requirement, ...] = ()
    """They apply in addition to the strategy's own."""
    spec: SamplingSpec | None = None
    """The `sampling` of an eval file that it was made from, if it was."""
    parts: tuple[object, ...] = ()
    """The requirements and hooks that its strategy holds: where the code of a solver is looked for."""

    async def __call__(self, trial: Trial) -> Any:
        messages = self.messages(trial.sample, trial.axes)
        drawing: dict[str, Any] = {"strategy": self.strategy, "requirements": self.requirements}
        return await trial.generate(messages, **drawing, **self.generation)

    @property
    def checks(self) -> tuple[Requirement, ...]:
        """Every requirement that a candidate is checked against, as they are checked; the scorer is not among them."""
        return in_order((*self.strategy.requirements, *self.requirements))

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models that it asks beside the one under test: larger ones, and judges."""
        judges = [model for check in (*self.checks, *_scorers(self.strategy)) for model in check.models]
        return tuple(dict.fromkeys((*self.strategy.models, *judges)))

    @property
    def has_cost_cap(self) -> bool:
        return self.strategy.budget.cost is not None

    @property
    def own_parts(self) -> tuple[object, ...]:
        given = (self.strategy, *self.strategy.requirements, *_scorers(self.strategy), *self.requirements)
        parts = [held.function if isinstance(held, FunctionRequirement) else held for held in given]
        return tuple(held for held in (*parts, *self.strategy.hooks) if not _is_ours(held) or _is_code(held))

    def draw_identity(self) -> dict[str, Any]:
        """What the choice of the answer depends on."""
        return self._draw_identity

    @functools.cached_property
    def _draw_identity(self) -> dict[str, Any]:
        """Taken once: every trial needs it, and a run works with what it began with, whatever hooks note meanwhile."""
        own = {
            **self.strategy.identity(),
            "call_requirements": [requirement.identity() for requirement in self.requirements],
        }
        code = [held for held in (self.strategy, *self.strategy.hooks) if not _is_ours(held)]
        return {**own, "code": [_digest_with_state(held) for held in code]} if code else own


def sampled(
    solver: Generate,
    *,
    strategy: Strategy | None = None,
    requirements: Sequence[Given] = (),
    spec: SamplingSpec | None = None,
) -> SampledGenerate:
    """A solver that asks what `solver` asks, several times if need be, and answers with the chosen candidate.

    Without a strategy there is one candidate, which has to meet the requirements. They apply in addition to the
    strategy's own. The strategy's `concurrency_budget` multiplies requests. `spec` is what the strategy was made from.

    Raises:
        ConfigurationError: the solver is not `generate(...)`, or a requirement cannot be understood.
        ValueError: two requirements have the same id.
    """
    if not isinstance(solver, Generate) or solver.is_sampled or solver.tool_identity():
        name = getattr(solver, "__name__", type(solver).__name__)
        raise ConfigurationError(
            f"{name} cannot be sampled.",
            hint="Give generate(...); in a solver of your own: trial.generate(strategy=…).",
        )
    chosen, checks = strategy or _ONE_CANDIDATE, as_requirements(requirements)
    # Ids that clash are found now, not in the middle of a run.
    in_order((*chosen.requirements, *checks))
    parts = (*chosen.requirements, *_scorers(chosen), *chosen.hooks)
    return SampledGenerate(
        **msgspec.structs.asdict(solver),
        strategy=chosen,
        requirements=checks,
        spec=spec,
        parts=parts,
    )


def _scorers(strategy: Strategy) -> tuple[Requirement, ...]:
    return () if strategy.scorer is None else (strategy.scorer,)


def _is_code(held: object) -> bool:
    return isinstance(held, FunctionType | MethodType | functools.partial)


def _is_ours(held: object) -> bool:
    return type(held).__module__.partition(".")[0] == "holdfast"


def _digest_with_state(held: object) -> str:
    """An object of the user's own: its code, and what it holds, as with a callable object."""
    state = object_state(held)
    return source_digest([type(held), getattr(held, "__dict__", None) if state is None else state])
