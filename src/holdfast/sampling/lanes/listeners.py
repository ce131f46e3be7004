"""The hooks and observers of a sampling: what they receive, and the changes that hooks make."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.event_type import Event
from holdfast.models.message import Message
from holdfast.sampling.candidate import Candidate, CandidateStatus
from holdfast.sampling.events import CandidateEnded, LaneRepaired, SamplingEnded, SamplingStarted
from holdfast.sampling.hooks import Changes, SamplingHook
from holdfast.sampling.host import SamplingHost
from holdfast.sampling.place import Place
from holdfast.sampling.requirements.registry import as_requirements
from holdfast.sampling.requirements.requirement import Requirement, with_changes
from holdfast.sampling.result import SamplingResult
from holdfast.sampling.selection import SelectionMode
from holdfast.sampling.strategies.strategy import Strategy, check_budget, most_calls

_HOOK_METHODS: dict[type[Event], str] = {
    SamplingStarted: "start",
    CandidateEnded: "candidate",
    LaneRepaired: "repair",
    SamplingEnded: "end",
}


class SamplingPlan(NamedTuple):
    """What a sampling is executed with, once its hooks have been asked."""

    loops: int
    lanes: int
    requirements: tuple[Requirement, ...]
    notes: list[str]


class SamplingListeners:
    """The hooks and observers of one sampling."""

    def __init__(self, host: SamplingHost, strategy: Strategy) -> None:
        self._host, self._strategy, self._sequence = host, strategy, 0
        self._hooks = _by_event(strategy.hooks) if strategy.hooks else _NO_HOOKS
        self._asked: list[SamplingHook] = []
        """The hooks whose `start` was called."""
        self._has_started = False

    @property
    def mode(self) -> SelectionMode:
        """The strategy's selection; one that no timing decides, where that is asked for."""
        mode = self._strategy.selection
        is_forced = self._host.is_deterministic and mode is SelectionMode.FIRST
        return SelectionMode.DETERMINISTIC if is_forced else mode

    def is_wanted(self, kind: type[Event]) -> bool:
        """Whether anybody subscribes to such events."""
        return bool(self._hooks[kind]) or self._host.is_observed(kind)

    async def ask_hooks(self, requirements: tuple[Requirement, ...]) -> SamplingPlan:
        """What the hooks want otherwise.

        Raises:
            ValueError: a hook gave an invalid budget.
            TypeError: a hook returned something else than changes.
        """
        strategy = self._strategy
        plan = SamplingPlan(strategy.loop_budget, strategy.concurrency_budget, requirements, [])
        for hook in self._hooks[SamplingStarted]:
            changes = hook.start(self._started(plan))
            if inspect.isawaitable(changes):
                changes = await changes
            self._asked.append(hook)
            plan = _changed(plan, changes, hook, strategy)
        return plan

    def start(self, plan: SamplingPlan) -> None:
        """Tells the observers what the sampling is executed with."""
        self._has_started = True
        if self._host.is_observed(SamplingStarted):
            self._host.emit(self._started(plan))

    def _started(self, plan: SamplingPlan) -> SamplingStarted:
        strategy, host = self._strategy, self._host
        calls = most_calls(strategy, plan.requirements, plan.loops, plan.lanes)
        return SamplingStarted(
            host.trial, host.number, strategy.name, plan.loops, plan.lanes, calls, strategy.budget.cost, self._next()
        )

    async def candidate_ended(self, candidate: Candidate, *, replayed: bool) -> None:
        """A candidate was checked."""
        event = self.observe_candidate(candidate, replayed=replayed)
        for hook in self._hooks[CandidateEnded]:
            outcome = hook.candidate(event, candidate)
            if inspect.isawaitable(outcome):
                await outcome

    def observe_candidate(self, candidate: Candidate, *, replayed: bool) -> CandidateEnded:
        """Tells the observers of a candidate, however it ended."""
        event = CandidateEnded(self._host.trial, self._host.number, candidate.record(), replayed, self._next())
        if self._host.is_observed(CandidateEnded):
            self._host.emit(event)
        return event

    async def repaired(self, place: Place, failed: tuple[str, ...], messages: tuple[Message, ...]) -> None:
        """A lane asks once more."""
        about = self._host.trial, place.sampling, place.lane, place.turn, place.iteration
        event = LaneRepaired(*about, failed, self._next())
        if self._host.is_observed(LaneRepaired):
            self._host.emit(event)
        for hook in self._hooks[LaneRepaired]:
            outcome = hook.repair(event, messages)
            if inspect.isawaitable(outcome):
                await outcome

    async def end(
        self, candidates: Sequence[Candidate], result: SamplingResult | None, error: BaseException | None
    ) -> None:
        """The sampling has ended, in whatever way: every hook and observer of its start also gets its end."""
        if not self.is_wanted(SamplingEnded):
            return
        event = self._ended(candidates, result, error)
        if self._has_started and self._host.is_observed(SamplingEnded):
            self._host.emit(event)
        for hook in [hook for hook in self._hooks[SamplingEnded] if self._has_started or hook in self._asked]:
            outcome = hook.end(event, result)
            if inspect.isawaitable(outcome):
                await outcome

    def _ended(
        self, candidates: Sequence[Candidate], result: SamplingResult | None, error: BaseException | None
    ) -> SamplingEnded:
        statuses = [candidate.status for candidate in candidates]
        return SamplingEnded(
            self._host.trial,
            self._host.number,
            success=result is not None and result.success,
            stop_reason=_without_result(error) if result is None else result.stop_reason,
            started=len(statuses),
            completed=sum(status.is_checked for status in statuses),
            cancelled=statuses.count(CandidateStatus.CANCELLED),
            errored=statuses.count(CandidateStatus.ERROR) + statuses.count(CandidateStatus.BLOCKED),
            deepest_turn=max((candidate.turn for candidate in candidates), default=-1),
            error=None if error is None else self._host.failure_of(error),
            sequence=self._next(),
        )

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence


