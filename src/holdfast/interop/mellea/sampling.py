"""One sampling of Mellea's on this project's engine: what Mellea calls action, context and backend, lane by lane."""

from __future__ import annotations

import sys
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from mellea.core import (
    Backend,
    CBlock,
    ComputedModelOutputThunk,
    Context,
    MelleaLogger,
    ModelOutputThunk,
    Requirement,
    SampleActionType,
    SamplingResult,
    log_context,
)

from holdfast.interop.mellea.attempts import MelleaAttempt, MelleaLane, Validations, as_lists
from holdfast.interop.mellea.closing import finish
from holdfast.interop.mellea.engine_strategy import EngineStrategy
from holdfast.interop.mellea.host import MelleaHost
from holdfast.interop.mellea.plugin_hooks import PluginHooks, in_iteration
from holdfast.interop.mellea.progress import SamplingProgress
from holdfast.interop.mellea.validation import Validator
from holdfast.models.message import Message
from holdfast.sampling.candidate import CandidateStatus
from holdfast.sampling.lanes.sampler import run_sampling
from holdfast.sampling.place import Place
from holdfast.sampling.result import SamplingResult as Outcome
from holdfast.sampling.strategies.strategy import check_budget

_NO_MESSAGES = (Message("user", ""),)
"""The engine's request: it is Mellea that knows what is asked."""
_CHECKED = (CandidateStatus.VALID, CandidateStatus.INVALID)


@dataclass(frozen=True, slots=True)
class SampleSettings:
    """What a call of `sample` may set."""

    validation_ctx: Context | None
    format: type | None
    model_options: dict[str, Any] | None
    tool_calls: bool
    show_progress: bool


