"""Cleaning up after trials that have ended: what their stages left beside the run is kept or removed by policy.

It comes after the end of the trial is durable, and is recorded. A session that is killed in between leaves it to the
next one. A clean-up that fails changes no result: it is noted, and the next session tries again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from holdfast.engine.planning.plan import PlannedTask, PlannedTrial, TrialSequence
from holdfast.engine.planning.trial_keys import KeySet
from holdfast.engine.trials.error_boundary import guard
from holdfast.engine.trials.running_trial import RunningTrial
from holdfast.engine.trials.stages.stage_outcomes import clean_up_step
from holdfast.engine.trials.trial_environment import TrialEnvironment
from holdfast.run.core.records import CLEAN_UP, NoteRecord, Status
from holdfast.run.fold.run_fold import RunFold
from holdfast.tasks.stages import StagedSolver, is_staged
from holdfast.tasks.task import Task


class LeftTrial(NamedTuple):
    """A trial that has ended and was not cleaned up after."""

    planned: PlannedTrial
    attempt: int
    status: Status


async def clean_up(environment: TrialEnvironment, solver: StagedSolver, trial: RunningTrial, status: Status) -> None:
    """Cleans up after an attempt that has ended, and records it."""
    with trial.activity.in_flight():
        outcome = await guard(solver.clean_up(trial, status.value))
    if outcome.error is None:
        environment.sink.put(clean_up_step(trial.key, trial.attempt))
        return
    failure = outcome.failure()
    text = (
        f"It could not be cleaned up after the trial; the next session tries again. {failure.kind}: {failure.message}"
    )
    environment.sink.put(NoteRecord(kind=CLEAN_UP, trial=trial.key, text=text))
    environment.note_left(trial.key, text)


def has_left_trials(fold: RunFold, tasks: Mapping[str, Task]) -> bool:
    """Whether the next session has to clean up after any trial."""
    return any(True for name, task in tasks.items() for _ in _left_keys(fold, name, task))


def left_trials(fold: RunFold, tasks: Sequence[PlannedTask]) -> Iterator[LeftTrial]:
    """The trials that a session has left without cleaning up after them; tasks without stages leave none."""
    for task in tasks:
        left = {key: (attempt, status) for key, attempt, status in _left_keys(fold, task.name, task.task)}
        for planned in _all_trials(task) if left else ():
            if planned.key in left:
                yield LeftTrial(planned, *left[planned.key])


def _left_keys(fold: RunFold, name: str, task: Task) -> Iterator[tuple[str, int, Status]]:
    if not is_staged(task.solver):
        return
    for trial in fold.trials_of(name):
        if (attempt := trial.row.left_behind) and trial.row.end is not None and trial.has_transcript:
            yield trial.key, attempt, trial.row.end.status


def _all_trials(task: PlannedTask) -> Iterator[PlannedTrial]:
    none = KeySet([])
    for model in task.models:
        yield from TrialSequence(task, model, none, none).trials()