def _without_result(error: BaseException | None) -> str:
    return "cancelled" if isinstance(error, asyncio.CancelledError) else "an error"


def _by_event(hooks: Sequence[SamplingHook]) -> dict[type[Event], list[SamplingHook]]:
    """By the kind of event, the hooks that have a method of their own for it."""
    return {
        kind: [hook for hook in hooks if getattr(type(hook), method, None) is not getattr(SamplingHook, method)]
        for kind, method in _HOOK_METHODS.items()
    }


_NO_HOOKS = _by_event(())


def _changed(plan: SamplingPlan, changes: object, hook: SamplingHook, strategy: Strategy) -> SamplingPlan:
    """The plan as a hook wants it, within the ceiling."""
    if changes is None:
        return plan
    name = type(hook).__name__
    if not isinstance(changes, Changes):
        raise TypeError(f"The start of the hook {name} returned {type(changes).__name__}, not Changes or None.")
    notes = list(plan.notes)
    loops = _bounded(name, "loop_budget", changes.loop_budget, plan.loops, strategy.budget_ceiling[0], notes)
    lanes = _bounded(
        name, "concurrency_budget", changes.concurrency_budget, plan.lanes, strategy.budget_ceiling[1], notes
    )
    return SamplingPlan(loops, lanes, with_changes(plan.requirements, as_requirements(changes.requirements)), notes)


def _bounded(hook: str, budget: str, wanted: object, present: int, ceiling: int, notes: list[str]) -> int:
    if wanted is None:
        return present
    count = check_budget(f"{budget}, set by the hook {hook},", wanted)
    if count <= ceiling:
        return count
    notes.append(f"The hook {hook} set {budget} to {wanted}; the ceiling of {ceiling} applies.")
    return ceiling
