"""The one engine of all strategies: lanes at once, turn after turn, until the choice is made.

A lane is a task of its own. Nothing of a sampling outlives it: when it returns or raises, every lane has ended, and so
has every call in it. What is on record is gone through first, in the order of the records, and makes no call; lanes
then continue from there.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from holdfast.models.errors import Blocked
from holdfast.models.message import Message, Reply
from holdfast.models.role import ModelRole
from holdfast.sampling.budget import BudgetTally
from holdfast.sampling.candidate import Candidate, CandidateRecord, CandidateStatus
from holdfast.sampling.events import CandidateEnded, LaneRepaired
from holdfast.sampling.host import Choice, SamplingHost
from holdfast.sampling.lane import Lane, LaneStage, Turn
from holdfast.sampling.outcome import add_note, as_recorded, conclude, with_result
from holdfast.sampling.place import CURRENT_PLACE, Place, derive_seed
from holdfast.sampling.requirements.checks import Checks
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
    requirements: Sequence[Requirement] = (),
    generation: Mapping[str, Any] | None = None,
    context: Any = None,
) -> SamplingResult:
    """Carries out one sampling. The strategy's requirements and the call's apply both, those of the strategy first.

    Raises:
        ModelError: every lane has ended with an error, and this is the first lane's; `result_of` has the candidates.
        Blocked: a policy of the provider's refused a candidate, in whatever lane.
        ValueError: a hook or the strategy gave a number out of range, or two requirements have the same id.
        TypeError: a hook, a requirement or a repair returned something of the wrong type.
    """
    telling = Telling(host, strategy)
    plan = await telling.start(in_order((*strategy.requirements, *requirements)))
    sampler = Sampler(host, strategy, telling, plan.requirements, plan.loops, plan.lanes)
    sampler.notes += plan.notes
    result: SamplingResult | None = None
    try:
        result = await sampler.run(messages, dict(generation or {}), context)
        return result
    finally:
        host.finish()
        await telling.end(sampler.candidates, result, sys.exception())


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
        self._messages: tuple[Message, ...] = ()
        self._generation: dict[str, Any] = {}
        self._context: Any = None
        self.candidates: list[Candidate] = []
        self.notes: list[str] = []

    async def run(self, messages: tuple[Message, ...], generation: dict[str, Any], context: Any) -> SamplingResult:
        """Everything, from the first candidate to the choice on record."""
        self._messages, self._generation, self._context = messages, generation, context
        token = CURRENT_PLACE.set(None)
        try:
            await self._replay()
        finally:
            CURRENT_PLACE.reset(token)
        choice = self._host.choice
        recorded = None if choice is None else as_recorded(choice, self.candidates)
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
        while left := [lane for lane in lanes if lane.task is not None and not lane.task.done()]:
            for lane in left:
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
        if lane.depth >= self._loops or self._tally.reached or self._fatal is not None:
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
        turn, lane.turn = lane.turn, None
        if turn is not None and turn.messages:
            self._end_unchecked(turn.ended(CandidateStatus.CANCELLED, self._host.monotonic() - turn.began))

    def _fail(self, lane: Lane, error: BaseException) -> None:
        """A lane has ended with an error, which is a candidate like any other."""
        turn, lane.turn, lane.error = lane.turn, None, error
        if self._host.is_fatal(error) or lane.stage is LaneStage.TELLING or isinstance(error, Blocked):
            self._fatal = self._fatal or error
        if turn is None:
            return
        failure = self._host.failure_of(error)
        if lane.stage is LaneStage.CHECKING and (checked := self._checks.after(turn.verdicts)) is not None:
            turn.verdicts.append(Verdict(checked.id, VerdictKind.ERROR, failure.message, error=failure))
            add_note(error, f"In {turn.place}, the requirement {checked.id!r} could not be checked.")
        status = CandidateStatus.BLOCKED if isinstance(error, Blocked) else CandidateStatus.ERROR
        self._end_unchecked(turn.ended(status, self._host.monotonic() - turn.began, error, failure))

    def _end_unchecked(self, candidate: Candidate) -> None:
        """Puts a candidate on record that is no part of any choice, and would be drawn again."""
        candidate.arrival = len(self.candidates)
        self.candidates.append(candidate)
        self._host.put(candidate.place, candidate.record(), is_final=False)
        self._telling.observe_candidate(candidate, replayed=False)

    def _cancel_unwanted(self) -> None:
        for lane in self._lanes:
            if lane.turn is None or lane.task is None or lane.task.done():
                continue
            if self._fatal is not None or not self._selection.wants(lane.number, lane.depth):
                lane.give_up()

    # One turn.

    async def _take_turn(self, lane: Lane, record: CandidateRecord | None = None) -> None:
        """Asks for one candidate and checks it; of one on record, what was found out about it is taken over."""
        host, strategy = self._host, self._strategy
        model = strategy.model_of_turn(lane.candidates) or host.model
        turn = lane.turn = Turn(self._place(lane), model, host.wall(), host.monotonic())
        CURRENT_PLACE.set(turn.place)
        request = await self._next_request(lane, turn) if lane.candidates else self._messages
        self._admit()
        turn.messages, lane.stage = request, LaneStage.ASKING
        turn.reply = await self._ask(turn, request, self._seeded(turn.place), model, ModelRole.UNDER_TEST)
        lane.stage = LaneStage.CHECKING
        is_valid = await self._check(turn) if record is None else self._take_verdicts(turn, record)
        status = CandidateStatus.VALID if is_valid else CandidateStatus.INVALID
        await self._arrive(lane, turn.ended(status, host.monotonic() - turn.began), is_new=record is None)

    def _place(self, lane: Lane) -> Place:
        number, turn = self._host.number, lane.depth
        base = self._generation.get("seed")
        seed = derive_seed(self._host.seed if base is None else base, number, lane.number, turn)
        return Place(number, lane.number, turn, lane.number * self._loops + turn, seed)

    def _seeded(self, place: Place) -> dict[str, Any]:
        return {**self._generation, "seed": place.seed}

    async def _next_request(self, lane: Lane, turn: Turn) -> tuple[Message, ...]:
        lane.stage = LaneStage.REPAIRING
        request = self._strategy.repair(self._messages, lane.candidates)
        if request is not self._messages:
            request = _checked_messages(request, self._strategy)
        last, place = lane.candidates[-1], turn.place
        if self._telling.tells(LaneRepaired) and not last.is_valid:
            failed = tuple(verdict.requirement for verdict in last.failed)
            lane.stage = LaneStage.TELLING
            await self._telling.repaired(place, failed, request)
        return request

    def _admit(self) -> None:
        """Counts one more call, if the budget has room for it."""
        if not self._tally.admit():
            raise _BudgetReachedError

    async def _ask(
        self, turn: Turn, messages: tuple[Message, ...], generation: Mapping[str, Any], model: str, role: ModelRole
    ) -> Reply:
        """One call, which was admitted."""
        reply = await self._host.ask(turn.place, messages, generation, model=model, role=role)
        self._tally.add(reply.usage, self._cost_of(model, reply))
        return reply

    def _cost_of(self, model: str, reply: Reply) -> float | None:
        return None if self._strategy.budget.cost is None else self._host.cost_of(model, reply.usage)

    async def _check(self, turn: Turn) -> bool:
        draft = self._draft(turn)
        checking = _TurnChecking(self, turn)
        is_valid = await self._checks.run(draft, checking, turn.verdicts)
        scorer = self._strategy.scorer
        if scorer is not None:
            verdict = await scorer.check_later(draft, checking)
            turn.score = float(verdict.is_passed) if verdict.score is None else verdict.score
        else:
            turn.score = _mean_score(turn.verdicts)
        return is_valid

    def _draft(self, turn: Turn) -> Draft:
        reply = turn.reply
        if reply is None:
            raise RuntimeError("a turn is checked before its reply is there")
        return Draft(reply.text, reply, turn.messages, turn.place, self._context)

    def _take_verdicts(self, turn: Turn, record: CandidateRecord) -> bool:
        turn.take_from(record)
        judged = {requirement.id for requirement in self._requirements if requirement.calls}
        self._tally.calls += sum(verdict.requirement in judged for verdict in record.verdicts)
        self._tally.add(record.judging, None)
        return record.status is CandidateStatus.VALID

    async def _arrive(self, lane: Lane, candidate: Candidate, *, is_new: bool) -> None:
        """A candidate was checked: from here on it counts."""
        candidate.arrival, lane.turn = len(self.candidates), None
        self.candidates.append(candidate)
        lane.candidates.append(candidate)
        self._selection.note(candidate)
        if is_new:
            self._host.put(candidate.place, candidate.record(), is_final=True)
        if candidate.is_valid:
            self._cancel_unwanted()
        if self._telling.tells(CandidateEnded):
            lane.stage = LaneStage.TELLING
            await self._telling.candidate_ended(candidate, replayed=not is_new)


class _TurnChecking:
    """What the checks of one candidate may use."""

    def __init__(self, sampler: Sampler, turn: Turn) -> None:
        self._sampler, self._turn = sampler, turn

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        return await self._sampler._host.call(function, *args)  # noqa: SLF001 - a part of it

    async def ask(self, model: str, messages: tuple[Message, ...], generation: Mapping[str, Any]) -> Reply:
        turn = self._turn
        self._sampler._admit()  # noqa: SLF001 - a part of it
        reply = await self._sampler._ask(turn, messages, generation, model, ModelRole.JUDGE)  # noqa: SLF001 - as above
        if reply.usage is not None:
            turn.judging = reply.usage if turn.judging is None else turn.judging + reply.usage
        return reply


def _mean_score(verdicts: Sequence[Verdict]) -> float | None:
    """The mean of the scores that verdicts have; None if none has one."""
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    return sum(scores) / len(scores) if scores else None


def _checked_messages(request: object, strategy: Strategy) -> tuple[Message, ...]:
    if not isinstance(request, tuple | list) or not all(isinstance(message, Message) for message in request):
        raise TypeError(f"{type(strategy).__name__}.repair returned {type(request).__name__}, not a list of messages.")
    return tuple(request)


def _choice_of(result: SamplingResult) -> Choice:
    chosen = result.chosen
    return Choice(
        success=result.success,
        stop_reason=result.stop_reason,
        reason=result.reason,
        lane=-1 if chosen is None else chosen.lane,
        turn=-1 if chosen is None else chosen.turn,
        capped=result.capped,
        votes=result.votes,
        notes=tuple(result.notes),
    )
