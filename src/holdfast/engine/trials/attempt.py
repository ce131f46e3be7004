"""One attempt at a trial: solved, then scored; each outcome is queued for the journal before the next starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.engine.planning.plan import PlannedTrial
from holdfast.engine.scheduling.activity import TimeLimit
from holdfast.engine.scheduling.capacity import CapacityGrant
from holdfast.engine.trials.error_boundary import Outcome, guard
from holdfast.engine.trials.history import AttemptState
from holdfast.engine.trials.running_trial import RunningTrial
from holdfast.engine.trials.scopes import CURRENT_SCOPE
from holdfast.engine.trials.scoring import Scoring, TaskScorers
from holdfast.engine.trials.stages.stage_outcomes import KeptFrom, is_beyond, kept_step, outcomes_in
from holdfast.engine.trials.steps import unused_replies
from holdfast.engine.trials.trial_environment import TrialEnvironment
from holdfast.models.redaction import redact, redact_json
from holdfast.run.core.records import (
    SCORE_STAGE,
    SOLVE,
    AnswerRecord,
    Failure,
    SamplingSummary,
    Status,
    StepRecord,
    TrialRecord,
)
from holdfast.run.core.slots.slot_names import base_name
from holdfast.run.fold.states import failed_slot
from holdfast.tasks.answer import Answer, as_answer
from holdfast.tasks.stages import StagedSolver, WorkLost, cited_artifacts, is_staged

if TYPE_CHECKING:
    from holdfast.engine.trials.stages.staged_solving import StagedSolving

PAUSED = object()
"""What solving comes to where the session stops after an earlier stage."""


class Attempt:
    """Solving a trial, then scoring it, once."""

    def __init__(
        self,
        environment: TrialEnvironment,
        planned: PlannedTrial,
        state: AttemptState,
        trial: RunningTrial,
        scorers: TaskScorers,
    ) -> None:
        self._environment, self._planned, self._state, self._trial = environment, planned, state, trial
        self._scorers = scorers
        self._sink, self._admission, self._clock = environment.sink, environment.admission, environment.clock
        self._at, self._began = self._clock.wall(), self._clock.monotonic()
        self.answer = state.answer
        task = planned.task.task
        solver = self._solver = task.solver if task.grid is None else task.solver_at(planned.axes, planned.chosen)
        self.solver_in_stages = solver if is_staged(solver) else None
        self._stage = SOLVE if self.solver_in_stages is None else self.solver_in_stages.stages[-1].name
        """Of solving, where the attempt is; or the last one."""
        self._staged: StagedSolving | None = None
        self.is_worth_a_retry = True
        """Whether another attempt may help where this one fails."""
        self.work_is_lost = False
        """Whether it has failed because what one of its stages had left is gone: the next one starts from nothing."""

    async def run(self, grant: CapacityGrant) -> TrialRecord:
        """The record of how the attempt ended; it is not yet written."""
        for record in self._state.kept:
            await self._sink.keep(msgspec.structs.replace(record, about=self._trial.about()))
        if self.answer is None:
            outcome = await guard(self._solve_and_record(grant))
            if self._trial.account.limit:
                # Also where the solver has caught the error and continued.
                return self._end_record(Status.LIMITED, limit=self._trial.account.limit)
            if outcome.value is PAUSED:
                return self._end_record(Status.UNFINISHED, stage=self._stage, paused=True)
            if not isinstance(outcome.value, AnswerRecord):
                await self._admission.block_if_interrupted(self._trial.activity)
                return self._failed_end(self._trial.account.deciding(outcome))
            self.answer = outcome.value
        if is_beyond(SCORE_STAGE, self._environment.until):
            return self._end_record(Status.UNFINISHED, stage=self._stage, paused=True)
        return await self._score(grant, self.answer)

    async def score_only(self, grant: CapacityGrant) -> TrialRecord:
        """As `run`, for a trial that has its answer and is only missing scores."""
        if self.answer is None:
            why = "Its answer is no longer recorded, so it cannot be scored; `holdfast resume --redo` runs it again."
            return self._end_record(Status.UNFINISHED, error=Failure("answer lost", why), stage="score")
        return await self._score(grant, self.answer)

    async def _solve_and_record(self, grant: CapacityGrant) -> AnswerRecord | object:
        """The solver's answer, queued for the journal; `PAUSED` where the session stops after an earlier stage."""
        found = await self._solve(grant)
        if found is None:
            return PAUSED
        self._trial.account.check_answered()
        await self._admission.block_if_interrupted(self._trial.activity)
        # Without keys, as it will be read back: scorers see the same answer now and after a resume.
        answer = AnswerRecord(
            trial=self._planned.key,
            attempt=self._state.attempt,
            text=redact(found.text),
            value=redact_json(found.value),
            unscored=redact(found.unscored),
            redone_by=self._redone_by,
            about=self._trial.about(),
        )
        # Where a scorer may take long or cost money, the answer is durable before it begins.
        if self._scorers.has_awaited or self._planned.task.result_files:
            await self._sink.keep(answer)
        else:
            self._sink.put(answer)
        return answer

    @property
    def _redone_by(self) -> str:
        """What a finished trial was selected by that is attempted once more."""
        return self._environment.redone_by if self._planned.again else ""

    async def _solve(self, grant: CapacityGrant) -> Answer | None:
        token = CURRENT_SCOPE.set(self._trial.root_scope)
        try:
            if self.solver_in_stages is not None:
                return await self._solve_in_stages(self.solver_in_stages, grant)
            return await self._solve_in_time()
        finally:
            CURRENT_SCOPE.reset(token)

    async def _solve_in_stages(self, solver: StagedSolver, grant: CapacityGrant) -> Answer | None:
        # Most tasks have no stages.
        from holdfast.engine.trials.stages.staged_solving import StagedSolving  # noqa: PLC0415

        staged = self._staged = StagedSolving(self._environment, self._planned, self._state, self._trial, grant)
        try:
            return await staged.run(solver)
        finally:
            self._stage = staged.stage

    def following(self) -> AttemptState:
        """Where another attempt starts after this one has failed: what its stages came to is not paid for again."""
        state, replies = self._state, self._trial.account.replies
        attempt, bought = state.attempt + 1, max(state.bought_before, replies)
        staged = self._staged
        if staged is None or SOLVE not in staged.outcomes or self.work_is_lost:
            return AttemptState(attempt, state.first, lost=state.lost + self.work_is_lost, bought_before=bought)
        kept_from = KeptFrom(state.attempt, staged.stage)
        kept = kept_step(self._planned.key, attempt, kept_from, staged.outcomes)
        bought = max(state.bought_before, replies - staged.replies_before)
        return AttemptState(attempt, state.first, state.lost, [kept], kept=(kept,), bought_before=bought)

    async def _solve_in_time(self) -> Answer:
        solver, task, trial = self._solver, self._planned.task, self._trial
        if task.limits.time is None:
            return as_answer(await solver(trial))
        limit = trial.activity.time_limit = TimeLimit(task.limits.time)
        try:
            return as_answer(await limit.run(solver(trial)))
        finally:
            trial.activity.time_limit = None
            trial.account.limit = trial.account.limit or ("time" if limit.is_reached else "")

    async def _score(self, grant: CapacityGrant, answer: AnswerRecord) -> TrialRecord:
        self._trial.end_solving()
        given = Answer(answer.text, answer.value, answer.unscored)
        scoring = Scoring(self._environment, self._planned, self._state, self._trial, given)
        await scoring.run(self._scorers.all, grant)
        if scoring.unfinished:
            # An unfinished slot can still be filled on resume, so it decides before a failed one.
            return self._unscored_end(Status.UNFINISHED, scoring.unfinished)
        if scoring.failed:
            return self._unscored_end(Status.FAILED, scoring.failed)
        if any(scorer.name not in scoring.filled for scorer in self._scorers.all):
            # Slots that another session fills: nothing has gone wrong, and the trial is not scored in full.
            return self._end_record(Status.UNFINISHED, stage="score")
        scores = {scorer.name: scoring.filled[scorer.name].value for scorer in self._scorers.all}
        return self._end_record(Status.VALID, scores=scores)

    def _unscored_end(self, status: Status, slots: dict[str, Failure]) -> TrialRecord:
        """The end of an attempt with slots that are not filled: named after the first of them, by the plan."""
        self.is_worth_a_retry = False
        name = next(scorer.name for scorer in self._scorers.all if scorer.name in slots)
        return self._end_record(status, error=slots[name], stage=failed_slot(base_name(name)))

    def _failed_end(self, outcome: Outcome) -> TrialRecord:
        status = Status.FAILED
        self.is_worth_a_retry = outcome.is_worth_a_retry
        self.work_is_lost = isinstance(outcome.error, WorkLost)
        if outcome.is_blocked:
            status = Status.BLOCKED
        elif outcome.is_infrastructure:
            status = Status.UNFINISHED
        return self._end_record(status, error=outcome.failure(), stage=self._stage)

    def _account_for_unused(self, unused: list[StepRecord]) -> int:
        """Recorded replies were paid for, whether they are requested again or not; how many the solver left."""
        self._trial.account.add_unused(unused)
        return unused_replies(unused) if self._state.answer is None else 0

    def _samplings(self, unused: list[StepRecord]) -> tuple[SamplingSummary, ...]:
        """How its samplings went; by the record, where an earlier session has solved it."""
        if self._state.answer is None or self._state.kept_samplings:
            return (*self._state.kept_samplings, *self._trial.samplings)
        from holdfast.engine.trials.asking.sampling_tally import summaries  # noqa: PLC0415 - most trials need it not

        return summaries(unused)

    def _end_record(
        self,
        status: Status,
        *,
        scores: dict[str, float | None] | None = None,
        limit: str = "",
        stage: str = "",
        error: Failure | None = None,
        paused: bool = False,
    ) -> TrialRecord:
        planned, trial = self._planned, self._trial
        account, unused, left = trial.account, trial.finish(), 0
        if unused and status is not Status.UNFINISHED:
            left = self._account_for_unused(unused)
        return TrialRecord(
            trial=planned.key,
            attempt=self._state.attempt,
            status=status,
            task=planned.task.name,
            model=planned.model,
            sample=planned.sample,
            epoch=planned.epoch,
            axes=dict(planned.axes),
            usage=account.usage,
            shares=account.shares,
            calls=account.calls,
            replayed=account.replayed,
            unused=left,
            tries=account.tries,
            at=self._at,
            seconds=self._clock.monotonic() - self._began,
            scores=scores or {},
            limit=limit,
            stage=stage,
            error=error,
            samplings=self._samplings(unused),
            paused=paused,
            artifacts=self._artifacts() if status is not Status.UNFINISHED else {},
            chosen=dict(trial.chosen),
            redone_by=self._redone_by if self.answer is not None and self.answer.attempt < self._state.attempt else "",
        )

    def _artifacts(self) -> dict[str, str]:
        """The files that its stages have kept, also those that an earlier session or attempt has run."""
        if self.solver_in_stages is None:
            return {}
        outcomes = self._staged.outcomes if self._staged is not None else outcomes_in(self._state.steps)
        return {**cited_artifacts(self.solver_in_stages, outcomes), **self._trial.artifacts}
