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

from holdfast.engine.boundary import LimitReached, Outcome, guard
from holdfast.engine.calls import Model, TimeLimit
from holdfast.engine.history import History, Past
from holdfast.engine.plan import Cell, trial_seed
from holdfast.engine.scheduler import Ticket
from holdfast.engine.slots import Level
from holdfast.engine.trial import RunningTrial, TrialEnvironment
from holdfast.run.records import Answer, Note, Score, Status, Trial
from holdfast.tasks.answer import Answer as TaskAnswer
from holdfast.tasks.answer import as_answer
from holdfast.tasks.score import as_score
from holdfast.tasks.scorers import Scorer


class Observer(Protocol):
    """Who wants to know how a session goes."""

    def trial_started(self, cell: Cell) -> None: ...
    def trial_ended(self, cell: Cell, end: Trial, *, will_retry: bool) -> None: ...


class Carrier:
    """Carries out the trials of a session."""

    def __init__(
        self,
        environment: TrialEnvironment,
        models: Mapping[str, Model],
        history: History,
        observer: Observer,
        *,
        seed: int,
        score_levels: Mapping[str, tuple[Level, ...]],
    ) -> None:
        self.environment, self._models, self._history, self._observer = environment, models, history, observer
        self._seed, self.score_levels = seed, score_levels
        self.underway: set[RunningTrial] = set()

    @property
    def is_idle(self) -> bool:
        """Whether nothing that any trial under way does is worth waiting for."""
        return all(trial.activity.is_idle for trial in self.underway)

    def disturb(self) -> None:
        """A signal has come: what the tasks' own code is doing at this moment counts nothing any more."""
        for trial in self.underway:
            trial.activity.disturb()

    async def carry(self, cell: Cell, ticket: Ticket) -> None:
        """Attempts the trial until it has ended for this session."""
        self._observer.trial_started(cell)
        if cell.late:
            await self._carry_late(cell, ticket)
            return
        past = self._history.of(cell.key)
        last = past.attempt + cell.task.max_retries
        sample = cell.task.dataset[cell.position]
        while True:
            trial = RunningTrial(
                self.environment, cell, past, sample, self._models[cell.model], trial_seed(self._seed, cell.key)
            )
            end, answer = await self._attempt(trial, cell, past, ticket)
            will_retry = end.status is Status.FAILED and past.attempt < last
            self._tell(cell, end, will_retry=will_retry)
            if not will_retry:
                return
            past = Past(past.attempt + 1, answer=answer)

    async def _carry_late(self, cell: Cell, ticket: Ticket) -> None:
        """Has a trial that ended before judged by the scorers that were added since; the model is not asked."""
        past = self._history.kept(cell.key)
        sample = cell.task.dataset[cell.position]
        trial = RunningTrial(self.environment, cell, past, sample, self._models[cell.model], 0)
        self.underway.add(trial)
        try:
            end = await _Attempt(self, cell, past, trial).judge(ticket)
            if end.error is not None:
                note = Note(kind="score", trial=cell.key, text=f"{end.error.kind}: {end.error.message}")
                await self.environment.session.commit_async(note)
        finally:
            self.underway.discard(trial)
            self.environment.on_idle()
        self._tell(cell, end, will_retry=False)

    def _tell(self, cell: Cell, end: Trial, *, will_retry: bool) -> None:
        """Tells the observer once the end of the attempt counts."""
        self.environment.session.when_counted(partial(self._observer.trial_ended, cell, end, will_retry=will_retry))

    async def _attempt(
        self, trial: RunningTrial, cell: Cell, past: Past, ticket: Ticket
    ) -> tuple[Trial, Answer | None]:
        """How one attempt ended, once that is durable, and the answer it came to."""
        self.underway.add(trial)
        try:
            attempt = _Attempt(self, cell, past, trial)
            end = await attempt.carry_out(ticket)
            with trial.activity.working():
                await self.environment.session.commit_async(end)
            return end, attempt.answer
        finally:
            self.underway.discard(trial)
            self.environment.on_idle()


