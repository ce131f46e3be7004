"""The one engine of all strategies: lanes at once, turn after turn, until the choice is made.

A lane is a task of its own. Nothing of a sampling outlives it: when it returns or raises, every lane has ended, and
so has every call in it. Recorded candidates are processed first, in the order of the records, without any call; lanes
then continue from there.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from holdfast.models.errors import Blocked
from holdfast.models.message import Message
from holdfast.sampling.candidate import Candidate, CandidateStatus
from holdfast.sampling.events import CandidateEnded
from holdfast.sampling.host import SamplingChoice, SamplingHost
from holdfast.sampling.lanes.drawing import BudgetReachedError, Drawing, SamplingRequest
from holdfast.sampling.lanes.lane import CANCELLED_ITSELF, Lane, LaneStage, is_being_cancelled
from holdfast.sampling.lanes.listeners import SamplingListeners, SamplingPlan
from holdfast.sampling.lanes.outcome import add_note, conclude, result_on_record, with_result
from holdfast.sampling.place import CURRENT_PLACE
from holdfast.sampling.requirements.registry import Given, as_requirements
from holdfast.sampling.requirements.requirement import Requirement, in_order
from holdfast.sampling.requirements.verdict import Verdict, VerdictKind
from holdfast.sampling.result import SamplingResult
from holdfast.sampling.strategies.strategy import Strategy, check_strategy


async def run_sampling(
    host: SamplingHost,
    strategy: Strategy,
    messages: tuple[Message, ...],
    requirements: Sequence[Given] = (),
    generation: Mapping[str, Any] | None = None,
    context: Any = None,
) -> SamplingResult:
    """Runs one sampling. The strategy's requirements and the call's apply both, those of the strategy first.

    Raises:
        ModelError: every lane has ended with an error, and this is the first lane's; `result_of` has the candidates.
        Blocked: a policy of the provider's refused a candidate, in whatever lane.
        ConfigurationError: a requirement cannot be understood, or a limit on cost has no price.
        UsageError: there is no model of the name of a judge, or of one that the strategy asks.
        ValueError: a hook or the strategy gave a number out of range, or two requirements have the same id.
        TypeError: the strategy is not one, or a hook, a requirement or a repair returned a wrong type.
    """
    listeners = SamplingListeners(host, check_strategy(strategy))
    sampler: Sampler | None = None
    result: SamplingResult | None = None
    try:
        plan = await listeners.ask_hooks(_all_requirements(strategy, requirements))
        for name in _asked_models(strategy, plan.requirements):
            host.check_model(name, has_price=strategy.budget.cost is not None)
        listeners.start(plan)
        sampler = Sampler(host, strategy, listeners, plan, SamplingRequest(messages, dict(generation or {}), context))
        result = await sampler.run()
    finally:
        host.finish()
        # The caller may be handling its own error, which has nothing to do with the sampling.
        error = sys.exception() if result is None else None
        candidates = [] if sampler is None else sampler.candidates
        if error is not None:
            with_result(error, candidates)
        await listeners.end(candidates, result, error)
    result.calls = host.calls
    return result


def _all_requirements(strategy: Strategy, given: Sequence[Given]) -> tuple[Requirement, ...]:
    return in_order((*strategy.requirements, *as_requirements(given))) if given else strategy.requirements


def _asked_models(strategy: Strategy, requirements: Sequence[Requirement]) -> Iterator[str]:
    """The names of the models that may be asked."""
    yield ""
    yield from strategy.models
    for requirement in requirements:
        yield from requirement.models
    if strategy.scorer is not None:
        yield from strategy.scorer.models


class Sampler:
    """One sampling while it is executed."""

    def __init__(
        self,
        host: SamplingHost,
        strategy: Strategy,
        listeners: SamplingListeners,
        plan: SamplingPlan,
        request: SamplingRequest,
    ) -> None:
        self._host, self._strategy, self._listeners, self._loops = host, strategy, listeners, plan.loops
        self._drawing = Drawing(host, strategy, listeners, plan, request)
        self._tally = self._drawing.tally
        self._selection = strategy.start_selection(listeners.mode, plan.lanes)
        self._lanes = [Lane(number) for number in range(plan.lanes)]
        self._ended: asyncio.Queue[Lane] = asyncio.Queue()
        self._fatal: BaseException | None = None
        self._is_over = False
        self._notes = plan.notes
        self.candidates: list[Candidate] = []

    async def run(self) -> SamplingResult:
        """Everything, from the first candidate to the recorded choice."""
        token = CURRENT_PLACE.set(None)
        try:
            return await self._recorded_or_drawn()
        finally:
            CURRENT_PLACE.reset(token)

    async def _recorded_or_drawn(self) -> SamplingResult:
        is_as_recorded = await self._replay()
        choice = self._host.choice if is_as_recorded else None
        recorded = None if choice is None else result_on_record(choice, self.candidates, self._host)
        if recorded is not None:
            return recorded
        CURRENT_PLACE.set(None)
        await self._run_lanes()
        return await self._conclude()

    async def _replay(self) -> bool:
        """Goes through the recorded candidates, one at a time, in the order in which they arrived.

        Whether everything was asked as it is recorded: otherwise a recorded choice was made among others.
        """
        choice, is_as_recorded = self._host.choice, True
        for record in self._host.recorded:
            lane = self._lanes[record.lane] if record.lane < len(self._lanes) else None
            is_next = lane is not None and record.turn == lane.depth
            if lane is None or not is_next or not ((choice and is_as_recorded) or self._goes_on(lane)):
                continue
            candidate, is_valid = await self._drawing.draw(lane, record)
            is_as_recorded = is_as_recorded and self._host.was_replayed(candidate.place)
            await self._arrive(lane, candidate, is_valid=is_valid, is_new=not self._host.was_replayed(candidate.place))
        for lane in self._lanes:
            if not self._goes_on(lane):
                self._selection.note_lane_ended(lane.number)
        return is_as_recorded

    async def _conclude(self) -> SamplingResult:
        result = conclude(self._strategy, self._selection, self._lanes, self.candidates, self._tally.reached)
        result.notes = [*self._notes, *self._tally.notes(), *result.notes]
        await self._host.keep(_choice_of(result), list(self._deciding_errors(is_success=result.success)))
        return result

    def _deciding_errors(self, *, is_success: bool) -> Iterator[BaseException]:
        """The errors of lanes without which the choice might have been another."""
        for lane in self._lanes:
            if lane.error is not None and (not is_success or self._selection.depends_on(lane.number, lane.depth)):
                yield lane.error

    # Lanes.

    async def _run_lanes(self) -> None:
        """Lets the lanes run at once; returns when all have ended, and none sooner."""
        going = [lane for lane in self._lanes if self._goes_on(lane)]
        if len(going) == 1 and self._strategy.budget.time is None:
            await self._run_alone(going[0])
            return
        for lane in going:
            lane.task = asyncio.create_task(self._run_lane(lane))
            lane.task.add_done_callback(partial(self._note_ended, lane))
        try:
            await self._wait_in_time(len(going))
        finally:
            await self._stop(going)
        if self._fatal is not None:
            raise self._fatal

    async def _run_alone(self, lane: Lane) -> None:
        """Lets the only lane run here: it needs no task of its own."""
        has_returned = False
        try:
            await self._run_lane(lane)
            has_returned = True
        except BudgetReachedError:
            has_returned = True
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            raise RuntimeError(CANCELLED_ITSELF) from None
        finally:
            error = None if has_returned else sys.exception()
            lane.is_given_up = isinstance(error, asyncio.CancelledError)
            self._is_over, lane.error = True, None if lane.is_given_up else error
            self._settle(lane)

    async def _wait_in_time(self, lanes: int) -> None:
        """Processes a number of lanes as they end, for as long as the budget allows."""
        seconds = self._strategy.budget.time
        if seconds is None:
            await self._wait_for(lanes)
            return
        try:
            async with asyncio.timeout(seconds) as timeout:
                await self._wait_for(lanes)
        except TimeoutError:
            if not timeout.expired():
                raise
            self._tally.reached = self._tally.reached or "time"

    async def _wait_for(self, lanes: int) -> None:
        for _ in range(lanes):
            self._settle(await self._ended.get())

    def _note_ended(self, lane: Lane, _: asyncio.Task[None]) -> None:
        self._ended.put_nowait(lane)

    async def _stop(self, lanes: Sequence[Lane]) -> None:
        """Ends the lanes that are still running, and waits for them, whatever comes meanwhile."""
        cancelled: asyncio.CancelledError | None = None
        self._is_over = True
        while left := [lane for lane in lanes if lane.task is not None and not lane.task.done()]:
            for lane in left:
                lane.give_up()
            try:
                await asyncio.wait([lane.task for lane in left if lane.task is not None])
            except asyncio.CancelledError as error:
                cancelled = error
        # By their tasks: that one has ended may not have been heard of yet.
        for lane in lanes:
            self._settle(lane)
        if cancelled is not None:
            raise cancelled

    async def _run_lane(self, lane: Lane) -> None:
        while self._goes_on(lane):
            candidate, is_valid = await self._drawing.draw(lane)
            await self._arrive(lane, candidate, is_valid=is_valid)

    def _goes_on(self, lane: Lane) -> bool:
        """Whether a lane has a next turn that somebody wants."""
        if self._is_over or lane.depth >= self._loops or self._tally.reached or self._fatal is not None:
            return False
        if lane.has_valid and not self._selection.goes_on_after_valid:
            return False
        return self._selection.wants(lane.number, lane.depth)

    def _settle(self, lane: Lane) -> None:
        """Takes note, once, of how a lane has ended."""
        if lane.is_settled:
            return
        lane.is_settled = True
        error = lane.ended_with()
        if error is not None and not isinstance(error, BudgetReachedError):
            self._fail(lane, error)
        else:
            self._give_up(lane)
        self._selection.note_lane_ended(lane.number)
        self._cancel_unwanted()

    def _give_up(self, lane: Lane) -> None:
        """A lane has ended without an error: what it was about to draw was not needed, or could not be afforded."""
        candidate, lane.current = lane.current, None
        if candidate is not None and candidate.messages:
            self._end_unchecked(candidate, CandidateStatus.CANCELLED)

    def _fail(self, lane: Lane, error: BaseException) -> None:
        """A lane has ended with an error, which is a candidate like any other."""
        candidate, lane.current, lane.error = lane.current, None, error
        lane.failure = self._host.failure_of(error)
        if self._host.is_fatal(error) or lane.stage is LaneStage.TELLING or isinstance(error, Blocked):
            self._fatal = self._fatal or error
        if candidate is None:
            return
        candidate.error, candidate.failure = error, lane.failure
        if lane.stage is LaneStage.CHECKING:
            self._note_unchecked(candidate, error)
        self._end_unchecked(candidate, CandidateStatus.BLOCKED if isinstance(error, Blocked) else CandidateStatus.ERROR)

    def _note_unchecked(self, candidate: Candidate, error: BaseException) -> None:
        """Says, with the error and with the candidate, which requirement it was that could not be checked."""
        checked, failure = self._drawing.checks.after(candidate.verdicts), candidate.failure
        if checked is None or failure is None:
            add_note(error, f"In {candidate.place}, the scorer of the strategy failed.")
            return
        verdict = Verdict(checked.id, VerdictKind.ERROR, failure.message, error=failure)
        candidate.verdicts = [*candidate.verdicts, verdict]
        add_note(error, f"In {candidate.place}, the requirement {checked.id!r} could not be checked.")

    def _end_unchecked(self, candidate: Candidate, status: CandidateStatus) -> None:
        """Records a candidate that is not part of any choice, and would be drawn again."""
        self._end(candidate, status)
        self._host.put(candidate, is_final=False)
        if self._listeners.is_wanted(CandidateEnded):
            self._listeners.observe_candidate(candidate, replayed=False)

    def _end(self, candidate: Candidate, status: CandidateStatus) -> None:
        candidate.status, candidate.arrival = status, len(self.candidates)
        candidate.seconds = self._host.monotonic() - candidate.began
        self.candidates.append(candidate)

    def _cancel_unwanted(self) -> None:
        for lane in self._lanes:
            if lane.current is None or lane.task is None or lane.task.done():
                continue
            if self._fatal is not None or not self._selection.wants(lane.number, lane.depth):
                lane.give_up()

    async def _arrive(self, lane: Lane, candidate: Candidate, *, is_valid: bool, is_new: bool = True) -> None:
        """A candidate was checked: from here on it counts."""
        self._end(candidate, CandidateStatus.VALID if is_valid else CandidateStatus.INVALID)
        lane.add(candidate)
        self._selection.note(candidate)
        if is_new:
            self._host.put(candidate, is_final=True)
        if is_valid:
            self._cancel_unwanted()
        if self._listeners.is_wanted(CandidateEnded):
            lane.stage = LaneStage.TELLING
            await self._listeners.candidate_ended(candidate, replayed=not is_new)


def _choice_of(result: SamplingResult) -> SamplingChoice:
    chosen = result.chosen
    return SamplingChoice(
        success=result.success,
        stop_reason=result.stop_reason,
        reason=result.reason,
        lane=-1 if chosen is None else chosen.lane,
        turn=-1 if chosen is None else chosen.turn,
        capped=result.capped,
        votes=result.votes,
        notes=tuple(result.notes),
    )
