"""The planned grid, made again from a run: every trial key that belongs to it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holdfast.engine.planning.plan import KeySet, TrialSequence, trial_key
from holdfast.engine.planning.prepared_eval import Prepared, SavedInputs, build, prepare
from holdfast.engine.planning.saved_eval import saved_eval
from holdfast.run.core.reader import RunReader
from holdfast.run.core.records import SessionRecord, TrialRecord
from holdfast.spec import EvalSpec
from holdfast.tasks import Task


class Grid:
    """The keys of all planned trials, at ten bytes each."""

    def __init__(self, prepared: Prepared) -> None:
        self._keys = KeySet(_keys(prepared))

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: str) -> bool:
        try:
            return bytes.fromhex(key) in self._keys
        except ValueError:
            return False

    def why_not(self, trial: TrialRecord) -> str:
        """Why a result does not belong to the grid; empty if it does."""
        return "" if trial.trial in self else "it is the result of no planned trial"


def _keys(prepared: Prepared) -> Iterator[str]:
    none = KeySet([])
    for task in prepared.tasks:
        for model in task.models:
            yield from (cell.key for cell in TrialSequence(task, model, none, none).cells())


def planned_grid(reader: RunReader) -> Grid:
    """The grid of a run, from its last session and the copies of its inputs.

    Raises:
        HoldfastError: the configuration, an input or a task of it is not there any more.
    """
    session = reader.sessions[-1]
    spec = saved_eval(session)
    tasks = {name: _as_planned(name, spec, session) for name in spec.tasks}
    return Grid(prepare(spec, SavedInputs(reader.layout, session.inputs), tasks))


def _as_planned(name: str, spec: EvalSpec, session: SessionRecord) -> Task:
    """A task that asks for as much as it did in the session, whatever its code asks for now."""
    task, code = build(name, spec.tasks[name], spec, None), session.code.get(name)
    if code is None or not spec.tasks[name].use:
        return task
    return msgspec.structs.replace(task, epochs=code.epochs, limit=code.limit, axes=code.axes)


def wrong_key(trial: TrialRecord) -> str:
    """Why a result cannot be that of its own trial, where the grid is not known; empty if it can."""
    key = trial_key(trial.task, trial.model, trial.axes, trial.sample, trial.epoch)
    return "" if key == trial.trial else f"its task, model, sample and epoch are those of the trial {key}"
