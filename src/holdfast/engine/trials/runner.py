"""Running the trials of a session: attempt after attempt, each outcome recorded before the next begins.

An exception in a solver is a failed attempt, and another follows, up to the task's `max_retries`, unless it would have
the same outcome. An exception in a scorer concerns its slot alone. A failure of the infrastructure leaves the trial
unfinished: never scored, and the same attempt continues when the run is resumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

import msgspec

from holdfast.engine.events import AttemptEnded, TrialLeft, TrialStarted
from holdfast.engine.model_calls.open_model import OpenModel
from holdfast.engine.planning.plan import PlannedTask, PlannedTrial
from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.scheduling.capacity import CapacityGrant
from holdfast.engine.trials.attempt import Attempt
from holdfast.engine.trials.history import AttemptState, TrialHistory
from holdfast.engine.trials.running_trial import RunningTrial
from holdfast.engine.trials.scoring import TaskScorers, scorers_of
from holdfast.engine.trials.trial_environment import TrialEnvironment
from holdfast.run.core.records import NoteRecord, Status, TrialRecord


class TrialRunner:
    """Runs the trials of a session."""

    def __init__(self, environment: TrialEnvironment, models: Mapping[str, OpenModel], history: TrialHistory) -> None:
        self._environment, self._models, self._history = environment, models, history
        self._events = environment.events
        self.running: set[RunningTrial] = set()
        self._scorers: dict[str, TaskScorers] = {}

    def note_signal(self) -> None:
        """A signal has come: what the tasks' own code is doing at this moment no longer counts."""
        for activity in self.activities():
            activity.note_signal()

    def activities(self) -> list[TrialActivity]:
        """What every running trial and every score slot is doing."""
        return [activity for trial in self.running for activity in trial.activities()]

    async def run(self, planned: PlannedTrial, grant: CapacityGrant) -> None:
        """Attempts the trial until it has ended for this session."""
        counts, events = self._environment.counts, self._events
        counts.trials += 1
        counts.active += 1
        # The session counts for itself: where nobody else wants to know, no event is made of it.
        if events.is_observed(TrialStarted):
            events.emit(_trial_started(planned))
        try:
            if planned.scores_only:
                await self._score_only(planned, grant)
                return
            state: AttemptState | None
            if planned.again:
                state = self._history.attempt_again(planned.key)
            else:
                state = self._history.next_attempt(planned.key, slots_again=planned.slots_again)
            while state is not None:
                state = await self._attempt(planned, state, grant)
        finally:
            counts.active -= 1
            if events.is_observed(TrialLeft):
                events.emit(TrialLeft(planned.key))

    async def _score_only(self, planned: PlannedTrial, grant: CapacityGrant) -> None:
        """Has a trial that ended before scored by the scorers that were added since; the solver is not asked."""
        state = self._history.answer_and_scores(planned.key, slots_again=planned.slots_again)
        trial, attempt = self._start(planned, state, grant)
        try:
            end = await attempt.score_only(grant)
            if end.error is not None and end.status is Status.UNFINISHED:
                note = NoteRecord(kind="score", trial=planned.key, text=f"{end.error.kind}: {end.error.message}")
                await self._environment.sink.keep(note)
        finally:
            trial.account.end_failed_calls(self._environment.admission)
            self.running.discard(trial)
        self._report_end(planned, end, will_retry=False)

    async def _attempt(self, planned: PlannedTrial, state: AttemptState, grant: CapacityGrant) -> AttemptState | None:
        """Runs one attempt until its end is durable; where the next one begins, if there is to be one."""
        trial, attempt = self._start(planned, state, grant)
        try:
            end = await attempt.run(grant)
            # Counted from the first recorded attempt, so that an interrupt between two of them grants no further ones.
            has_retries = state.attempt - state.first < planned.task.max_retries
            will_retry = end.status is Status.FAILED and has_retries and attempt.is_worth_a_retry
            if will_retry:
                end = msgspec.structs.replace(end, will_retry=True)
            await self._record_end(planned, trial, end, will_retry=will_retry)
            if not will_retry:
                return None
            bought = max(state.bought_before, trial.account.replies)
            return AttemptState(state.attempt + 1, state.first, bought_before=bought)
        finally:
            trial.account.end_failed_calls(self._environment.admission)
            self.running.discard(trial)

    def _start(self, planned: PlannedTrial, state: AttemptState, grant: CapacityGrant) -> tuple[RunningTrial, Attempt]:
        """Starts an attempt, which is among those running until it is discarded there."""
        environment, sample = self._environment, planned.task.dataset.sample(planned.position, planned.row)
        trial = RunningTrial(environment, planned, state, sample, self._models[planned.model], grant)
        attempt = Attempt(environment, planned, state, trial, self._scorers_of(planned.task))
        self.running.add(trial)
        return trial, attempt

    def _scorers_of(self, task: PlannedTask) -> TaskScorers:
        if task.name not in self._scorers:
            self._scorers[task.name] = scorers_of(task)
        return self._scorers[task.name]

    async def _record_end(
        self, planned: PlannedTrial, trial: RunningTrial, end: TrialRecord, *, will_retry: bool
    ) -> None:
        """Makes the end of an attempt durable, and reports it; a cancellation waits for both."""
        cancelled = None
        try:
            with trial.activity.in_flight():
                await self._environment.sink.keep(end)
        except asyncio.CancelledError as error:
            cancelled = error
        self._report_end(planned, end, will_retry=will_retry)
        if cancelled is not None:
            raise cancelled

    def _report_end(self, planned: PlannedTrial, end: TrialRecord, *, will_retry: bool) -> None:
        """Emits the end of the attempt once it counts."""
        ended = AttemptEnded(end, will_retry, planned.was_finished)
        self._environment.sink.when_counted(partial(self._events.emit, ended))


def _trial_started(planned: PlannedTrial) -> TrialStarted:
    return TrialStarted(
        planned.key,
        planned.task.name,
        planned.model,
        planned.sample,
        planned.epoch,
        dict(planned.axes),
        planned.was_finished,
    )