class MelleaSampling:
    """One call of a strategy's `sample`. Subclasses change what is drawn, how it is checked, and what comes next."""

    def __init__(
        self,
        strategy: Any,
        action: SampleActionType,
        context: Context,
        backend: Backend,
        requirements: list[Requirement],
        settings: SampleSettings,
    ) -> None:
        self.strategy, self.action, self.context, self.backend = strategy, action, context, backend
        self.requirements, self.settings = requirements, settings
        self.lanes: dict[int, MelleaLane] = {}
        self.checked: list[MelleaAttempt] = []
        """Those that count, in the order in which they arrived."""
        self.progress = SamplingProgress(type(strategy).__name__, is_shown=settings.show_progress)
        # An action is one of three; to ask for the protocol itself takes longer than everything else here.
        self._is_component = not isinstance(action, CBlock | ModelOutputThunk)
        self.validator = self.make_validator()

    async def run(self) -> SamplingResult:
        """Everything, from the hooks' start to their end."""
        with log_context(strategy=type(self.strategy).__name__, loop_budget=self.strategy.loop_budget):
            hooks = PluginHooks(self)
            loops = await hooks.start()
            result: SamplingResult | None = None
            outcome: Outcome | None = None
            try:
                check_budget("loop_budget, set by a SAMPLING_LOOP_START hook,", loops)
                self.check_settings(loops)
                outcome, result = await self._sample(loops, hooks)
                return result
            finally:
                self.progress.close()
                # What the caller is handling, if it is, is no error of this sampling.
                error = sys.exception() if result is None else None
                await hooks.end(result, self._failure_of(outcome), error)

    async def _sample(self, loops: int, hooks: PluginHooks) -> tuple[Outcome, SamplingResult]:
        strategy = EngineStrategy(self, self.turns(loops), self.lane_count, hooks.in_lanes())
        self.progress.open(strategy.loop_budget * strategy.concurrency_budget)
        outcome = await run_sampling(MelleaHost(self), strategy, _NO_MESSAGES)
        return outcome, self._result_of(outcome, strategy.index_chosen)

    def _result_of(self, outcome: Outcome, index_of_failed: int) -> SamplingResult:
        """The outcome as Mellea gives it: all that was checked, by turn and then by lane."""
        checked = [candidate for candidate in outcome.candidates if candidate.status in _CHECKED]
        index = index_of_failed
        if outcome.success:
            index = next(at for at, candidate in enumerate(checked) if candidate is outcome.chosen)
        attempts = [self.attempt_at(candidate.place) for candidate in checked]
        actions, outputs, validations = as_lists(attempts)
        if (log := outputs[index].generate_log) is not None:
            log.is_final_result = True
        return SamplingResult(
            result_index=index,
            success=outcome.success,
            sample_generations=outputs,
            sample_validations=validations,
            sample_actions=actions,
            sample_contexts=[attempt.output_context for attempt in attempts],
        )

    def _failure_of(self, outcome: Outcome | None) -> str | None:
        """Why it is not a success, for the end hook: Mellea's own words, then the other failures."""
        if outcome is None or outcome.success:
            return None
        return "; ".join([f"Budget exhausted after {len(self.checked)} iterations", *outcome.notes])

    # What the engine asks for.

    async def draw(self, place: Place) -> MelleaAttempt:
        """The next attempt of a lane, complete."""
        lane = self.lanes.get(place.lane)
        if lane is None:
            lane = self.lanes[place.lane] = MelleaLane(deepcopy(self.action), self.context)
        with in_iteration(place.iteration + 1):
            output, context = await self.generate(lane)
        attempt = MelleaAttempt(lane.action, lane.context, output, context)
        lane.attempts.append(attempt)
        return attempt

    async def check(self, place: Place) -> bool:
        """Whether the attempt there meets its requirements."""
        attempt = self.attempt_at(place)
        with in_iteration(place.iteration + 1):
            attempt.validations = await self.validate(attempt)
        self.checked.append(attempt)
        is_valid = attempt.is_valid
        if not is_valid:
            _log_unmet(attempt.validations)
        return is_valid

    def repair(self, lane: int) -> None:
        """Sets what a lane asks next.

        Raises:
            TypeError: the strategy's `repair` returned something else than an action and a context.
        """
        state = self.lanes[lane]
        follows: object = self.next_of(state)
        if not isinstance(follows, tuple) or len(follows) != 2:
            name = type(self.strategy).__name__
            raise TypeError(f"{name}.repair returned {type(follows).__name__}, not an action and a context.")
        state.action, state.context = follows

    def attempt_at(self, place: Place) -> MelleaAttempt:
        """The attempt of that lane and turn."""
        return self.lanes[place.lane].attempts[place.turn]

    # What strategies change.

    @property
    def lane_count(self) -> int:
        """How many lanes there are."""
        return int(self.strategy.concurrency_budget)

    def turns(self, loops: int) -> int:
        """How many turns a lane may have, with that loop budget."""
        return loops

    def check_settings(self, loops: int) -> None:
        """Refuses what the strategy cannot do, before anything is asked."""
        self.strategy.check_context(self.context, loops)

    def make_validator(self) -> Validator:
        """What checks the attempts; the output format is for candidates only."""
        return Validator(self.backend, None, self.settings.model_options)

    async def generate(self, lane: MelleaLane) -> tuple[ComputedModelOutputThunk, Context]:
        """One output, complete, and the context that ends with it."""
        thunk, context = await self.generate_by(self.backend, lane)
        return self.parsed(thunk), context

    async def generate_by(self, backend: Backend, lane: MelleaLane) -> tuple[ModelOutputThunk, Context]:
        """One output of a backend's, complete."""
        settings = self.settings
        thunk, context = await backend.generate_from_context(
            lane.action,
            ctx=lane.context,
            format=settings.format,
            model_options=settings.model_options,
            tool_calls=settings.tool_calls,
        )
        await finish(thunk)
        return thunk, context

    def parsed(self, thunk: ModelOutputThunk) -> ComputedModelOutputThunk:
        """The output as the action that was given would parse it, not one that a repair has made."""
        output = ComputedModelOutputThunk(thunk)
        output.parsed_repr = self.action.parse(output) if self._is_component else output.value
        return output

    async def validate(self, attempt: MelleaAttempt) -> Validations:
        """Each requirement with its verdict."""
        return await self.validator.validate(self.requirements, self.context_to_check(attempt), attempt.output)

    def context_to_check(self, attempt: MelleaAttempt) -> Context:
        """The validation context that was given or, without one, the attempt's own."""
        given = self.settings.validation_ctx
        return attempt.output_context if given is None else given

    def next_of(self, lane: MelleaLane) -> tuple[SampleActionType, Context]:
        """The action and context that follow the last attempt."""
        last = lane.last
        follows: tuple[SampleActionType, Context] = self.strategy.repair(
            last.context, last.output_context, *lane.history
        )
        return follows

    def is_wanted(self, lane: int, turn: int) -> bool:  # noqa: ARG002 - for those that end sooner
        """Whether a lane continues with that turn."""
        return True

    def select_from_failure(self, attempts: list[MelleaAttempt]) -> int:
        """The index of the attempt to return when none is valid; counted from the end if it is negative."""
        index: int = self.strategy.select_from_failure(*as_lists(attempts))
        return index


def _log_unmet(validations: Validations) -> None:
    logger = MelleaLogger.get_logger()
    if not logger.isEnabledFor(MelleaLogger.INFO):
        return
    unmet = [requirement.description or "(no description)" for requirement, verdict in validations if not verdict]
    met = len(validations) - len(unmet)
    logger.info("A candidate meets %d of %d requirements; unmet: %s", met, len(validations), "; ".join(unmet))
