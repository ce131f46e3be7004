"""The worst case of a sampling, before anything is asked: calls by model, judges included, and what they cost."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast import generate
from holdfast.engine.planning.sampling_cost import SamplingCost
from holdfast.sampling.budget import SamplingBudget
from holdfast.sampling.hooks import SamplingHook
from holdfast.sampling.requirements.requirement import Requirement
from holdfast.sampling.solver import sampled
from holdfast.sampling.strategies.best_of_n import BestOfN
from holdfast.sampling.strategies.escalate import Escalate
from holdfast.sampling.strategies.repair import MultiTurn, Rejection, Repair
from holdfast.sampling.strategies.strategy import Strategy
from holdfast.sampling.strategies.vote import Vote
from holdfast.spec import ModelSpec

PROMPT = 50.0


def model(price: float | None, longest: int | None = 100) -> ModelSpec:
    data: dict[str, Any] = {"provider": "scripted", "model": "echo", "generation": {"max_tokens": longest}}
    if price is not None:
        data["price"] = {"input": price, "output": 2 * price}
    return msgspec.convert(data, ModelSpec)


MODELS = {
    "own": model(1.0),
    "large": model(10.0),
    "strict": model(3.0),
    "free": model(None),
    "endless": model(1.0, None),
}
ASKING = {name: PROMPT * price + 100 * 2 * price for name, price in (("own", 1.0), ("large", 10.0))}
JUDGING = (PROMPT + 100) * 3.0 + 100 * 6.0
"""Millionths: a judge reads the prompt and an answer of full length."""


class Asked(Requirement, frozen=True, kw_only=True):
    """Takes up to two calls of a judge."""

    calls = 2
    model: str = "strict"

    @property
    def models(self) -> tuple[str, ...]:
        return (self.model,)

    def identity(self) -> dict[str, Any]:
        return {"model": self.model}


def worst(strategy: Strategy, own: str = "own", **keys: Any) -> SamplingCost:
    return SamplingCost(sampled(generate("{input}"), strategy=strategy, **keys), own, MODELS, PROMPT)


def millionths(cost: float | None) -> float:
    assert cost is not None
    return cost * 1e6


@pytest.mark.parametrize("kind", [Rejection, Repair, MultiTurn, Vote])
def test_sampling_15_depth_times_breadth(kind):
    """Every turn of every lane is asked for."""
    found = worst(kind(loop_budget=3, concurrency_budget=4))
    assert (found.shape.turns, found.shape.lanes, found.shape.calls) == (3, 4, 12)
    assert millionths(found.cost()) == pytest.approx(12 * ASKING["own"])
    assert found.by_model(5)["own"].calls == 60
    assert millionths(found.by_model(5)["own"].cost) == pytest.approx(60 * ASKING["own"])


def test_sampling_15_judges_of_requirements_and_scorers_count_at_their_own_price():
    """Each may be asked twice about each candidate; those of the strategy and of the call both."""
    strategy = BestOfN(concurrency_budget=2, scorer=Asked(id="best"), requirements=[Asked(id="a")])
    found = worst(strategy, requirements=[Asked(id="b")])
    assert found.shape.calls == 2 * (1 + 3 * 2)
    assert {name: bound.calls for name, bound in found.by_model(1).items()} == {"own": 2, "strict": 12}
    assert millionths(found.cost()) == pytest.approx(2 * ASKING["own"] + 12 * JUDGING)
    assert millionths(found.by_model(1)["strict"].cost) == pytest.approx(12 * JUDGING)
    assert found.is_lower_bound


def test_sampling_15_the_dearest_model_that_may_draw_is_the_worst_case():
    """Any turn may be the larger model's; both are listed with what they may be asked for by themselves."""
    found = worst(Escalate(to=["large"], loop_budget=3))
    assert {name: bound.calls for name, bound in found.by_model(1).items()} == {"own": 3, "large": 3}
    assert millionths(found.cost()) == pytest.approx(3 * ASKING["large"])


def test_sampling_20_a_cap_on_calls_caps_everything():
    """What is not admitted costs nothing."""
    found = worst(Rejection(loop_budget=10, concurrency_budget=2, budget=SamplingBudget(calls=7)))
    assert found.shape.calls == 7
    assert millionths(found.cost()) == pytest.approx(7 * ASKING["own"])
    assert found.by_model(1)["own"].calls == 7


def test_sampling_20_a_cap_on_cost_caps_the_cost_but_for_calls_in_flight():
    """Once it is reached nothing is admitted; the lanes that are asking then may end."""
    cap = 10 * ASKING["own"] / 1e6
    found = worst(Rejection(loop_budget=50, concurrency_budget=2, budget=SamplingBudget(cost=cap)))
    assert millionths(found.cost()) == pytest.approx(12 * ASKING["own"])
    small = worst(Rejection(loop_budget=2, budget=SamplingBudget(cost=cap)))
    assert millionths(small.cost()) == pytest.approx(2 * ASKING["own"])


def test_no_bound_is_given_where_there_is_none():
    """Without a price, or without a limit of the reply, nothing is guessed; a cap on cost holds all the same."""
    assert worst(Rejection(), own="free").cost() is None
    assert worst(Rejection(), own="endless").cost() is None
    assert worst(Rejection(requirements=[Asked(id="a", model="free")])).cost() is None
    assert worst(Escalate(to=["endless"], loop_budget=3)).cost() is None
    capped = worst(Rejection(budget=SamplingBudget(cost=0.5)), own="endless")
    assert capped.cost() == 0.5 and capped.is_lower_bound
    assert worst(Rejection(budget=SamplingBudget(cost=0.5)), own="free").cost() is None


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Rejection(loop_budget=3), False),
        (Vote(concurrency_budget=3), False),
        (Repair(loop_budget=1), False),
        (Repair(loop_budget=2), True),
        (MultiTurn(loop_budget=2), True),
        (Escalate(to=["large"], loop_budget=3), True),
        (Rejection(requirements=[Asked(id="a")]), True),
    ],
)
def test_a_cost_that_may_be_higher_is_said_to_be_a_lower_bound(strategy, expected):
    """Repaired requests are longer than the first, and judges are told more than the answer."""
    assert worst(strategy).is_lower_bound is expected


def test_sampling_15_a_ceiling_for_hooks_is_the_worst_case():
    """A hook may raise the budgets as far as that."""

    class Hook(SamplingHook):
        def start(self, event):
            """Changes nothing here."""

    found = worst(Rejection(loop_budget=1, concurrency_budget=3, budget_ceiling=(4, 2), hooks=[Hook()]))
    assert (found.shape.turns, found.shape.lanes) == (4, 3)
    assert worst(Rejection(loop_budget=1, budget_ceiling=(4, 2))).shape.calls == 1
