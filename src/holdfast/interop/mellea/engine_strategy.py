"""A strategy of Mellea's, as the engine sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.models.message import Message
from holdfast.sampling.candidate import Candidate
from holdfast.sampling.hooks import SamplingHook
from holdfast.sampling.requirements.requirement import Checking, Draft, Requirement
from holdfast.sampling.requirements.verdict import Verdict, VerdictKind
from holdfast.sampling.selection import SelectionMode, SelectionRule
from holdfast.sampling.strategies.strategy import Strategy

if TYPE_CHECKING:
    from holdfast.interop.mellea.sampling import MelleaSampling

_ID = "requirements"
_PASSED, _FAILED = Verdict(_ID, VerdictKind.PASSED), Verdict(_ID, VerdictKind.FAILED)


class EngineStrategy(Strategy):
    """Hands every decision to one sampling of Mellea's."""

    name = "mellea"

    def __init__(self, sampling: MelleaSampling, turns: int, lanes: int, hooks: Sequence[SamplingHook]) -> None:
        requirement = _AllRequirements(id=_ID, sampling=sampling)
        super().__init__(loop_budget=turns, concurrency_budget=lanes, requirements=[requirement], hooks=hooks)
        self._sampling = sampling
        self.index_chosen = 0
        """What the strategy chose of the failed, as it said it: perhaps counted from the end."""

    def repair(self, messages: tuple[Message, ...], candidates: Sequence[Candidate]) -> tuple[Message, ...]:
        """What the lane asks next is noted where the host finds it; the messages stay as they are."""
        self._sampling.repair(candidates[-1].lane)
        return messages

    def select_from_failure(self, candidates: Sequence[Candidate]) -> int:
        """The index of the strategy's choice, counted from the start.

        Raises:
            ValueError: there is no such candidate.
        """
        attempts = [self._sampling.attempt_at(candidate.place) for candidate in candidates]
        index: object = self._sampling.select_from_failure(attempts)
        count = len(attempts)
        if isinstance(index, bool) or not isinstance(index, int) or not -count <= index < count:
            name = type(self._sampling.strategy).__name__
            raise ValueError(
                f"{name}.select_from_failure returned {index!r}, not an index of the {count} failed candidates."
            )
        self.index_chosen = index
        return index % count

    def start_selection(self, mode: SelectionMode, lanes: int) -> SelectionRule:  # noqa: ARG002 - the engine's
        """The first valid candidate; a sampling may end a lane before its last turn."""
        return _FirstValid(self._sampling)


class _FirstValid(SelectionRule):
    def __init__(self, sampling: MelleaSampling) -> None:
        super().__init__()
        self._sampling = sampling

    def wants(self, lane: int, turn: int) -> bool:
        return not self.valid and self._sampling.is_wanted(lane, turn)


class _AllRequirements(Requirement, frozen=True):
    """All of Mellea's requirements in one: they are checked together, as Mellea's hooks expect it."""

    sampling: Any

    async def check_later(self, draft: Draft, checking: Checking) -> Verdict:  # noqa: ARG002 - the engine's
        """Whether the attempt there meets all of them."""
        return _PASSED if await self.sampling.check(draft.place) else _FAILED
