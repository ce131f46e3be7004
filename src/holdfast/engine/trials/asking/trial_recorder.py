"""Recording a trial's calls and steps in the journal, and reporting them to observers."""

from __future__ import annotations

import asyncio

from holdfast.engine.events import StepRecorded
from holdfast.engine.planning.plan import PlannedTrial
from holdfast.engine.planning.trial_keys import trial_seed
from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.trials.trial_environment import TrialEnvironment
from holdfast.run.core.records import Coordinates, StepRecord


class TrialRecorder:
    """Records what one attempt at a trial does, or one attempt of a score slot."""

    __slots__ = ("_environment", "_is_named", "activity", "attempt", "key", "planned")

    def __init__(
        self,
        environment: TrialEnvironment,
        planned: PlannedTrial,
        attempt: int,
        activity: TrialActivity,
        *,
        is_named: bool,
    ) -> None:
        """`is_named` says whether a record of this session tells which trial it is."""
        self._environment, self.planned, self.attempt, self.activity = environment, planned, attempt, activity
        self.key, self._is_named = planned.key, is_named

    @property
    def seed(self) -> int:
        """The seed of the trial, the same in every session."""
        return trial_seed(self._environment.seed, self.key)

    def about(self) -> Coordinates | None:
        """Which trial it is, for the first record that this session writes about it."""
        if self._is_named:
            return None
        self._is_named = True
        planned = self.planned
        return Coordinates(planned.task.name, planned.model, planned.sample, planned.epoch, dict(planned.axes))

    async def keep(self, step: StepRecord) -> None:
        """Makes a step durable. The record is queued before anything can be cancelled, and stays queued."""
        try:
            with self.activity.in_flight():
                await self._environment.sink.keep(step)
        except asyncio.CancelledError:
            # The cancellation has waited until the step was durable.
            self.report(step, replayed=bool(step.source))
            raise
        self.report(step, replayed=bool(step.source))

    def report(self, step: StepRecord, *, replayed: bool) -> None:
        """Reports a durable step to observers."""
        events = self._environment.events
        if events.is_observed(StepRecorded):
            about = (self.key, self.attempt, step.step, step.name, step.model)
            events.emit(StepRecorded(*about, replayed, step.usage, step.source))
