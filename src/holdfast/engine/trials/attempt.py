"""Carrying out one trial: stage after stage, attempt after attempt, each outcome on record before the next begins.

What a solver or scorer raises is a failed attempt, and another follows, up to the task's `max_retries`. What the
infrastructure does leaves the trial unfinished: never scored, and the same attempt goes on when the run is resumed.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from holdfast.engine.model_calls.caller import Model
from holdfast.engine.planning.plan import PlannedTrial
from holdfast.engine.scheduling.admission import TimeLimit
from holdfast.engine.scheduling.scheduler import SlotGrant
from holdfast.engine.scheduling.slots import Limit
from holdfast.engine.trials.error_boundary import Outcome, guard
from holdfast.engine.trials.history import History, Past
from holdfast.engine.trials.running_trial import RunningTrial, TrialEnvironment
from holdfast.run.core.records import AnswerRecord, NoteRecord, ScoreRecord, Status, StepRecord, TrialRecord
from holdfast.tasks.answer import Answer, as_answer
from holdfast.tasks.score import as_score
from holdfast.tasks.scorers import Scorer


class Observer(Protocol):
    """Who wants to know how a session goes."""

    def trial_started(self, cell: PlannedTrial) -> None: ...
    def trial_ended(self, cell: PlannedTrial, end: TrialRecord, *, will_retry: bool) -> None:
        """An attempt has ended, and its record is durable."""

    def trial_left(self, cell: PlannedTrial) -> None:
        """The trial is no longer under way, whatever became of it."""


class TrialRunner:
    """Carries out the trials of a session."""

    def __init__(
        self,
        environment: TrialEnvironment,
        models: Mapping[str, Model],
        history: History,
        observer: Observer,
        score_levels: Mapping[str, tuple[Limit, ...]],
    ) -> None:
        self.environment, self._models, self._history, self._observer = environment, models, history, observer
        self.score_levels = score_levels
        self.underway: set[RunningTrial] = set()
        self.recorded = 0
        """Trials whose final record this session has made durable here; they may count later."""
        self._awaited: dict[str, frozenset[str]] = {}

    def awaited(self, cell: PlannedTrial) -> frozenset[str]:
        """The scorers of a task that may take long or cost money: those that are awaited."""
        name = cell.task.name
        if name not in self._awaited:
            self._awaited[name] = frozenset(item.name for item in cell.task.task.scorers if _is_async(item))
        return self._awaited[name]

    def disturb(self) -> None:
        """A signal has come: what the tasks' own code is doing at this moment counts nothing any more."""
        for trial in self.underway:
            trial.activity.disturb()

    async def carry(self, cell: PlannedTrial, ticket: SlotGrant) -> None:
        """Attempts the trial until it has ended for this session."""
        self._observer.trial_started(cell)
        try:
            if cell.late:
                await self._carry_late(cell, ticket)
                return
            past: Past | None = self._history.of(cell.key)
            while past is not None:
                past = await self._attempt(cell, past, ticket)
        finally:
            self._observer.trial_left(cell)

    async def _carry_late(self, cell: PlannedTrial, ticket: SlotGrant) -> None:
        """Has a trial that ended before judged by the scorers that were added since; the model is not asked."""
        past = self._history.kept(cell.key)
        trial = self._begin(cell, past, ticket)
        try:
            end = await _Attempt(self, cell, past, trial).judge(ticket)
            if end.error is not None:
                note = NoteRecord(kind="score", trial=cell.key, text=f"{end.error.kind}: {end.error.message}")
                await self.environment.session.keep(note)
        finally:
            self.underway.discard(trial)
        self._tell(cell, end, will_retry=False)

    def _tell(self, cell: PlannedTrial, end: TrialRecord, *, will_retry: bool) -> None:
        """Tells the observer once the end of the attempt counts."""
        self.recorded += end.status.is_kept and not cell.late
        self.environment.session.when_counted(partial(self._observer.trial_ended, cell, end, will_retry=will_retry))

    async def _attempt(self, cell: PlannedTrial, past: Past, ticket: SlotGrant) -> Past | None:
        """Carries out one attempt until its end is durable; where the next one begins, if there is to be one."""
        trial = self._begin(cell, past, ticket)
        try:
            attempt = _Attempt(self, cell, past, trial)
            end = await attempt.carry_out(ticket)
            # Counted from the first attempt of all, so that an interrupt between two of them grants no further ones.
            will_retry = end.status is Status.FAILED and past.attempt % (cell.task.max_retries + 1) != 0
            await self._record(cell, trial, end, will_retry=will_retry)
            return Past(past.attempt + 1, [], attempt.answer, attempt.judged) if will_retry else None
        finally:
            self.underway.discard(trial)

    def _begin(self, cell: PlannedTrial, past: Past, ticket: SlotGrant) -> RunningTrial:
        """Begins an attempt, which is under way until it is discarded there."""
        sample = cell.task.dataset[cell.position]
        trial = RunningTrial(self.environment, cell, past, sample, self._models[cell.model], ticket)
        self.underway.add(trial)
        return trial

    async def _record(self, cell: PlannedTrial, trial: RunningTrial, end: TrialRecord, *, will_retry: bool) -> None:
        """Makes the end of an attempt durable, and tells of it; a cancellation waits for both."""
        cancelled = None
        try:
            with trial.activity.working():
                await self.environment.session.keep(end)
        except asyncio.CancelledError as error:
            cancelled = error
        self._tell(cell, end, will_retry=will_retry)
        if cancelled is not None:
            raise cancelled


