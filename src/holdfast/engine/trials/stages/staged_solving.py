"""Solving in stages: each stage gets the outcomes before it, and its own is durable before the next one starts.

A stage whose outcome is on record is not run; the steps that were recorded in it count as used. The stages that follow
are run, from the first one without an outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from holdfast.engine.planning.plan import PlannedTrial
from holdfast.engine.scheduling.activity import TimeLimit
from holdfast.engine.scheduling.capacity import CapacityGrant
from holdfast.engine.trials.history import AttemptState
from holdfast.engine.trials.running_trial import RunningTrial
from holdfast.engine.trials.stages.stage_outcomes import (
    is_beyond,
    kept_outcomes,
    recorded_outcomes,
    stage_key,
)
from holdfast.engine.trials.trial_environment import TrialEnvironment
from holdfast.errors import UsageError
from holdfast.models.redaction import redact_json
from holdfast.run.core.records import KEPT_STAGES, SOLVE, STAGES, StepRecord
from holdfast.tasks.answer import Answer, as_answer
from holdfast.tasks.json_values import RECORDABLE, Unrecordable, recorded
from holdfast.tasks.stages import Stage, StagedSolver


class StagedSolving:
    """The stages of one attempt."""

    def __init__(
        self,
        environment: TrialEnvironment,
        planned: PlannedTrial,
        state: AttemptState,
        trial: RunningTrial,
        grant: CapacityGrant,
    ) -> None:
        self._environment, self._planned, self._state = environment, planned, state
        self._trial, self._grant = trial, grant
        self._found = recorded_outcomes(state.steps)
        self.stage = SOLVE
        """The one that runs, or the last one that has run."""
        self.outcomes: dict[str, Any] = {}
        self.replies_before = 0
        """How many replies the attempt had got when that stage started."""

    async def run(self, solver: StagedSolver) -> Answer | None:
        """The answer; None where the session stops after a stage before the last one, whose name is in `stage`."""
        kept = self._use(self._found.get(KEPT_STAGES))
        outcomes = self.outcomes = kept_outcomes(kept)
        for stage in solver.stages:
            if stage.name in outcomes:
                self.stage = stage.name
                continue
            step = self._on_record(stage, outcomes)
            # What is on record counts, also where an earlier session went further than this one is to.
            if step is None and is_beyond(_checked(stage), self._environment.until):
                return None
            self.stage = stage.name
            step = step or await self._run(stage, outcomes)
            outcomes[stage.name] = step.result
        return as_answer(solver.answer(self._trial, MappingProxyType(outcomes)))

    def _on_record(self, stage: Stage, outcomes: Mapping[str, Any]) -> StepRecord | None:
        """Its recorded outcome; not one that it came to from other outcomes before it."""
        step = self._found.get(stage.name)
        if step is None or step.step != stage_key(stage.name, self._planned.key, outcomes):
            return None
        self._trial.use_steps_below(stage.name)
        return self._use(step)

    def _use(self, step: StepRecord | None) -> StepRecord | None:
        if step is not None:
            self._trial.use_steps([step])
        return step

    async def _run(self, stage: Stage, outcomes: dict[str, Any]) -> StepRecord:
        environment, trial, clock = self._environment, self._trial, self._environment.clock
        key = stage_key(stage.name, self._planned.key, outcomes)
        if environment.record_only is not None:
            await environment.record_only.miss_step(key, stage.name, [])
        await self._take_capacity(stage)
        self.replies_before = trial.account.replies
        at, began = clock.wall(), clock.monotonic()
        with trial.scope(stage.name):
            outcome = await self._in_time(stage, MappingProxyType(dict(outcomes)))
        trial.account.check_limits()
        trial.account.check_answered()
        await environment.admission.block_if_interrupted(trial.activity)
        step = StepRecord(
            trial=trial.key,
            attempt=trial.attempt,
            step=key,
            name=stage.name,
            result=_recorded_outcome(stage, outcome),
            at=at,
            seconds=clock.monotonic() - began,
            about=trial.about(),
        )
        await trial.keep_step(step)
        return step

    async def _take_capacity(self, stage: Stage) -> None:
        """Exchanges the capacity of the stage before for that of this one."""
        limits = self._environment.stage_limits.get(self._planned.task.name, {}).get(stage.name)
        with self._trial.activity.waiting():
            if limits is not None and limits != self._grant.limits:
                await self._grant.change(limits)
        await self._environment.admission.wait_until_open(self._trial.activity)

    async def _in_time(self, stage: Stage, outcomes: Mapping[str, Any]) -> Any:
        """The time limit of a trial is that of solving: neither preparing nor capturing counts."""
        trial, seconds = self._trial, self._planned.task.limits.time
        if seconds is None or stage.name != SOLVE:
            return await stage.run(trial, outcomes)
        limit = trial.activity.time_limit = TimeLimit(seconds)
        try:
            return await limit.run(stage.run(trial, outcomes))
        finally:
            trial.activity.time_limit = None
            trial.account.limit = trial.account.limit or ("time" if limit.is_reached else "")


def _checked(stage: Stage) -> str:
    """The name of a stage.

    Raises:
        UsageError: it is none of those that there are.
    """
    if stage.name not in STAGES[:-1]:
        raise UsageError(
            f"A stage of the solver is called {stage.name!r}.", hint=f"Its stages may be {', '.join(STAGES[:-1])}."
        )
    return stage.name


def _recorded_outcome(stage: Stage, outcome: object) -> Any:
    """What a stage returned, as it is read back: without keys, so that the next stage gets the same after a resume.

    Raises:
        UsageError: it cannot be recorded.
    """
    try:
        return redact_json(recorded(outcome))
    except Unrecordable as error:
        raise UsageError(f"The stage {stage.name!r} returned an outcome that {error}.", hint=RECORDABLE) from None
