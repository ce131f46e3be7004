"""Escalation: a cheap model first, and a stronger one when it makes no progress."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from holdfast.sampling.candidate import Candidate
from holdfast.sampling.strategies.repair import Repair

_LEAST_TURNS = 3


class Escalate(Repair):
    """Repairs with the usual model until two turns in a row fail the same requirements; then with the next model."""

    name: ClassVar[str] = "escalate"

    def __init__(self, *, to: Sequence[str], **options: Any) -> None:
        """`to` are names of the eval's models, each stronger than the one before.

        Raises:
            ValueError: no model is named, or an option is wrong.
            ConfigurationError: a requirement cannot be understood.
            TypeError: the budget or a hook is not one.
        """
        super().__init__(**options)
        if isinstance(to, str) or not to or not all(isinstance(name, str) and name for name in to):
            raise ValueError(f"Escalate needs the names of one or more models in `to`, not {to!r}.")
        if self.loop_budget < _LEAST_TURNS:
            raise ValueError(
                f"loop_budget is {self.loop_budget}; Escalate needs {_LEAST_TURNS} turns to notice a failure twice."
            )
        self.to = tuple(to)

    @property
    def models(self) -> tuple[str, ...]:
        return self.to

    def model_of_turn(self, candidates: Sequence[Candidate]) -> str:
        """The model after as many escalations as there were pairs of equal failures."""
        level, last = 0, None
        for candidate in candidates:
            failed = frozenset(verdict.requirement for verdict in candidate.failed)
            if failed == last and level < len(self.to):
                level, last = level + 1, None
            else:
                last = failed
        return self.to[level - 1] if level else ""

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "to": list(self.to)}
