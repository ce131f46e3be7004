"""Two solvers: a fast one in a loop and, where it does not get there, a slow one once."""

from __future__ import annotations

from typing import Any

from mellea.core import ComputedModelOutputThunk, Context, SampleActionType
from mellea.stdlib.context import ChatContext
from mellea.stdlib.sampling import sofai

from holdfast.interop.mellea.attempts import MelleaAttempt, MelleaLane, Validations
from holdfast.interop.mellea.sampling import MelleaSampling
from holdfast.interop.mellea.strategies import OnEngine


class _SolverSampling(MelleaSampling):
    """One lane; its last turn is the slow solver's."""

    _loops = 0
    _slow_turn: int | None = None

    @property
    def lane_count(self) -> int:
        return 1

    def turns(self, loops: int) -> int:
        self._loops = loops
        return loops + 1

    async def generate(self, lane: MelleaLane) -> tuple[ComputedModelOutputThunk, Context]:
        """Of the solver whose turn it is; what a solver says is parsed as the action it was given would parse it."""
        strategy = self.strategy
        is_slow = self._slow_turn is not None
        backend = strategy.s2_solver_backend if is_slow else strategy.s1_solver_backend
        thunk, context = await self.generate_by(backend, lane)
        return ComputedModelOutputThunk(thunk), context

    async def validate(self, attempt: MelleaAttempt) -> Validations:
        """By the judge where there is one; verdicts are beside the requirements that were given."""
        given, options = self.requirements, self.settings.model_options
        asked = self.strategy._prepare_requirements_for_validation(given, options)  # noqa: SLF001 - its own
        found = await self.validator.validate(asked, self.context_to_check(attempt), attempt.output)
        originals = {id(judged): requirement for judged, requirement in zip(asked, given, strict=True)}
        return [(originals.get(id(requirement), requirement), verdict) for requirement, verdict in found]

    def next_of(self, lane: MelleaLane) -> tuple[SampleActionType, Context]:
        """The fast solver's repair or, when it has used its turns or makes no progress, the request to the slow one."""
        if len(lane.attempts) < self._loops and not _stands_still(lane.attempts):
            return super().next_of(lane)
        self._slow_turn = len(lane.attempts)
        _, outputs, validations = lane.history
        follows: tuple[SampleActionType, Context] = self.strategy._prepare_s2_context(  # noqa: SLF001 - its own
            s2_mode=self.strategy.s2_solver_mode,
            original_action=self.action,
            original_context=self.context,
            last_result_ctx=lane.last.output_context,
            last_action=lane.last.action,
            sampled_results=outputs,
            sampled_scores=validations,
            loop_count=len(lane.attempts),
        )
        return follows

    def is_wanted(self, lane: int, turn: int) -> bool:  # noqa: ARG002 - there is one
        """Nothing comes after the slow solver."""
        return self._slow_turn is None or turn <= self._slow_turn

    def select_from_failure(self, attempts: list[MelleaAttempt]) -> int:
        """The last one is the result, whatever it is worth."""
        return len(attempts) - 1


class SOFAISamplingStrategy(OnEngine, sofai.SOFAISamplingStrategy):
    """Asks the fast solver until it is valid, is through, or fails twice in the same way; then the slow one, once."""

    concurrency_budget: Any = 1
    _sampling_type = _SolverSampling

    def check_context(self, context: Context, loops: int) -> None:  # noqa: ARG002 - with any number of turns
        if not isinstance(context, ChatContext):
            raise TypeError(f"{type(self).__name__} needs a ChatContext, not {type(context).__name__}.")


def _stands_still(attempts: list[MelleaAttempt]) -> bool:
    """Whether the last two failed in the same way."""
    return len(attempts) > 1 and _failed(attempts[-1]) == _failed(attempts[-2])


def _failed(attempt: MelleaAttempt) -> set[tuple[str | None, str | None, float | None]]:
    return {
        (requirement.description, verdict.reason, verdict.score)
        for requirement, verdict in attempt.validations or []
        if not verdict
    }
