"""The planned grid of a run, computed again from what the run holds: every trial key that belongs to it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import msgspec

from holdfast.engine.planning.inputs import Inputs, SavedInputs
from holdfast.engine.planning.plan import TrialSequence
from holdfast.engine.planning.prepared_eval import PreparedEval, prepare_eval, task_of_entry
from holdfast.engine.planning.saved_eval import saved_eval
from holdfast.engine.planning.trial_keys import KeySet, trial_key
from holdfast.errors import HoldfastError
from holdfast.run.core.records import SessionRecord, TrialRecord
from holdfast.run.fold.reader import RunReader
from holdfast.spec import EvalSpec
from holdfast.tasks.from_spec import samples_on_record
from holdfast.tasks.task import Task


class PlannedGrid:
    """The keys of all planned trials, at ten bytes each."""

    def __init__(self, prepared: PreparedEval) -> None:
        self._keys = KeySet(_planned_keys(prepared))

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: str) -> bool:
        try:
            return bytes.fromhex(key) in self._keys
        except ValueError:
            return False

    def why_not(self, trial: TrialRecord) -> str:
        """Why a result does not belong to the grid; empty if it does."""
        return "" if trial.trial in self else "it does not belong to a planned trial"


def _planned_keys(prepared: PreparedEval) -> Iterator[str]:
    none = KeySet([])
    for task in prepared.tasks:
        for model in task.models:
            yield from (planned.key for planned in TrialSequence(task, model, none, none).trials())


def grid_of_run(reader: RunReader) -> PlannedGrid:
    """The grid of a run, from its last session and the copies of its inputs.

    Raises:
        HoldfastError: the configuration, an input or a task of it no longer exists.
    """
    session = reader.sessions[-1]
    spec = saved_eval(session)
    inputs = SavedInputs(reader.layout, session.inputs)
    bare = _without_code(spec)
    tasks = {name: _task_as_planned(name, spec, bare, session, inputs) for name in spec.tasks}
    return PlannedGrid(prepare_eval(bare, inputs, tasks))


def tasks_without_code(spec: EvalSpec, inputs: Inputs) -> dict[str, Task]:
    """The tasks that the eval itself describes, with their datasets and workspaces.

    Those in Python are left out, and so are those that cannot be built.
    """
    bare = _without_code(spec)
    described = {name: entry for name, entry in bare.tasks.items() if entry.use is None}
    found = {}
    for name, entry in described.items():
        # None can be built without a scorer; nothing is scored with this one.
        scored = msgspec.structs.replace(entry, scorers=["exact"])
        with contextlib.suppress(HoldfastError):
            found[name] = task_of_entry(name, scored, bare, inputs)
    return found


def _without_code(spec: EvalSpec) -> EvalSpec:
    """The eval without the solvers, scorers and samplings that it names: the keys of trials do not depend on them."""
    tasks = {
        name: msgspec.structs.replace(entry, solver=None, scorers=[], sampling=None)
        for name, entry in spec.tasks.items()
    }
    return msgspec.structs.replace(spec, tasks=tasks)


def _task_as_planned(name: str, spec: EvalSpec, bare: EvalSpec, session: SessionRecord, inputs: Inputs) -> Task:
    """A task that asks for as much as it did in the session, whatever its code asks for now.

    The file of a task in Python is loaded only for a run of an earlier version: the others record how rows are read.
    """
    entry, code = spec.tasks[name], session.code.get(name)
    task = samples_on_record(name, spec, code) or task_of_entry(name, bare.tasks[name], bare, inputs)
    if code is None:
        return task
    if entry.use is None:
        # A solver in a file may have several prompts, which are an axis.
        return dataclasses.replace(task, axes={**task.axes, **code.axes})
    return dataclasses.replace(task, epochs=code.epochs, limit=code.limit, axes=code.axes)


def wrong_key(trial: TrialRecord) -> str:
    """Why a result cannot be that of its own trial, where the grid is unknown; empty if it can."""
    key = trial_key(trial.task, trial.model, trial.axes, trial.sample, trial.epoch)
    return "" if key == trial.trial else f"its task, model, sample and epoch are those of the trial {key}"