class _Attempt:
    """One try of a trial."""

    def __init__(self, carrier: TrialRunner, cell: PlannedTrial, past: Past, trial: RunningTrial) -> None:
        self._carrier, self._cell, self._past, self._trial = carrier, cell, past, trial
        self._session, self._clock = carrier.environment.session, carrier.environment.clock
        self._at, self._began = self._clock.wall(), self._clock.monotonic()
        self.answer, self.judged = past.answer, past.scores

    async def carry_out(self, ticket: SlotGrant) -> TrialRecord:
        """The record of how the attempt ended; it is not yet written."""
        if self.answer is None:
            outcome = await guard(self._answered())
            if self._trial.limit:
                # Also where the solver has caught the error and gone on.
                return self._end(Status.LIMITED, limit=self._trial.limit)
            if not isinstance(outcome.value, AnswerRecord):
                await self._carrier.environment.caller.stay_if_disturbed(self._trial.activity)
                return self._ended(outcome)
            self.answer = outcome.value
        return await self._score(ticket, self.answer)

    async def judge(self, ticket: SlotGrant) -> TrialRecord:
        """As `carry_out`, for a trial that has its answer and only lacks scores."""
        if self.answer is None:
            return self._end(Status.LIMITED)
        return await self._score(ticket, self.answer)

    async def _answered(self) -> AnswerRecord:
        """The solver's answer, handed to the journal."""
        found = await self._solve()
        self._trial.check_answered()
        await self._carrier.environment.caller.stay_if_disturbed(self._trial.activity)
        answer = AnswerRecord(trial=self._cell.key, attempt=self._past.attempt, text=found.text, value=found.value)
        # Where a scorer may take long or cost money, the answer is durable before it begins.
        if self._carrier.awaited(self._cell):
            await self._session.keep(answer)
        else:
            self._session.put(answer)
        return answer

    async def _solve(self) -> Answer:
        task, trial = self._cell.task, self._trial
        if task.limits.time is None:
            return as_answer(await task.task.solve(trial))
        limit = trial.activity.limit = TimeLimit(task.limits.time)
        try:
            return as_answer(await limit.hold(task.task.solve(trial)))
        finally:
            trial.activity.limit = None
            trial.limit = trial.limit or ("time" if limit.is_reached else "")

    async def _score(self, ticket: SlotGrant, answer: AnswerRecord) -> TrialRecord:
        await ticket.change(self._carrier.score_levels[self._cell.task.name])
        given = Answer(answer.text, answer.value)
        scores: dict[str, float] = {}
        for scorer in self._cell.task.task.scorers:
            if (known := self.judged.get(scorer.name)) is not None and known.value is not None:
                scores[scorer.name] = known.value
                continue
            outcome = await guard(self._judged(scorer, given))
            if not isinstance(outcome.value, ScoreRecord) or outcome.value.value is None:
                await self._carrier.environment.caller.stay_if_disturbed(self._trial.activity)
                return self._ended(outcome, stage="score")
            self.judged = {**self.judged, scorer.name: outcome.value}
            scores[scorer.name] = outcome.value.value
        return self._end(Status.VALID, scores=scores)

    async def _judged(self, scorer: Scorer, answer: Answer) -> ScoreRecord:
        """A scorer's judgement, handed to the journal."""
        caller, activity = self._carrier.environment.caller, self._trial.activity
        if scorer.name in self._carrier.awaited(self._cell):
            await caller.pass_gate(activity)
        with activity.foreign():
            result = scorer(answer, self._trial.sample)
            if inspect.isawaitable(result):
                result = await result
        await caller.stay_if_disturbed(activity)
        score = as_score(result, scorer.name)
        record = ScoreRecord(
            trial=self._cell.key,
            attempt=self._past.attempt,
            scorer=scorer.name,
            value=float(score.value),
            answer=score.answer,
            explanation=score.explanation,
            metadata=score.metadata,
            **self._placed_late(),
        )
        if self._cell.late:
            await self._session.keep(record)
        else:
            self._session.put(record)
        return record

    def _placed_late(self) -> dict[str, Any]:
        """Where a score belongs whose trial ended in an earlier session."""
        cell = self._cell
        return {"task": cell.task.name, "model": cell.model, "axes": dict(cell.axes)} if cell.late else {}

    def _ended(self, outcome: Outcome, stage: str = "solve") -> TrialRecord:
        status = Status.FAILED
        if outcome.is_blocked:
            status = Status.BLOCKED
        elif outcome.is_infrastructure:
            status = Status.UNFINISHED
        return self._end(status, error=outcome.failure(), stage=stage)

    def _account_for(self, rest: list[StepRecord]) -> None:
        """Replies on record were paid for, asked for again or not."""
        self._trial.account_for(rest)
        unused = sum(1 for step in rest if step.error is None)
        if unused and self._past.answer is None:
            text = f"{unused} steps on record were not asked for again: the solver asked for something else."
            self._session.put(NoteRecord(kind="unused steps", text=text, trial=self._cell.key))

    def _end(self, status: Status, **fields: object) -> TrialRecord:
        cell, trial = self._cell, self._trial
        rest = trial.finish()
        if status is not Status.UNFINISHED:
            self._account_for(rest)
        return TrialRecord(
            trial=cell.key,
            attempt=self._past.attempt,
            status=status,
            task=cell.task.name,
            model=cell.model,
            sample=cell.sample,
            epoch=cell.epoch,
            axes=dict(cell.axes),
            usage=trial.usage,
            cost=trial.cost,
            calls=trial.calls,
            replayed=trial.replayed,
            tries=trial.tries,
            at=self._at,
            seconds=self._clock.monotonic() - self._began,
            **fields,  # type: ignore[arg-type]
        )


def _is_async(scorer: Scorer) -> bool:
    function = getattr(scorer, "function", scorer)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
