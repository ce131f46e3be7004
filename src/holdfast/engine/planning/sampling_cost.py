"""What one sampling may take at most: calls by model, judges included, and their cost.

Candidates are drawn with the prompt of the task. A judge reads that and an answer of full length. A repaired request
is longer than the first, and so is what a judge reads besides the answer: by how much is unknown beforehand, so the
cost is then a lower bound of the worst case, and is marked as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from holdfast.engine.planning.cost import ModelBound, SamplingShape, call_cost
from holdfast.sampling.requirements.built_in import BuiltInRequirement
from holdfast.sampling.requirements.requirement import Requirement
from holdfast.sampling.requirements.user_function import FunctionRequirement
from holdfast.sampling.solver import SampledGenerate
from holdfast.sampling.strategies.strategy import Strategy, most_calls
from holdfast.spec import ModelSpec


class SamplingCost:
    """The worst case of one sampling of a task on one model."""

    def __init__(
        self, solver: SampledGenerate, own: str, models: Mapping[str, ModelSpec], prompt_tokens: float
    ) -> None:
        self._solver, self._own, self._models, self._prompt = solver, own, models, prompt_tokens
        strategy = self._strategy = solver.strategy
        scorers = () if strategy.scorer is None else (strategy.scorer,)
        self._judges: list[Requirement] = [check for check in (*solver.checks, *scorers) if check.calls]
        turns, lanes = strategy.loop_budget, strategy.concurrency_budget
        if strategy.hooks:
            # A hook may set them as high as that.
            turns, lanes = map(max, strategy.budget_ceiling, (turns, lanes))
        self._candidates = self._capped(turns * lanes)
        calls = most_calls(strategy, solver.checks, turns, lanes)
        self.shape = SamplingShape(strategy.name, lanes, turns, calls)

    @property
    def is_lower_bound(self) -> bool:
        """Whether the worst case may cost more, because what is asked then is longer than what is known now."""
        repairs = type(self._strategy).repair is not Strategy.repair and self.shape.turns > 1
        return repairs or bool(self._judges) or self._full_cost() is None

    @property
    def runs_own_code(self) -> bool:
        """Whether functions of a user take part, which may raise: then another attempt follows."""
        strategy = self._strategy
        scorer = () if strategy.scorer is None else (strategy.scorer,)
        own = [one for one in (*self._solver.checks, *scorer) if _is_own(one)]
        return bool(own or strategy.hooks) or not type(strategy).__module__.startswith("holdfast.")

    def by_model(self, samplings: int) -> dict[str, ModelBound]:
        """What each model may be asked for in a number of samplings."""
        drawn = dict.fromkeys((self._own, *self._strategy.models), self._candidates)
        judged: Counter[str] = Counter()
        for judge in self._judges:
            for model in judge.models:
                judged[model] += self._candidates * judge.calls
        return {name: self._bound(name, drawn.get(name, 0), judged[name], samplings) for name in {**drawn, **judged}}

    def cost(self) -> float | None:
        """What one sampling may cost; None where no bound can be given."""
        full, budget = self._full_cost(), self._strategy.budget
        if budget.cost is None:
            return full
        if full is None:
            # Calls that are running when the cap is reached come on top of it.
            return budget.cost if all(self._models[name].price for name in self._asked()) else None
        dearest = max(cost for cost in self._call_costs() if cost is not None)
        return min(full, budget.cost + self.shape.lanes * dearest)

    def _full_cost(self) -> float | None:
        drawing = [self._drawing_cost(name) for name in (self._own, *self._strategy.models)]
        judging = [(judge.calls, self._judging_cost(name)) for judge in self._judges for name in judge.models]
        if None in drawing or any(cost is None for _, cost in judging):
            return None
        candidate = max(cost or 0.0 for cost in drawing) + sum(calls * (cost or 0.0) for calls, cost in judging)
        full = self._candidates * candidate
        cap = self._strategy.budget.calls
        return full if cap is None else min(full, cap * max(cost or 0.0 for cost in self._call_costs()))

    def _asked(self) -> tuple[str, ...]:
        return self._own, *self._solver.models

    def _call_costs(self) -> list[float | None]:
        drawing = [self._drawing_cost(name) for name in (self._own, *self._strategy.models)]
        return [*drawing, *(self._judging_cost(name) for judge in self._judges for name in judge.models)]

    def _bound(self, name: str, drawn: int, judged: int, samplings: int) -> ModelBound:
        calls = self._capped(drawn + judged)
        drawing = self._drawing_cost(name) if drawn else 0.0
        judging = self._judging_cost(name) if judged else 0.0
        if drawing is None or judging is None:
            return ModelBound(calls * samplings)
        cost = min(drawn * drawing + judged * judging, calls * max(drawing, judging))
        return ModelBound(calls * samplings, cost * samplings)

    def _drawing_cost(self, name: str) -> float | None:
        return call_cost(self._models[name], self._prompt, self._longest_answer(name))

    def _judging_cost(self, name: str) -> float | None:
        model, longest = self._models[name], 0.0
        for drawing in (self._own, *self._strategy.models):
            answer = self._longest_answer(drawing)
            if answer is None:
                return None
            longest = max(longest, answer)
        return call_cost(model, self._prompt + longest, model.generation.max_tokens)

    def _longest_answer(self, name: str) -> float | None:
        given: float | None = self._solver.generation.get("max_tokens", self._models[name].generation.max_tokens)
        return given

    def _capped(self, calls: int) -> int:
        cap = self._strategy.budget.calls
        return calls if cap is None else min(calls, cap)


def _is_own(check: Requirement) -> bool:
    return not isinstance(check, BuiltInRequirement) or isinstance(check, FunctionRequirement)
