"""The four hooks of a sampling, as Mellea's plugins know them. Iterations count from 1 there."""

from __future__ import annotations

import uuid
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mellea.core import SamplingResult
from mellea.plugins.manager import has_plugins, invoke_hook
from mellea.plugins.types import HookType
from mellea.telemetry.context import with_context

from holdfast.models.message import Message
from holdfast.sampling.candidate import Candidate
from holdfast.sampling.events import CandidateEnded, LaneRepaired
from holdfast.sampling.hooks import SamplingHook

if TYPE_CHECKING:
    from holdfast.interop.mellea.sampling import MelleaSampling


def in_iteration(number: int) -> AbstractContextManager[None]:
    """What runs in it belongs to that iteration, for Mellea's logs and traces; from 1."""
    found: AbstractContextManager[None] = with_context(sampling_iteration=number)
    return found


class PluginHooks:
    """Tells Mellea's plugins of one sampling; payloads are made only where somebody wants them."""

    def __init__(self, sampling: MelleaSampling) -> None:
        self._sampling = sampling

    @cached_property
    def _common(self) -> dict[str, str]:
        return {"sampling_id": str(uuid.uuid4())}

    @property
    def name(self) -> str:
        """The strategy, as it is called in payloads."""
        return type(self._sampling.strategy).__name__

    async def start(self) -> int:
        """The loop budget as the hooks want it.

        Raises:
            PluginViolationError: one of them blocked.
        """
        sampling = self._sampling
        if not has_plugins(HookType.SAMPLING_LOOP_START):
            return int(sampling.strategy.loop_budget)
        from mellea.plugins.hooks.sampling import SamplingLoopStartPayload  # noqa: PLC0415 - needs Mellea's extra

        payload = SamplingLoopStartPayload(
            **self._common,
            strategy_name=self.name,
            action=sampling.action,
            context=sampling.context,
            requirements=sampling.requirements,
            loop_budget=sampling.strategy.loop_budget,
        )
        changed = await self._invoke(HookType.SAMPLING_LOOP_START, payload)
        return changed.loop_budget  # type: ignore[no-any-return] # the caller checks what a hook has set

    def in_lanes(self) -> list[SamplingHook]:
        """The plugins that observe lanes."""
        hooks: list[SamplingHook] = []
        if has_plugins(HookType.SAMPLING_ITERATION):
            hooks.append(_IterationHook(self))
        if has_plugins(HookType.SAMPLING_REPAIR):
            hooks.append(_RepairHook(self))
        return hooks

    async def iteration(self, candidate: Candidate) -> None:
        """A candidate was checked."""
        from mellea.plugins.hooks.sampling import SamplingIterationPayload  # noqa: PLC0415 - needs Mellea's extra

        number = candidate.iteration + 1
        attempt = self._sampling.attempt_at(candidate.place)
        validations = attempt.validations or []
        payload = SamplingIterationPayload(
            **self._common,
            strategy_name=self.name,
            iteration=number,
            action=attempt.action,
            result=attempt.output,
            validation_results=validations,
            all_validations_passed=attempt.is_valid,
            valid_count=sum(bool(verdict) for _, verdict in validations),
            total_count=len(validations),
        )
        with in_iteration(number):
            await self._invoke(HookType.SAMPLING_ITERATION, payload)

    async def repair(self, event: LaneRepaired) -> None:
        """A lane is about to ask once more."""
        from mellea.plugins.hooks.sampling import SamplingRepairPayload  # noqa: PLC0415 - needs Mellea's extra

        lane, number = self._sampling.lanes[event.lane], event.iteration  # the one before, counted from 1
        payload = SamplingRepairPayload(
            **self._common,
            repair_type=getattr(self._sampling.strategy, "_get_repair_type", lambda: "unknown")(),
            failed_action=lane.last.action,
            failed_result=lane.last.output,
            failed_validations=lane.last.validations or [],
            repair_action=lane.action,
            repair_context=lane.context,
            repair_iteration=number,
        )
        with in_iteration(number):
            await self._invoke(HookType.SAMPLING_REPAIR, payload)

    async def end(self, result: SamplingResult | None, failure: str | None, error: BaseException | None) -> None:
        """The sampling has ended, in whatever way."""
        if not has_plugins(HookType.SAMPLING_LOOP_END):
            return
        from mellea.plugins.hooks.sampling import SamplingLoopEndPayload  # noqa: PLC0415 - needs Mellea's extra

        about = _about_error(self._sampling, error) if result is None else _about_result(result, failure)
        payload = SamplingLoopEndPayload(**self._common, **about, strategy_name=self.name)
        await self._invoke(HookType.SAMPLING_LOOP_END, payload)

    async def _invoke(self, kind: HookType, payload: Any) -> Any:
        _, changed = await invoke_hook(kind, payload, backend=self._sampling.backend)
        return changed


def _about_result(result: SamplingResult, failure: str | None) -> dict[str, Any]:
    return {
        "success": result.success,
        "iterations_used": len(result.sample_generations),
        "final_result": result.result,
        "final_action": result.result_action,
        "final_context": result.result_ctx,
        "failure_reason": failure,
        "all_results": list(result.sample_generations),
        "all_validations": list(result.sample_validations),
    }


def _about_error(sampling: MelleaSampling, error: BaseException | None) -> dict[str, Any]:
    """What was paid for before the error, in the order in which it came."""
    return {
        "success": False,
        "iterations_used": len(sampling.checked),
        "exception": error,
        "all_results": [attempt.output for attempt in sampling.checked],
        "all_validations": [attempt.validations or [] for attempt in sampling.checked],
    }


class _IterationHook(SamplingHook):
    def __init__(self, hooks: PluginHooks) -> None:
        self._hooks = hooks

    async def candidate(self, event: CandidateEnded, candidate: Candidate) -> None:  # noqa: ARG002 - the engine's
        await self._hooks.iteration(candidate)


class _RepairHook(SamplingHook):
    def __init__(self, hooks: PluginHooks) -> None:
        self._hooks = hooks

    async def repair(self, event: LaneRepaired, messages: tuple[Message, ...]) -> None:  # noqa: ARG002 - the engine's
        await self._hooks.repair(event)
