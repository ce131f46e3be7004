"""Best of n: all candidates are drawn, and the one with the highest score is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from holdfast.sampling.candidate import Candidate
from holdfast.sampling.requirements.registry import Given, as_requirement
from holdfast.sampling.requirements.requirement import Requirement
from holdfast.sampling.selection import Best, SelectionMode, SelectionRule, score_of
from holdfast.sampling.strategies.strategy import Strategy


class BestOfN(Strategy):
    """Draws `loop_budget` times `concurrency_budget` candidates; the scorer's score decides, among valid ones first."""

    name: ClassVar[str] = "best_of_n"

    def __init__(self, *, scorer: Given | None = None, **options: Any) -> None:
        """Without a scorer, the scores of the requirements decide.

        Raises:
            ValueError: an option is wrong.
            ConfigurationError: a requirement, or the scorer, cannot be understood.
            TypeError: the budget or a hook is not one.
        """
        super().__init__(**options)
        self._scorer = None if scorer is None else as_requirement(scorer)

    @property
    def scorer(self) -> Requirement | None:
        return self._scorer

    def start_selection(self, mode: SelectionMode, lanes: int) -> SelectionRule:  # noqa: ARG002 - all are drawn, always
        return _BestOfAll()

    def select_from_failure(self, candidates: Sequence[Candidate]) -> int:
        """The highest score, those without one last; of equals the lower turn, then the lower lane."""

        def rank(index: int) -> tuple[bool, float, int]:
            candidate = candidates[index]
            return candidate.score is not None, score_of(candidate), -index

        return max(range(len(candidates)), key=rank)

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "scorer": None if self._scorer is None else self._scorer.identity()}


class _BestOfAll(Best):
    goes_on_after_valid = True
