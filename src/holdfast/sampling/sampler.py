"""The one engine of all strategies: lanes at once, turn after turn, until the choice is made.

A lane is a task of its own. Nothing of a sampling outlives it: when it returns or raises, every lane has ended, and so
has every call in it. What is on record is gone through first, in the order of the records, and makes no call; lanes
then continue from there.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from holdfast.models.errors import Blocked
from holdfast.models.message import Message, Reply
from holdfast.models.role import ModelRole
from holdfast.sampling.budget import BudgetTally
from holdfast.sampling.candidate import Candidate, CandidateRecord, CandidateStatus
from holdfast.sampling.events import CandidateEnded, LaneRepaired
from holdfast.sampling.host import SamplingChoice, SamplingHost
from holdfast.sampling.lane import Lane, LaneStage
from holdfast.sampling.outcome import add_note, conclude, result_on_record, with_result
from holdfast.sampling.place import CURRENT_PLACE, Place, derive_seed
from holdfast.sampling.requirements.checks import Checks
from holdfast.sampling.requirements.registry import Given, as_requirement
from holdfast.sampling.requirements.requirement import Draft, Requirement, in_order
from holdfast.sampling.requirements.verdict import Verdict, VerdictKind
from holdfast.sampling.result import SamplingResult
from holdfast.sampling.strategies.strategy import Strategy
from holdfast.sampling.telling import Telling


class _BudgetReachedError(Exception):
    """A cap of the sampling is reached: its lane ends here."""


async def run_sampling(
    host: SamplingHost,
    strategy: Strategy,
    messages: tuple[Message, ...],
    requirements: Sequence[Given] = (),
    generation: Mapping[str, Any] | None = None,
    context: Any = None,
) -> SamplingResult:
    """Carries out one sampling. The strategy's requirements and the call's apply both, those of the strategy first.

    Raises:
        ModelError: every lane has ended with an error, and this is the first lane's; `result_of` has the candidates.
        Blocked: a policy of the provider's refused a candidate, in whatever lane.
        ConfigurationError: something that stands for a requirement is none.
        UsageError: a judge, or a model of the strategy's, is not there.
        ValueError: a hook or the strategy gave a number out of range, or two requirements have the same id.
        TypeError: a hook, a requirement or a repair returned something of the wrong type.
    """
    telling = Telling(host, strategy)
    plan = await telling.start(in_order((*strategy.requirements, *map(as_requirement, requirements))))
    for name in _asked_models(strategy, plan.requirements):
        host.check_model(name)
    sampler = Sampler(host, strategy, telling, plan.requirements, plan.loops, plan.lanes)
    sampler.notes += plan.notes
    result: SamplingResult | None = None
    try:
        result = await sampler.run(messages, dict(generation or {}), context)
        return result
    finally:
        host.finish()
        # Whoever calls this may be handling an error of its own, which is none of the sampling's.
        await telling.end(sampler.candidates, result, sys.exception() if result is None else None)


class Sampler:
    """One sampling while it is carried out."""

    def __init__(
        self,
        host: SamplingHost,
        strategy: Strategy,
        telling: Telling,
        requirements: tuple[Requirement, ...],
        loops: int,
        lanes: int,
    ) -> None:
        self._host, self._strategy, self._telling, self._loops = host, strategy, telling, loops
        self._requirements = requirements
        self._checks = Checks(requirements, short_circuit=strategy.short_circuit)
        self._selection = strategy.start_selection(telling.mode, lanes)
        self._tally = BudgetTally(strategy.budget)
        self._lanes = [Lane(number) for number in range(lanes)]
        self._ended: asyncio.Queue[Lane] = asyncio.Queue()
        self._fatal: BaseException | None = None
        self._is_over = False
        self._messages: tuple[Message, ...] = ()
        self._generation: dict[str, Any] = {}
        self._context: Any = None
        self._seed = host.seed
        self.candidates: list[Candidate] = []
        self.notes: list[str] = []

    async def run(self, messages: tuple[Message, ...], generation: dict[str, Any], context: Any) -> SamplingResult:
        """Everything, from the first candidate to the choice on record."""
        self._messages, self._generation, self._context = messages, generation, context
        self._seed = generation.get("seed", self._host.seed)
        token = CURRENT_PLACE.set(None)
        try:
            await self._replay()
        finally:
            CURRENT_PLACE.reset(token)
        choice = self._host.choice
        recorded = None if choice is None else result_on_record(choice, self.candidates)
        if recorded is not None:
            recorded.calls = self._tally.calls
            return recorded
        await self._run_lanes()
        return await self._conclude()

    async def _replay(self) -> None:
        """Goes through the candidates on record, one at a time, in the order in which they arrived."""
        for record in self._host.recorded:
            lane = self._lanes[record.lane] if record.lane < len(self._lanes) else None
            if lane is not None and record.turn == lane.depth and (self._host.choice or self._goes_on(lane)):
                await self._take_turn(lane, record)
        for lane in self._lanes:
            if not self._goes_on(lane):
                self._selection.note_lane_ended(lane.number)

    async def _conclude(self) -> SamplingResult:
        result = conclude(self._strategy, self._selection, self._lanes, self.candidates, self._tally.reached)
        result.notes, result.calls = [*self.notes, *result.notes], self._tally.calls
        errors = [lane.error for lane in self._lanes if lane.error is not None]
        await self._host.keep(_choice_of(result), errors)
        return result

    # Lanes.

    async def _run_lanes(self) -> None:
        """Lets the lanes run at once; returns when all have ended, and none sooner."""
        going = [lane for lane in self._lanes if self._goes_on(lane)]
        for lane in going:
            lane.task = asyncio.create_task(self._run_lane(lane))
            lane.task.add_done_callback(partial(self._note_ended, lane))
        try:
            async with asyncio.timeout(self._strategy.budget.time) as timeout:
                for _ in going:
                    self._lane_ended(await self._ended.get())
        except TimeoutError:
            if not timeout.expired():
                raise
            self._tally.reached = self._tally.reached or "time"
        finally:
            await self._stop(going)
        if self._fatal is not None:
            raise with_result(self._fatal, self.candidates)

    def _note_ended(self, lane: Lane, _: asyncio.Task[None]) -> None:
        self._ended.put_nowait(lane)

    async def _stop(self, lanes: Sequence[Lane]) -> None:
        """Ends the lanes that are still running, and waits for them, whatever comes meanwhile."""
        cancelled: asyncio.CancelledError | None = None
        self._is_over = True
        while left := [lane for lane in lanes if lane.task is not None and not lane.task.done()]:
            for lane in left:
                if not lane.is_given_up:  # once: what it does to end is not cancelled
                    lane.give_up()
            try:
                await asyncio.wait([lane.task for lane in left if lane.task is not None])
            except asyncio.CancelledError as error:
                cancelled = error
        while not self._ended.empty():
            self._lane_ended(self._ended.get_nowait())
        if cancelled is not None:
            raise cancelled

    async def _run_lane(self, lane: Lane) -> None:
        while self._goes_on(lane):
            await self._take_turn(lane)

    def _goes_on(self, lane: Lane) -> bool:
        """Whether a lane has a next turn that somebody wants."""
        if self._is_over or lane.depth >= self._loops or self._tally.reached or self._fatal is not None:
            return False
        if lane.has_valid and not self._selection.goes_on_after_valid:
            return False
        return self._selection.wants(lane.number, lane.depth)

    def _lane_ended(self, lane: Lane) -> None:
        error = lane.ended_with()
        if error is not None and not isinstance(error, _BudgetReachedError):
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
        if self._host.is_fatal(error) or lane.stage is LaneStage.TELLING or isinstance(error, Blocked):
            self._fatal = self._fatal or error
        if candidate is None:
            return
        candidate.error, candidate.failure = error, self._host.failure_of(error)
        if lane.stage is LaneStage.CHECKING and (checked := self._checks.after(candidate.verdicts)) is not None:
            failure = candidate.failure
            verdict = Verdict(checked.id, VerdictKind.ERROR, failure.message, error=failure)
            candidate.verdicts = [*candidate.verdicts, verdict]
            add_note(error, f"In {candidate.place}, the requirement {checked.id!r} could not be checked.")
        self._end_unchecked(candidate, CandidateStatus.BLOCKED if isinstance(error, Blocked) else CandidateStatus.ERROR)

    def _end_unchecked(self, candidate: Candidate, status: CandidateStatus) -> None:
        """Puts a candidate on record that is no part of any choice, and would be drawn again."""
        self._end(candidate, status)
        self._host.put(candidate, is_final=False)
        if self._telling.tells(CandidateEnded):
            self._telling.observe_candidate(candidate, replayed=False)

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

    # One turn.

    async def _take_turn(self, lane: Lane, record: CandidateRecord | None = None) -> None:
        """Asks for one candidate and checks it; of one on record, what was found out about it is taken over."""
        host = self._host
        place, model = self._place(lane), self._strategy.model_of_turn(lane.candidates) or host.model
        candidate = lane.current = Candidate(place, model, host.wall(), host.monotonic())
        CURRENT_PLACE.set(place)
        request = await self._next_request(lane, place) if lane.candidates else self._messages
        self._admit()
        candidate.messages, lane.stage = request, LaneStage.ASKING
        generation = {**self._generation, "seed": place.seed}
        reply = candidate.reply = await host.ask(place, request, generation, model=model)
        self._count(model, reply)
        lane.stage = LaneStage.CHECKING
        is_valid = await self._is_valid(candidate, reply) if record is None else self._take_over(candidate, record)
        self._end(candidate, CandidateStatus.VALID if is_valid else CandidateStatus.INVALID)
        self._arrive(lane, candidate, is_new=record is None)
        if self._telling.tells(CandidateEnded):
            lane.stage = LaneStage.TELLING
            await self._telling.candidate_ended(candidate, replayed=record is not None)

    def _place(self, lane: Lane) -> Place:
        number, turn = self._host.number, lane.depth
        seed = derive_seed(self._seed, number, lane.number, turn)
        return Place(number, lane.number, turn, lane.number * self._loops + turn, seed)

    async def _next_request(self, lane: Lane, place: Place) -> tuple[Message, ...]:
        lane.stage = LaneStage.REPAIRING
        request = self._strategy.repair(self._messages, lane.candidates)
        if request is not self._messages:
            request = _checked_messages(request, self._strategy)
        last = lane.candidates[-1]
        if self._telling.tells(LaneRepaired) and not last.is_valid:
            failed = tuple(verdict.requirement for verdict in last.failed)
            lane.stage = LaneStage.TELLING
            await self._telling.repaired(place, failed, request)
        return request

    def _admit(self) -> None:
        """Counts one more call, if the budget has room for it."""
        if not self._tally.admit():
            raise _BudgetReachedError

    def _count(self, model: str, reply: Reply) -> None:
        """Takes in what a call took."""
        has_price = self._strategy.budget.cost is not None
        self._tally.add(reply.usage, self._host.cost_of(model, reply.usage) if has_price else None)

    async def ask_judge(
        self, candidate: Candidate, model: str, messages: tuple[Message, ...], generation: Mapping[str, Any]
    ) -> Reply:
        """One call about a candidate."""
        self._admit()
        reply = await self._host.ask(candidate.place, messages, generation, model=model, role=ModelRole.JUDGE)
        self._count(model, reply)
        if reply.usage is not None:
            candidate.judging = reply.usage if candidate.judging is None else candidate.judging + reply.usage
        return reply

    async def _is_valid(self, candidate: Candidate, reply: Reply) -> bool:
        draft = Draft(reply.text, reply, candidate.messages, candidate.place, self._context, self._messages)
        verdicts = candidate.verdicts = []
        scorer = self._strategy.scorer
        if scorer is None and self._checks.are_quick:
            is_valid = self._checks.run_quick(draft, verdicts)
        else:
            checking = _CandidateChecking(self, candidate, self._host.call)
            is_valid = await self._checks.run(draft, checking, verdicts)
            if scorer is not None:
                candidate.score = _score_in(await scorer.check_later(draft, checking))
                return is_valid
        candidate.score = _mean_score(verdicts)
        return is_valid

    def _take_over(self, candidate: Candidate, record: CandidateRecord) -> bool:
        """Takes from its record what was found out about a candidate."""
        candidate.verdicts, candidate.score, candidate.at = record.verdicts, record.score, record.at
        candidate.judging = record.judging
        judged = {requirement.id for requirement in self._requirements if requirement.calls}
        self._tally.calls += sum(verdict.requirement in judged for verdict in record.verdicts)
        self._tally.add(record.judging, None)
        return record.status is CandidateStatus.VALID

    def _arrive(self, lane: Lane, candidate: Candidate, *, is_new: bool) -> None:
        """A candidate was checked: from here on it counts."""
        lane.add(candidate)
        self._selection.note(candidate)
        if is_new:
            self._host.put(candidate, is_final=True)
        if candidate.is_valid:
            self._cancel_unwanted()


class _CandidateChecking:
    """What the checks of one candidate may use."""

    def __init__(self, sampler: Sampler, candidate: Candidate, call: Callable[..., Awaitable[Any]]) -> None:
        self._sampler, self._candidate, self._call = sampler, candidate, call

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        return await self._call(function, *args)

    async def ask(self, model: str, messages: tuple[Message, ...], generation: Mapping[str, Any]) -> Reply:
        return await self._sampler.ask_judge(self._candidate, model, messages, generation)


def _asked_models(strategy: Strategy, requirements: Sequence[Requirement]) -> Iterator[str]:
    """The names of the models that may be asked beside the usual one."""
    yield from strategy.models
    for requirement in requirements:
        yield from requirement.models
    if strategy.scorer is not None:
        yield from strategy.scorer.models


def _score_in(verdict: Verdict) -> float:
    return float(verdict.is_passed) if verdict.score is None else verdict.score


def _mean_score(verdicts: Sequence[Verdict]) -> float | None:
    """The mean of the scores that verdicts have; None if none has one."""
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    return sum(scores) / len(scores) if scores else None


def _checked_messages(request: object, strategy: Strategy) -> tuple[Message, ...]:
    if not isinstance(request, tuple | list) or not all(isinstance(message, Message) for message in request):
        raise TypeError(f"{type(strategy).__name__}.repair returned {type(request).__name__}, not a list of messages.")
    return tuple(request)


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
