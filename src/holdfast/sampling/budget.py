"""The budget of one sampling: calls, tokens, cost, time; judges count like everything else."""

from __future__ import annotations

import math

import msgspec

from holdfast.models.message import Usage


class SamplingBudget(msgspec.Struct, frozen=True, omit_defaults=True):
    """Caps of one sampling; None is no cap. When one is reached, nothing more is asked."""

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    time: float | None = None
    """In seconds, from the start of the sampling in this session; what is running then is ended."""

    def __post_init__(self) -> None:
        for name in ("calls", "tokens"):
            check_count(f"budget.{name}", getattr(self, name))
        for name in ("cost", "time"):
            _check_amount(f"budget.{name}", getattr(self, name))


class BudgetTally:
    """What a sampling has used so far, and its caps."""

    def __init__(self, budget: SamplingBudget) -> None:
        self._budget = budget
        self.calls = self.tokens = 0
        self._costs: list[float] = []
        self._has_unknown = False
        self.reached = ""
        """The cap that was reached first, if one was."""

    @property
    def cost(self) -> float:
        return math.fsum(self._costs)

    def admit(self) -> bool:
        """Counts one more call, if there is room for it."""
        self.reached = self.reached or self._spent()
        if self.reached:
            return False
        self.calls += 1
        return True

    def add(self, usage: Usage | None, cost: float | None) -> None:
        """Takes in what a call took."""
        if usage is not None:
            self.tokens += usage.input_tokens + usage.output_tokens
        else:
            self._has_unknown = True
        if cost:
            self._costs.append(cost)

    def notes(self) -> list[str]:
        """What a person should know of the caps."""
        if not self._has_unknown or (self._budget.tokens is None and self._budget.cost is None):
            return []
        return ["Some replies had no usage data, so they do not count towards a cap on tokens or cost."]

    def _spent(self) -> str:
        budget = self._budget
        if budget.calls is not None and self.calls >= budget.calls:
            return "calls"
        if budget.tokens is not None and self.tokens >= budget.tokens:
            return "tokens"
        return "cost" if budget.cost is not None and self.cost >= budget.cost else ""


def check_count(name: str, value: object) -> None:
    """Raises ValueError unless it is a whole number of at least 1, or None."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError(f"{name} is {value!r}; it must be a whole number, at least 1.")


def _check_amount(name: str, value: object) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 < float(value) < math.inf):  # type: ignore[arg-type]
        raise ValueError(f"{name} is {value!r}; it must be a number above 0.")
