"""Drawing one candidate: the next request of a lane, the reply, and its verdicts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.models.message import Message, Reply
from holdfast.models.role import ModelRole
from holdfast.sampling.budget import BudgetTally
from holdfast.sampling.candidate import Candidate, CandidateRecord
from holdfast.sampling.events import LaneRepaired
from holdfast.sampling.host import SamplingHost
from holdfast.sampling.lanes.lane import Lane, LaneStage
from holdfast.sampling.lanes.listeners import SamplingListeners, SamplingPlan
from holdfast.sampling.place import CURRENT_PLACE, Place, derive_seed
from holdfast.sampling.requirements.checks import Checks
from holdfast.sampling.requirements.requirement import Draft
from holdfast.sampling.requirements.verdict import Verdict, VerdictKind
from holdfast.sampling.strategies.strategy import Strategy


class BudgetReachedError(Exception):
    """A cap of the sampling is reached: the lane that meets it ends."""


class SamplingRequest(NamedTuple):
    """What a sampling was asked for."""

    messages: tuple[Message, ...]
    generation: dict[str, Any]
    context: Any


class Drawing:
    """Draws the candidates of one sampling."""

    def __init__(
        self,
        host: SamplingHost,
        strategy: Strategy,
        listeners: SamplingListeners,
        plan: SamplingPlan,
        request: SamplingRequest,
    ) -> None:
        self._host, self._strategy, self._listeners, self._loops = host, strategy, listeners, plan.loops
        self._request, self._seed = request, request.generation.get("seed", host.seed)
        self.checks = Checks(plan.requirements, short_circuit=strategy.short_circuit)
        self._judges = tuple(name for requirement in plan.requirements for name in requirement.models)
        self.tally = BudgetTally(strategy.budget)

    async def draw(self, lane: Lane, record: CandidateRecord | None = None) -> tuple[Candidate, bool]:
        """The next candidate of a lane, and whether it is valid.

        A recorded candidate keeps its verdicts, if its reply is recorded too.

        Raises:
            BudgetReachedError: there is no room for another call.
        """
        host = self._host
        place, model = self._place(lane), self._strategy.model_of_turn(lane.candidates) or host.model
        candidate = lane.current = Candidate(place, model, host.wall(), host.monotonic())
        CURRENT_PLACE.set(place)
        messages = await self._next_request(lane, place) if lane.candidates else self._request.messages
        self._admit(is_on_record=record is not None)
        candidate.messages, lane.stage = messages, LaneStage.ASKING
        generation = {**self._request.generation, "seed": place.seed}
        reply = candidate.reply = await host.ask(place, messages, generation, model=model)
        self._count(model, reply)
        draft = Draft(reply.text, reply, messages, place, self._request.context, self._request.messages)
        lane.stage = LaneStage.CHECKING
        if record is None or not host.was_replayed(place):
            return candidate, await self._check(candidate, draft)
        self._take_over(candidate, record)
        return candidate, record.status.is_valid

    def _place(self, lane: Lane) -> Place:
        number, turn = self._host.number, lane.depth
        seed = derive_seed(self._seed, number, lane.number, turn)
        return Place(number, lane.number, turn, lane.number * self._loops + turn, seed)

    async def _next_request(self, lane: Lane, place: Place) -> tuple[Message, ...]:
        lane.stage, asked = LaneStage.REPAIRING, self._request.messages
        messages = self._strategy.repair(asked, tuple(lane.candidates))
        if messages is not asked:
            messages = _checked_messages(messages, self._strategy)
        last = lane.candidates[-1]
        if self._listeners.is_wanted(LaneRepaired) and not last.is_valid:
            failed = tuple(verdict.requirement for verdict in last.failed)
            lane.stage = LaneStage.TELLING
            await self._listeners.repaired(place, failed, messages)
        return messages

    # Calls.

    def _admit(self, *, is_on_record: bool = False) -> None:
        """Counts one more call, if the budget has room for it. One that is recorded was paid for, room or not."""
        if is_on_record:
            self.tally.calls += 1
        elif not self.tally.admit():
            raise BudgetReachedError

    def _count(self, model: str, reply: Reply) -> None:
        """Adds the usage of a call."""
        has_cap = self._strategy.budget.cost is not None
        self.tally.add(reply.usage, self._host.cost_of(model, reply.usage) if has_cap else None)

    async def ask_judge(
        self, candidate: Candidate, model: str, messages: tuple[Message, ...], generation: Mapping[str, Any]
    ) -> Reply:
        """One call about a candidate."""
        self._admit()
        reply = await self._host.ask(candidate.place, messages, generation, model=model, role=ModelRole.JUDGE)
        self._count(model, reply)
        candidate.judge_calls += 1
        if reply.usage is not None:
            candidate.judging = reply.usage if candidate.judging is None else candidate.judging + reply.usage
        return reply

    # Verdicts.

    async def _check(self, candidate: Candidate, draft: Draft) -> bool:
        verdicts = candidate.verdicts = []
        scorer = self._strategy.scorer
        if scorer is None and self.checks.are_quick:
            is_valid = self.checks.run_quick(draft, verdicts)
        else:
            checking = _CandidateChecking(self, candidate, self._host.call)
            is_valid = await self.checks.run(draft, checking, verdicts)
            if scorer is not None:
                return self._take_score(candidate, verdicts, await scorer.check_later(draft, checking)) and is_valid
        candidate.score = _mean_score(verdicts)
        return is_valid

    def _take_score(self, candidate: Candidate, verdicts: list[Verdict], verdict: Verdict) -> bool:
        """Whether a scorer could say anything; where it could not, there is no score, and its verdict says why."""
        if verdict.kind is VerdictKind.ERROR:
            verdicts.append(verdict)
            return False
        candidate.score = float(verdict.is_passed) if verdict.score is None else verdict.score
        return True

    def _take_over(self, candidate: Candidate, record: CandidateRecord) -> None:
        """Takes from its record what was found out about a candidate."""
        candidate.verdicts, candidate.score, candidate.at = record.verdicts, record.score, record.at
        candidate.judging, candidate.judge_calls = record.judging, record.judge_calls
        self.tally.calls += record.judge_calls
        # Which of several judges took how much is not recorded: as much as the most expensive of them.
        costs = [self._host.cost_of(model, record.judging) or 0.0 for model in self._judges]
        self.tally.add(record.judging, max(costs, default=0.0))


class _CandidateChecking:
    """What the checks of one candidate may use."""

    def __init__(self, drawing: Drawing, candidate: Candidate, call: Callable[..., Awaitable[Any]]) -> None:
        self._drawing, self._candidate, self._call = drawing, candidate, call

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        return await self._call(function, *args)

    async def ask(self, model: str, messages: tuple[Message, ...], generation: Mapping[str, Any]) -> Reply:
        return await self._drawing.ask_judge(self._candidate, model, messages, generation)


def _mean_score(verdicts: Sequence[Verdict]) -> float | None:
    """The mean of the scores that verdicts have; None if none has one."""
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    return sum(scores) / len(scores) if scores else None


def _checked_messages(messages: object, strategy: Strategy) -> tuple[Message, ...]:
    name = type(strategy).__name__
    if not isinstance(messages, tuple | list) or not all(isinstance(message, Message) for message in messages):
        raise TypeError(f"{name}.repair returned {type(messages).__name__}, not a list of messages.")
    if not messages:
        raise TypeError(f"{name}.repair returned no message at all.")
    return tuple(messages)
