"""Running the trials of a session: attempt after attempt, each outcome recorded before the next begins.

An exception in a solver is a failed attempt, and another follows, up to the task's `max_retries`, unless it would have
the same outcome. An exception in a scorer concerns its slot alone. A failure of the infrastructure leaves the trial
unfinished: never scored, and the same attempt continues when the run is resumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Protocol

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
from holdfast.engine.trials.stages.cleaning import LeftTrial, clean_up
from holdfast.engine.trials.stages.stage_outcomes import stages_of
from holdfast.engine.trials.trial_environment import TrialEnvironment
from holdfast.run.core.records import NoteRecord, Status, TrialRecord

_MOST_LOST = 2
"""For how many attempts that have lost their work another one follows beside the task's retries."""


class RetryWatch(Protocol):
    """Says whether another attempt at a trial may follow, or has to wait until more is known of its task."""

    def holds_back(self, planned: PlannedTrial, state: AttemptState) -> bool:
        """Whether a trial that was started has to wait."""

    def attempt_ended(self, planned: PlannedTrial, end: TrialRecord, *, is_first: bool) -> bool:
        """Takes note of the end of an attempt, which is durable; whether the next one has to wait."""

    def left(self, planned: PlannedTrial) -> None:
        """The trial no longer runs; one that waits is started once more later."""


class TrialRunner:
    """Runs the trials of a session."""

    def __init__(
        self,
        environment: TrialEnvironment,
        models: Mapping[str, OpenModel],
        history: TrialHistory,
        watch: RetryWatch,
    ) -> None:
        self._environment, self._models, self._history, self._watch = environment, models, history, watch
        self._waiting: dict[str, AttemptState] = {}
        """By key, where the trials continue that wait for their next attempt; as many as ran at once, at the most."""
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
        counts.trials += planned.key not in self._waiting
        counts.active += 1
        # The session counts for itself: where nobody else wants to know, no event is made of it.
        if events.is_observed(TrialStarted):
            events.emit(_trial_started(planned))
        try:
            if planned.scores_only:
                await self._score_only(planned, grant)
                return
            first = self._next_state(planned)
            if self._watch.holds_back(planned, first):
                self._waiting[planned.key] = first
                return
            state: AttemptState | None = first
            while state is not None:
                state = await self._attempt(planned, state, grant)
        finally:
            counts.active -= 1
            self._watch.left(planned)
            if events.is_observed(TrialLeft):
                events.emit(TrialLeft(planned.key))

    def _next_state(self, planned: PlannedTrial) -> AttemptState:
        """Where its next attempt begins."""
        if (state := self._waiting.pop(planned.key, None)) is not None:
            return state
        if planned.start_from:
            return self._entering(planned)
        if planned.again:
            return self._history.attempt_again(planned.key)
        return self._history.next_attempt(planned.key, slots_again=planned.slots_again)

    def _entering(self, planned: PlannedTrial) -> AttemptState:
        """An attempt that begins at a stage; what it keeps was on record when the trial was selected."""
        stages = stages_of(planned.task.task.solver)
        state = self._history.from_stage(planned.key, planned.start_from, stages)
        return state or self._history.attempt_again(planned.key)

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
            # Work that was lost is nobody's failure, and takes no retry away; up to a bound: it may be lost every time.
            spared = min(state.lost + attempt.work_is_lost, _MOST_LOST)
            has_retries = state.attempt - state.first < planned.task.max_retries + spared
            will_retry = end.status is Status.FAILED and has_retries and attempt.is_worth_a_retry
            if will_retry:
                end = msgspec.structs.replace(end, will_retry=True)
            if planned.task.result_files and end.status.is_kept and self._environment.results is not None:
                # Before the journal says that it is finished: from then on the file is there, whatever happens to it.
                with trial.activity.in_flight():
                    await self._environment.results.write(end, attempt.answer)
            await self._record_end(planned, trial, end, will_retry=will_retry)
            if attempt.solver_in_stages is not None and end.status is not Status.UNFINISHED and not will_retry:
                await clean_up(self._environment, attempt.solver_in_stages, trial, end.status)
            return self._next_after(planned, attempt, end, is_first=state.is_first)
        finally:
            trial.account.end_failed_calls(self._environment.admission)
            self.running.discard(trial)

    def _next_after(
        self, planned: PlannedTrial, attempt: Attempt, end: TrialRecord, *, is_first: bool
    ) -> AttemptState | None:
        """Where the next attempt begins, if there is to be one now."""
        following = attempt.following() if end.will_retry else None
        if attempt.work_is_lost and following is not None:
            # It says nothing of the task: neither is it counted, nor waits it for what other trials come to.
            return following
        has_to_wait = self._watch.attempt_ended(planned, end, is_first=is_first)
        if following is not None and has_to_wait:
            self._waiting[planned.key] = following
            return None
        return following

    async def clean_up_after(self, left: Iterable[LeftTrial]) -> None:
        """Cleans up after trials that ended in earlier sessions."""
        for planned, attempt, status in left:
            grant = CapacityGrant(self._environment.capacity, ())
            trial, again = self._start(planned, AttemptState(attempt), grant)
            try:
                if again.solver_in_stages is not None:
                    await clean_up(self._environment, again.solver_in_stages, trial, status)
            finally:
                self.running.discard(trial)

    def _start(self, planned: PlannedTrial, state: AttemptState, grant: CapacityGrant) -> tuple[RunningTrial, Attempt]:
        """Starts an attempt, which is among those running until it is discarded there."""
        environment, sample = self._environment, planned.read_sample()
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
