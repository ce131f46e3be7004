"""Selecting trials by their stages: `--until` leaves them after one, `--from` attempts them once more from one on.

Both are computed once, under the lease, before anything is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from holdfast.engine.planning.plan import PlannedTrial
from holdfast.engine.planning.prepared_eval import PreparedEval
from holdfast.engine.planning.selection import (
    EVERYTHING,
    SelectionRequest,
    TrialSelection,
    all_trials,
    candidate_of,
    known_names,
    selected_by,
)
from holdfast.engine.planning.trial_keys import KeySet
from holdfast.engine.trials.history import TrialHistory
from holdfast.engine.trials.stages.stage_outcomes import is_beyond, stage_after, stages_of
from holdfast.errors import UsageError
from holdfast.run.core.records import SCORE_STAGE, STAGES, PlanEntry
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.rows.trial_row import PAUSED_AFTER
from holdfast.run.fold.run_fold import FoldedTrial, RunFold, Standing
from holdfast.run.fold.states import State
from holdfast.run.where.expression import Where, parse_where
from holdfast.suggestions import did_you_mean


def check_stage(stage: str, option: str, prepared: PreparedEval) -> None:
    """Raises UsageError unless a task of the eval has the stage."""
    known = {name for task in prepared.tasks for name in stages_of(task.task.solver)} | {SCORE_STAGE}
    if stage not in known:
        there = ", ".join(name for name in STAGES if name in known)
        raise UsageError(
            f"{option} {stage}: no task of the eval has this stage; the stages are {there}.",
            hint=did_you_mean(stage, known),
        )


# Until.


def stop_after(
    stage: str, selection: TrialSelection, fold: RunFold, prepared: PreparedEval, option: str = "--until"
) -> TrialSelection:
    """The selection of a session that leaves trials after a stage; those that were left there before are not run.

    Raises:
        UsageError: no task has the stage.
    """
    check_stage(stage, option, prepared)
    passed = [trial.key for trial in fold.trials(State.UNFINISHED) if _has_passed(trial.standing, stage, prepared)]
    return selection._replace(until=stage, passed=KeySet(passed), skipped_tasks=_skipped_tasks(stage, prepared))


def stop_new_after(stage: str, prepared: PreparedEval) -> TrialSelection:
    """The same for a new run.

    Raises:
        UsageError: no task has the stage.
    """
    check_stage(stage, "--until", prepared)
    return EVERYTHING._replace(until=stage, skipped_tasks=_skipped_tasks(stage, prepared))


def _skipped_tasks(stage: str, prepared: PreparedEval) -> frozenset[str]:
    """The tasks of which every stage comes later."""
    return frozenset(task.name for task in prepared.tasks if is_beyond(stages_of(task.task.solver)[0], stage))


def _has_passed(standing: Standing, until: str, prepared: PreparedEval) -> bool:
    """Whether a session has left trials after a stage, and the one that follows is not to be run."""
    if not standing.reason.startswith(PAUSED_AFTER):
        return False
    last = standing.reason.removeprefix(PAUSED_AFTER)
    solvers = [task.task.solver for task in prepared.tasks if task.name == standing.group.task]
    stages = stages_of(solvers[0]) if solvers else ()
    return last in stages and is_beyond(stage_after(stages, last), until)


# From.


def select_from(
    request: SelectionRequest, reader: RunReader, prepared: PreparedEval, plan: list[PlanEntry]
) -> TrialSelection:
    """The trials that are attempted once more from a stage on: of those that have come so far, which `where` matches.

    Raises:
        UsageError: no task has the stage, it comes after that of `until`, no trial has come to it, or what one keeps is
            not on record.
    """
    stage, prefix = request.start_from, request.option_prefix
    check_stage(stage, f"{prefix}from", prepared)
    _check_order(stage, request.until, prefix)
    selecting = _SelectingFrom(stage, reader, reader.fold.with_plan(plan))
    where = None
    if request.where is not None:
        where = parse_where(request.where, known_names(reader, prepared), f"{prefix}where")
    for planned in all_trials(prepared):
        trial = selecting.fold.find(planned.key)
        if where is None or where.matches(candidate_of(reader, selecting.fold, planned, trial)):
            selecting.look_at(planned, trial)
    redone_by = selected_by(where) if where is not None and selecting.found[State.VALID] else ""
    return selecting.selection(request, where, redone_by)


def _check_order(start_from: str, until: str, prefix: str) -> None:
    """Raises UsageError where trials would be left before the stage from which they are attempted."""
    if until and STAGES.index(until) < STAGES.index(start_from):
        raise UsageError(
            f"{prefix}from {start_from} {prefix}until {until}: {until} comes before {start_from}.",
            hint=f"Nothing was run. The stages are, in this order, {', '.join(STAGES)}.",
        )


class _SelectingFrom:
    """Looks at trials one by one."""

    def __init__(self, stage: str, reader: RunReader, fold: RunFold) -> None:
        self._stage, self._reader, self.fold, self._history = stage, reader, fold, TrialHistory(reader)
        self._chosen: list[str] = []
        self._remaining: list[str] = []
        self.found: Counter[State] = Counter()
        self._tasks: set[str] = set()
        self._lost: list[str] = []
        self._matched = self._not_reached = 0

    def look_at(self, planned: PlannedTrial, trial: FoldedTrial | None) -> None:
        stages = stages_of(planned.task.task.solver)
        self._matched += 1
        if trial is None or self._stage not in (*stages, SCORE_STAGE):
            self._not_reached += 1
        elif self._has_kept(trial, stages):
            self._take(planned, trial)
        elif trial.row.counted:
            self._lost.append(planned.key)
        else:
            self._not_reached += 1

    def _has_kept(self, trial: FoldedTrial, stages: Sequence[str]) -> bool:
        """Whether everything that comes before the stage is on record."""
        if self._stage == stages[0]:
            return True
        return self._history.from_stage(trial.key, self._stage, stages) is not None

    def _take(self, planned: PlannedTrial, trial: FoldedTrial) -> None:
        self._chosen.append(planned.key)
        self._tasks.add(planned.task.name)
        self.found[trial.state] += 1
        if not trial.state.is_finished:
            self._remaining.append(planned.key)

    def selection(self, request: SelectionRequest, where: Where | None, redone_by: str) -> TrialSelection:
        if self._lost:
            raise self._not_kept(request)
        if not self._chosen:
            raise self._none_reached(request, where)
        return TrialSelection(
            KeySet(self._remaining),
            KeySet(self._chosen),
            len(self._chosen) - len(self._remaining),
            self._matched,
            0,
            redone_by=redone_by,
            redone_tasks=frozenset(self._tasks),
            start_from=self._stage,
            not_reached=self._not_reached,
        )

    def _not_kept(self, request: SelectionRequest) -> UsageError:
        what = "the answer" if self._stage == SCORE_STAGE else f"the outcome of a stage before {self._stage}"
        count = f"{len(self._lost)} of the selected trials" if len(self._lost) > 1 else f"the trial {self._lost[0]}"
        return UsageError(
            f"{request.option_prefix}from {self._stage}: {what} of {count} is not on record; it was deleted or lost.",
            hint="Nothing was run. Run them from the beginning with --redo, or leave them out with --where.",
        )

    def _none_reached(self, request: SelectionRequest, where: Where | None) -> UsageError:
        if not self._matched:
            text = f"{request.option_prefix}where {request.where!r} matches no trial of {self._reader.place}."
            unknown = where.unknown_values if where is not None else ()
            listed = "Nothing was run. `holdfast show RUN --where …` lists matching trials."
            return UsageError(text, hint=" ".join([*unknown, listed]))
        return UsageError(
            f"{request.option_prefix}from {self._stage}: no selected trial has come as far as that.",
            hint=f"Nothing was run. Resume the run without {request.option_prefix}from.",
        )