class _Attempt:
    """One try of a trial."""

    def __init__(self, carrier: Carrier, cell: Cell, past: Past, trial: RunningTrial) -> None:
        self._carrier, self._cell, self._past, self._trial = carrier, cell, past, trial
        self._session, self._clock = carrier.environment.session, carrier.environment.clock
        self._at, self._began = self._clock.wall(), self._clock.monotonic()
        self.answer = past.answer

    async def carry_out(self, ticket: Ticket) -> Trial:
        """The record of how the attempt ended; it is not yet written."""
        if self.answer is None:
            outcome = await guard(self._answered())
            if not isinstance(outcome.value, Answer):
                await self._carrier.environment.caller.stay_if_disturbed(self._trial.activity)
                return self._ended(outcome)
            self.answer = outcome.value
        else:
            self._trial.account_for(self._past.steps)
        return await self._score(ticket, self.answer)

    async def judge(self, ticket: Ticket) -> Trial:
        """As `carry_out`, for a trial that has its answer and only lacks scores."""
        if self.answer is None:
            return self._end(Status.LIMITED)
        return await self._score(ticket, self.answer)

    async def _answered(self) -> Answer:
        """The solver's answer, handed to the journal."""
        found = await self._solve()
        self._trial.check_answered()
        await self._carrier.environment.caller.stay_if_disturbed(self._trial.activity)
        answer = Answer(trial=self._cell.key, attempt=self._past.attempt, text=found.text, value=found.value)
        # Where a scorer may take long or cost money, the answer is durable before it begins.
        if any(_is_async(scorer) for scorer in self._cell.task.task.scorers):
            await self._session.commit_async(answer)
        else:
            await self._session.append_async(answer)
        return answer

    async def _solve(self) -> TaskAnswer:
        task = self._cell.task
        if task.limits.time is None:
            return as_answer(await task.task.solve(self._trial))
        activity = self._trial.activity
        try:
            async with asyncio.timeout(None) as timeout:
                activity.time_limit = TimeLimit(timeout, task.limits.time)
                return as_answer(await task.task.solve(self._trial))
        except TimeoutError:
            if timeout.expired():
                raise LimitReached("time") from None
            raise
        finally:
            activity.time_limit = None

    async def _score(self, ticket: Ticket, answer: Answer) -> Trial:
        if levels := self._carrier.score_levels.get(self._cell.task.name):
            with self._trial.activity.parking():
                await ticket.change(levels)
        given = TaskAnswer(answer.text, answer.value)
        scores: dict[str, float] = {}
        for scorer in self._cell.task.task.scorers:
            if (known := self._past.scores.get(scorer.name)) is not None and known.value is not None:
                scores[scorer.name] = known.value
                continue
            outcome = await guard(self._judged(scorer, given))
            if not isinstance(outcome.value, float):
                await self._carrier.environment.caller.stay_if_disturbed(self._trial.activity)
                return self._ended(outcome, stage="score")
            scores[scorer.name] = outcome.value
        return self._end(Status.VALID, scores=scores)

    async def _judged(self, scorer: Scorer, answer: TaskAnswer) -> float:
        """A scorer's judgement, handed to the journal."""
        caller, activity = self._carrier.environment.caller, self._trial.activity
        if _is_async(scorer):
            await caller.pass_gate(activity)
        with activity.foreign():
            result = scorer(answer, self._trial.sample)
            if inspect.isawaitable(result):
                result = await result
        await caller.stay_if_disturbed(activity)
        score = as_score(result, scorer.name)
        value = float(score.value)
        record = Score(
            trial=self._cell.key,
            attempt=self._past.attempt,
            scorer=scorer.name,
            value=value,
            answer=score.answer,
            explanation=score.explanation,
            metadata=score.metadata,
            **self._placed_late(),
        )
        if self._cell.late:
            await self._session.commit_async(record)
        else:
            await self._session.append_async(record)
        return value

    def _placed_late(self) -> dict[str, Any]:
        """Where a score belongs whose trial ended in an earlier session."""
        cell = self._cell
        return {"task": cell.task.name, "model": cell.model, "axes": dict(cell.axes)} if cell.late else {}

    def _ended(self, outcome: Outcome, stage: str = "solve") -> Trial:
        if outcome.limit:
            return self._end(Status.LIMITED, limit=outcome.limit)
        status = Status.FAILED
        if outcome.is_blocked:
            status = Status.BLOCKED
        elif outcome.is_infrastructure:
            status = Status.UNFINISHED
        return self._end(status, error=outcome.failure(), stage=stage)

    def _end(self, status: Status, **fields: object) -> Trial:
        cell, trial = self._cell, self._trial
        return Trial(
            trial=cell.key,
            attempt=self._past.attempt,
            status=status,
            task=cell.task.name,
            model=cell.model,
            sample=cell.task.dataset.key(cell.position),
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
    return inspect.iscoroutinefunction(getattr(scorer, "function", scorer))
