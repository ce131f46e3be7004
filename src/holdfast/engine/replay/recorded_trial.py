"""One trial as its run has it: the task with its code, the sample, and the attempt that is on record.

Everything is loaded as a resume loads it, except that no provider is opened and nothing in the run changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.engine.planning.earlier_runs import comparable_code
from holdfast.engine.planning.inputs import SavedInputs, input_name
from holdfast.engine.planning.plan import PlannedTask, PlannedTrial
from holdfast.engine.planning.prepared_eval import PreparedEval, task_of_entry
from holdfast.engine.planning.saved_eval import eval_directory, last_session, saved_eval
from holdfast.engine.trials.history import AttemptState, TrialHistory
from holdfast.errors import UsageError
from holdfast.models.catalogue import import_provider
from holdfast.models.env_file import read_env_file
from holdfast.run.core.axes.choices import ChoiceKey
from holdfast.run.core.recorded_code import recorded_code
from holdfast.run.core.records import SAMPLING_ROOT, SOLVER_ROOT, TOOLS_ROOT, TaskCode
from holdfast.run.core.run_id import refuse_older
from holdfast.run.drift.code_changes import code_changes, is_lost
from holdfast.run.fold.reader import RunReader, chosen_values
from holdfast.run.fold.run_fold import FoldedTrial
from holdfast.spec import TrialLimits
from holdfast.tasks.datasets.dataset import Dataset
from holdfast.tasks.from_spec import samples_on_record, with_keys_of
from holdfast.tasks.task import Task


class RecordedTrial(NamedTuple):
    """A trial that can be replayed."""

    prepared: PreparedEval
    planned: PlannedTrial
    state: AttemptState
    notes: list[str]
    """What a person should know of how it was loaded."""


def load_recorded_trial(reader: RunReader, trial: FoldedTrial, label: str) -> RecordedTrial:
    """Loads a trial with the code of its task; `label` is how a person names it.

    Raises:
        UsageError: its transcript is not on record, or its task lives in a Python process only.
        ConfigurationError: its task or its sample no longer exists.
        OlderFormat: the run was written in a format that is not resumed.
    """
    refuse_older(reader.format, reader.place)
    _refuse_without_transcript(trial, label)
    session, group = last_session(reader), trial.standing.group
    notes = read_env_file(eval_directory(session))
    spec, inputs = saved_eval(session), SavedInputs(reader.layout, session.inputs, loads_code=True)
    if group.task not in spec.tasks or group.model not in spec.models:
        raise UsageError(f"The eval of the run no longer has the task and the model of {label}.")
    entry = spec.tasks[group.task]
    recorded = samples_on_record(group.task, spec, session.code.get(group.task))
    task = with_keys_of(task_of_entry(group.task, entry, spec, inputs), recorded)
    dataset = task.bind_all(inputs.rows(input_name(group.task, entry), task))
    planned = PlannedTrial(
        trial.key,
        _planned_task(group.task, task, dataset, group.model, chosen_values(reader, group.task)),
        group.model,
        _position(dataset, trial.row.sample, label),
        trial.row.epoch,
        dict(group.axes),
        trial.row.sample,
    )
    # As in a session: what its code imports counts as imported where a recorded exception is made again.
    import_provider(spec.models[group.model].provider)
    notes += _code_notes(task, recorded_code(reader.sessions).get(group.task), inputs)
    return RecordedTrial(
        PreparedEval(spec, [], inputs), planned, TrialHistory(reader).recorded_attempt(trial.key), notes
    )


def _refuse_without_transcript(trial: FoldedTrial, label: str) -> None:
    if trial.row.is_hollow or not trial.has_transcript:
        raise UsageError(
            f"The transcript of {label} is not on record, so there is nothing to replay.",
            hint="It was deleted by `holdfast clean --steps`, left out by `recover --no-steps`, or lost.",
        )


def _planned_task(name: str, task: Task, dataset: Dataset, model: str, choices: dict[ChoiceKey, str]) -> PlannedTask:
    limits = task.limits or TrialLimits()
    # A replay takes other time than the trial did.
    untimed = TrialLimits(tokens=limits.tokens, cost=limits.cost)
    planned = PlannedTask(name, task, dataset, (model,), (), task.epochs, untimed, max_retries=0)
    return planned._replace(max_iterations=task.max_iterations, choices=choices)


def _position(dataset: Dataset, sample: str, label: str) -> int:
    if (position := dataset.position(sample)) is None:
        raise UsageError(
            f"The sample of {label} is not in the run's copy of its dataset.",
            hint="The task reads its rows in another way than before; `holdfast diff` names what has changed.",
        )
    return position


def _code_notes(task: Task, saved: TaskCode | None, inputs: SavedInputs) -> Iterator[str]:
    for names in inputs.copies_used.values():
        yield f"{', '.join(sorted(names))} no longer exists; the run's own copy was used."
    if saved is None:
        return
    if is_lost(saved):
        yield f"The record of the task's code is damaged (session {saved.tree_session}): it was not compared."
    code = comparable_code(task, saved)
    changed = {SOLVER_ROOT, SAMPLING_ROOT, TOOLS_ROOT} & code_changes(saved.tree, code.tree).keys()
    if changed or code.solver != saved.solver or code.settings != saved.settings:
        yield f"The code or the settings of the task have changed since the last session ({', '.join(code.files)})."
