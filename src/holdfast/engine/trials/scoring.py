"""Scoring an answer: every scorer has a slot, which is filled, failed or left unfinished on its own.

Plain scorers are asked in the order of the plan, under the one grant of the trial. Those that are awaited may take
long or cost money: each runs in its own task, concurrently with the others, with its own grant, and its outcome is
durable before it ends. A slot that fails is retried on its own, up to the task's `max_retries`: neither the solver nor
another scorer runs again because of it.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, NamedTuple

from holdfast.engine.planning.plan import PlannedTask, PlannedTrial
from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.scheduling.capacity import CapacityGrant
from holdfast.engine.trials.error_boundary import Outcome, guard
from holdfast.engine.trials.history import NEW_SLOT, AttemptState
from holdfast.engine.trials.running_trial import RunningTrial
from holdfast.engine.trials.scopes import CURRENT_SCOPE, slot_path
from holdfast.engine.trials.score_scope import SlotScope
from holdfast.engine.trials.trial_environment import TrialEnvironment
from holdfast.run.core.records import Failure, ScoreRecord
from holdfast.tasks.answer import Answer
from holdfast.tasks.score import Score, as_score
from holdfast.tasks.scorers.base import Scorer
from holdfast.tasks.scorers.function import takes_scope

_NOTHING: dict[str, Any] = {}


class TaskScorer(NamedTuple):
    """A scorer of a task, and how it is asked."""

    scorer: Scorer
    name: str
    """Of its slot."""
    is_awaited: bool
    """It may take long or cost money."""
    takes_scope: bool


class TaskScorers(NamedTuple):
    """The scorers of a task in the order of the plan."""

    all: tuple[TaskScorer, ...]
    has_awaited: bool


def scorers_of(task: PlannedTask) -> TaskScorers:
    """The scorers of a task."""
    scorers = tuple(_task_scorer(scorer, task.slot_of(scorer.name)) for scorer in task.task.scorers)
    return TaskScorers(scorers, any(scorer.is_awaited for scorer in scorers))


def _task_scorer(scorer: Scorer, slot: str) -> TaskScorer:
    function = getattr(scorer, "function", scorer)
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
    wants_scope = takes_scope(scorer)
    return TaskScorer(scorer, slot, is_async or wants_scope, wants_scope)


class _OpenSlot:
    """A slot that is being worked on."""

    __slots__ = ("activity", "attempt", "bought", "grant", "of", "retries_left", "scope")

    def __init__(
        self, of: TaskScorer, attempt: int, retries_left: int, grant: CapacityGrant, activity: TrialActivity
    ) -> None:
        """With the grant and the activity of its trial, until it gets its own."""
        self.of, self.attempt, self.retries_left = of, attempt, retries_left
        self.grant, self.activity = grant, activity
        self.scope: SlotScope | None = None
        self.bought = 0
        """The most replies that an attempt of it got in this session."""


class Scoring:
    """The slots of one trial: those that are recorded, and those that are filled now."""

    def __init__(
        self,
        environment: TrialEnvironment,
        planned: PlannedTrial,
        state: AttemptState,
        trial: RunningTrial,
        answer: Answer,
    ) -> None:
        self._environment, self._planned, self._state, self._trial = environment, planned, state, trial
        self._sink, self._admission, self._answer = environment.sink, environment.admission, answer
        self._place = _place_of(planned) if planned.scores_only else {}
        """If the trial ended in an earlier session, a score says itself where it belongs."""
        self.filled = dict(state.scores)
        self.failed: dict[str, Failure] = {}
        """Slots that have used up their attempts, now or before."""
        self.unfinished: dict[str, Failure] = {}
        """Slots that the infrastructure has kept from being filled."""

    async def run(self, scorers: tuple[TaskScorer, ...], grant: CapacityGrant) -> None:
        """Fills every slot that is neither filled nor failed; the slots of the solver are given back before."""
        if self._answer.unscored:
            await self._leave_unscored(scorers, grant)
            return
        await self._take_over(scorers)
        limits = self._environment.score_limits[self._planned.task.name]
        plain: list[_OpenSlot] = []
        awaited: list[_OpenSlot] = []
        for scorer in scorers:
            if (slot := self._open(scorer, grant)) is not None:
                (awaited if scorer.is_awaited else plain).append(slot)
        if plain or not awaited:
            await grant.change(limits)
            for slot in plain:
                await self._fill(slot)
        if awaited:
            await self._fill_side_by_side(awaited)

    async def _leave_unscored(self, scorers: tuple[TaskScorer, ...], grant: CapacityGrant) -> None:
        """Fills every slot without a score, for the reason that the answer gives: there is nothing to judge."""
        for scorer in scorers:
            if (slot := self._open(scorer, grant)) is not None:
                record = self._filled_record(slot, Score(None, explanation=self._answer.unscored))
                await self._hand_in(slot, record)
                self.filled[scorer.name] = record

    async def _take_over(self, scorers: tuple[TaskScorer, ...]) -> None:
        """Fills slots with scores that hold from an earlier version of the targets; what they cost stays there."""
        if (held := self._planned.task.scores_that_hold) is None:
            return
        for slot in (scorer.name for scorer in scorers if scorer.name not in self.filled):
            before = held.slot_for(slot, self._planned.position, self.filled) if self._takes_slot(slot) else None
            if before is not None:
                record = self._taken_over(slot, self.filled[before])
                with self._trial.activity.in_flight():
                    await self._sink.keep(record)
                self.filled[slot] = record

    def _taken_over(self, slot: str, score: ScoreRecord) -> ScoreRecord:
        return ScoreRecord(
            trial=self._planned.key,
            attempt=self._state.attempt,
            scorer=slot,
            value=score.value,
            unscored=score.unscored,
            answer=score.answer,
            explanation=score.explanation,
            metadata=score.metadata,
            **self._place,
        )

    def _open(self, scorer: TaskScorer, grant: CapacityGrant) -> _OpenSlot | None:
        """The slot of a scorer, if there is anything left to do for it."""
        if scorer.name in self.filled or not self._takes_slot(scorer.name):
            return None
        known = self._state.slots.get(scorer.name, NEW_SLOT)
        if known.failure is not None:
            self.failed[scorer.name] = known.failure
            return None
        retries = self._planned.task.max_retries - (known.attempt - known.first)
        return _OpenSlot(scorer, known.attempt, retries, grant, self._trial.activity)

    def _takes_slot(self, slot: str) -> bool:
        """Whether this session is to fill the slot; one that it leaves alone stays missing."""
        chosen = self._environment.slots
        return chosen is None or (slot in chosen and bytes.fromhex(self._planned.key) in chosen[slot])

    async def _fill_side_by_side(self, slots: list[_OpenSlot]) -> None:
        """Fills slots concurrently, each with its own grant; the first uses that of the trial.

        Raises:
            asyncio.CancelledError: one of them was abandoned, because the session is about to end.
        """
        for slot in slots[1:]:
            slot.grant = CapacityGrant(self._environment.capacity, ())
        tasks = [asyncio.get_running_loop().create_task(self._fill_with_grant(slot)) for slot in slots]
        try:
            with self._trial.activity.in_flight():
                await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            await _stop(tasks)
        errors = [error for task in tasks if not task.cancelled() and (error := task.exception()) is not None]
        if errors:
            raise errors[0]
        if any(task.cancelled() for task in tasks):
            raise asyncio.CancelledError

    async def _fill_with_grant(self, slot: _OpenSlot) -> None:
        slot.activity = TrialActivity(self._environment.on_idle)
        self._trial.slot_activities.append(slot.activity)
        try:
            with slot.activity.waiting():
                await slot.grant.change(self._environment.score_limits[self._planned.task.name])
            await self._fill(slot)
        finally:
            slot.grant.release()
            self._trial.slot_activities.remove(slot.activity)

    async def _fill(self, slot: _OpenSlot) -> None:
        """Attempts a slot until it is filled, has no attempts left, or the infrastructure has failed."""
        while True:
            outcome = await guard(self._judge_and_record(slot))
            if isinstance(outcome.value, ScoreRecord):
                self.filled[slot.of.name] = outcome.value
                return
            await self._admission.block_if_interrupted(slot.activity)
            outcome = slot.scope.deciding(outcome) if slot.scope is not None else outcome
            if outcome.is_blocked:
                self.filled[slot.of.name] = await self._record_blocked(slot, outcome)
                return
            if outcome.is_infrastructure:
                self._leave(slot, outcome)
                return
            if not await self._record_failure(slot, outcome):
                return
            slot.attempt, slot.retries_left = slot.attempt + 1, slot.retries_left - 1

    async def _judge_and_record(self, slot: _OpenSlot) -> ScoreRecord:
        """A scorer's score, queued for the journal."""
        if slot.of.is_awaited:
            await self._admission.wait_until_open(slot.activity)
        if slot.of.takes_scope:
            result = await self._judge_in_scope(slot)
        else:
            with slot.activity.running_code():
                result = slot.of.scorer(self._answer, self._trial.sample)
                if inspect.isawaitable(result):
                    result = await result
        await self._admission.block_if_interrupted(slot.activity)
        record = self._filled_record(slot, as_score(result, slot.of.name))
        await self._hand_in(slot, record)
        return record

    async def _record_blocked(self, slot: _OpenSlot, outcome: Outcome) -> ScoreRecord:
        """A content policy refused: as for a blocked trial, this is final, and the scorer is not called again."""
        reason = f"content policy: {outcome.failure().message}"
        record = self._filled_record(slot, Score(None, explanation=reason))
        await self._keep(slot, record)
        return record

    def _leave(self, slot: _OpenSlot, outcome: Outcome) -> None:
        """The same attempt of the slot continues in another session; its calls end once the trial's end is durable."""
        self.unfinished[slot.of.name] = outcome.failure()
        if slot.scope is not None:
            slot.scope.finish()
            slot.scope.give_failed_calls(self._trial)

    async def _judge_in_scope(self, slot: _OpenSlot) -> object:
        """As a solver, it may be between two calls of a model; what a signal then interrupts does not count."""
        path = slot_path(slot.of.name, slot.attempt)
        bought = max(slot.bought, self._state.slot_bought_before(slot.of.name, slot.attempt))
        place = self._environment, self._planned, self._state, self._trial.sample
        scope = slot.scope = SlotScope(*place, slot.grant, slot.activity, path, bought)
        token = CURRENT_SCOPE.set(scope.root_scope)
        try:
            result: object = slot.of.scorer(self._answer, self._trial.sample, scope)  # type: ignore[call-arg]
            result = await result if inspect.isawaitable(result) else result
        finally:
            CURRENT_SCOPE.reset(token)
        scope.check_answered()
        return result

    async def _record_failure(self, slot: _OpenSlot, outcome: Outcome) -> bool:
        """Records a failed attempt of a slot; whether another follows."""
        failure, will_retry = outcome.failure(), outcome.is_worth_a_retry and slot.retries_left > 0
        record = ScoreRecord(
            trial=self._planned.key,
            attempt=self._state.attempt,
            scorer=slot.of.name,
            error=failure,
            slot_attempt=slot.attempt,
            will_retry=will_retry,
            **self._place,
            **self._finish(slot),
        )
        await self._hand_in(slot, record)
        if not will_retry:
            self.failed[slot.of.name] = failure
        return will_retry

    def _filled_record(self, slot: _OpenSlot, score: Score) -> ScoreRecord:
        return ScoreRecord(
            trial=self._planned.key,
            attempt=self._state.attempt,
            scorer=slot.of.name,
            value=None if score.value is None else float(score.value),
            unscored=score.value is None,
            answer=score.answer,
            explanation=score.explanation,
            metadata=score.metadata,
            slot_attempt=slot.attempt,
            **self._place,
            **self._finish(slot),
        )

    def _finish(self, slot: _OpenSlot) -> dict[str, Any]:
        """Ends the scope of a slot's attempt; what the attempt took, as fields of its record. None without a scope."""
        if slot.scope is None:
            return _NOTHING
        unused, slot.bought = slot.scope.finish(), max(slot.bought, slot.scope.replies)
        return {"usage": slot.scope.usage, "shares": slot.scope.shares, "unused": unused}

    async def _hand_in(self, slot: _OpenSlot, record: ScoreRecord) -> None:
        """Queues the outcome of a slot's attempt; where nobody waits for a later record of the trial, until it is
        durable.
        """
        if self._place or slot.of.is_awaited:
            await self._keep(slot, record)
        else:
            self._sink.put(record)

    async def _keep(self, slot: _OpenSlot, record: ScoreRecord) -> None:
        """Makes the outcome of a slot's attempt durable before anything follows it."""
        with slot.activity.in_flight():
            await self._sink.keep(record)
        if slot.scope is not None:
            slot.scope.end_failed_calls()
            slot.scope = None


def _place_of(planned: PlannedTrial) -> dict[str, Any]:
    return {"task": planned.task.name, "model": planned.model, "axes": dict(planned.axes)}


async def _stop(tasks: list[asyncio.Task[None]]) -> None:
    """Ends the tasks that are still running, if any are: one of them has failed, or the trial was cancelled."""
    left = [task for task in tasks if not task.done()]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)
        for task in left:
            if not task.cancelled():
                task.exception()  # whatever it is, the first one is what counts
