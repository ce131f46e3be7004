"""A strategy: how many candidates, how each follows from the last, and which is chosen.

`loop_budget` is the depth (turns in a lane, each after the last), `concurrency_budget` the breadth (lanes at once). It
multiplies requests: at most loop times concurrency candidates are asked for, and every one of them is paid for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from holdfast.models.message import Message
from holdfast.sampling.budget import SamplingBudget, check_count
from holdfast.sampling.candidate import Candidate
from holdfast.sampling.hooks import SamplingHook
from holdfast.sampling.requirements.registry import Given, as_requirements
from holdfast.sampling.requirements.requirement import Requirement
from holdfast.sampling.selection import SELECTIONS, SelectionMode, SelectionRule, best_failed


class Strategy:
    """To be subclassed: `repair` and `select_from_failure` are the two places where strategies differ."""

    name: ClassVar[str] = "strategy"
    """In eval files, events and records."""
    revision: ClassVar[int] = 1
    """Raised whenever the same candidates would be asked for, or chosen, otherwise than before."""

    def __init__(
        self,
        *,
        loop_budget: int = 1,
        concurrency_budget: int = 1,
        selection: SelectionMode | str = SelectionMode.FIRST,
        requirements: Sequence[Given] = (),
        budget: SamplingBudget | None = None,
        budget_ceiling: tuple[int, int] | None = None,
        short_circuit: bool = False,
        hooks: Sequence[SamplingHook] = (),
    ) -> None:
        """The `requirements` apply in addition to those of each call; `short_circuit` stops at the first unmet one.

        `concurrency_budget` multiplies requests: with 4 lanes up to 4 calls are made, and paid for, where one would do.
        `budget_ceiling` bounds what a hook may set the two budgets to; without it, they are what is configured here.

        Raises:
            ConfigurationError: a requirement cannot be understood.
            ValueError: a budget is not a whole number of at least 1, or there is no such selection.
            TypeError: the budget or a hook is not one.
        """
        check_budget("loop_budget", loop_budget)
        check_budget("concurrency_budget", concurrency_budget)
        self.loop_budget, self.concurrency_budget = loop_budget, concurrency_budget
        self.budget_ceiling = _checked_ceiling(
            (loop_budget, concurrency_budget) if budget_ceiling is None else budget_ceiling
        )
        self.selection = as_selection_mode(selection)
        self.requirements = as_requirements(requirements)
        self.budget = SamplingBudget() if budget is None else budget
        self.short_circuit, self.hooks = short_circuit, tuple(hooks)
        _check_types(self.budget, self.hooks)

    # What a subclass may change.

    def repair(self, messages: tuple[Message, ...], candidates: Sequence[Candidate]) -> tuple[Message, ...]:  # noqa: ARG002 - it asks the same
        """What a lane asks next, given the request and the candidates of that lane so far; the same, here."""
        return messages

    def select_from_failure(self, candidates: Sequence[Candidate]) -> int:
        """The index of the candidate to return when none is valid; never called without a candidate."""
        return best_failed(candidates)

    def model_of_turn(self, candidates: Sequence[Candidate]) -> str:  # noqa: ARG002 - for those that change it
        """The name of the model that a lane asks next; empty for the usual one."""
        return ""

    def start_selection(self, mode: SelectionMode, lanes: int) -> SelectionRule:  # noqa: ARG002 - for those that count
        """A new choice, for one sampling with this many lanes."""
        return SELECTIONS[mode]()

    @property
    def scorer(self) -> Requirement | None:
        """What gives every candidate its score, if the strategy has such a thing."""
        return None

    @property
    def models(self) -> tuple[str, ...]:
        """The names of other models that it may ask, its judges not included."""
        return ()

    def identity(self) -> dict[str, Any]:
        """What a trial's answer depends on here."""
        return {
            "strategy": self.name,
            "revision": self.revision,
            "loop_budget": self.loop_budget,
            "concurrency_budget": self.concurrency_budget,
            "budget_ceiling": list(self.budget_ceiling),
            "selection": self.selection.value,
            "requirements": [requirement.identity() for requirement in self.requirements],
            "budget": msgspec.to_builtins(self.budget),
            "short_circuit": self.short_circuit,
        }


def most_calls(strategy: Strategy, requirements: Sequence[Requirement], loops: int, lanes: int) -> int:
    """How many calls a sampling takes at most, judges included."""
    scorers = [] if strategy.scorer is None else [strategy.scorer]
    by_candidate = 1 + sum(requirement.calls for requirement in (*requirements, *scorers))
    most = loops * lanes * by_candidate
    return most if strategy.budget.calls is None else min(most, strategy.budget.calls)


def check_strategy(given: object) -> Strategy:
    """The strategy, if it is one.

    Raises:
        TypeError: it is not.
    """
    if isinstance(given, Strategy):
        return given
    shown = f"the class {given.__name__}" if isinstance(given, type) else repr(given)
    raise TypeError(f"The strategy is {shown}; give a strategy, such as Repair(loop_budget=3).")


def _checked_ceiling(given: tuple[int, int]) -> tuple[int, int]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise ValueError(f"budget_ceiling is {given!r}; give the most turns and the most lanes, as in (4, 2).")
    for ceiling in given:
        check_budget("budget_ceiling", ceiling)
    return given[0], given[1]


def _check_types(budget: object, hooks: Sequence[object]) -> None:
    if not isinstance(budget, SamplingBudget):
        raise TypeError(f"The budget is {budget!r}; give a budget, such as SamplingBudget(calls=10).")
    for hook in hooks:
        if not isinstance(hook, SamplingHook):
            raise TypeError(f"{hook!r} is not a hook; give an object whose class is derived from SamplingHook.")


def check_budget(name: str, value: object) -> int:
    """The budget, if it is a whole number of at least 1.

    Raises:
        ValueError: it is not.
    """
    check_count(name, value)
    if not isinstance(value, int):
        raise ValueError(f"{name} is None; it must be a whole number, at least 1.")  # noqa: TRY004 - as all budgets
    return value


def as_selection_mode(given: SelectionMode | str) -> SelectionMode:
    """The selection of that name.

    Raises:
        ValueError: no selection has this name.
    """
    try:
        return SelectionMode(given)
    except ValueError:
        known = ", ".join(SelectionMode)
        raise ValueError(f"There is no selection {given!r}; there are {known}.") from None
