"""The planned grid, made again from a run: every trial key that belongs to it."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.engine.examine import saved_eval
from holdfast.engine.plan import KeySet, Lane, trial_key
from holdfast.engine.prepare import Prepared, SavedInputs, prepare
from holdfast.run.reading import RunReader
from holdfast.run.records import Trial


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

    def why_not(self, trial: Trial) -> str:
        """Why a result does not belong to the grid; empty if it does."""
        return "" if trial.trial in self else "it is the result of no planned trial"


def _keys(prepared: Prepared) -> Iterator[str]:
    none = KeySet([])
    for task in prepared.tasks:
        for model in task.models:
            yield from (cell.key for cell in Lane(task, model, none, none).cells())


def planned_grid(reader: RunReader) -> Grid:
    """The grid of a run, from its last session and the copies of its inputs.

    Raises:
        HoldfastError: the configuration, an input or a task of it is not there any more.
    """
    session = reader.sessions[-1]
    return Grid(prepare(saved_eval(session), SavedInputs(reader.layout, session.inputs)))


def wrong_key(trial: Trial) -> str:
    """Why a result cannot be that of its own trial, where the grid is not known; empty if it can."""
    key = trial_key(trial.task, trial.model, trial.axes, trial.sample, trial.epoch)
    return "" if key == trial.trial else f"its task, model, sample and epoch are those of the trial {key}"
