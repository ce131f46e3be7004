"""The trials of an imported run, listed one by one.

The plan of a run is the product of samples, axes and epochs, so it is never written down. Another tool need not have
run every combination, and a run that was imported from it plans what was found and nothing else: its trials are in a
file among its inputs. Each line of it has the trials of one task and model, in order.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.errors import RunDamaged
from holdfast.tasks.datasets.dataset import Dataset


class TrialList(msgspec.Struct, frozen=True):
    """A line of the file."""

    task: str
    model: str
    axes: list[dict[str, str]]
    """Every combination of axis values that the task has, whatever its model."""
    trials: list[tuple[str, int, int]]
    """The key of the sample, the epoch, and the place of the axis values in `axes`."""


class ModelTrials:
    """The trials of one task and model, at twelve bytes each."""

    def __init__(self, places: Iterable[tuple[int, int, int]]) -> None:
        self._places = array("I", [number for place in places for number in place])

    def __len__(self) -> int:
        return len(self._places) // 3

    def __getitem__(self, place: int) -> tuple[int, int, int]:
        """The position of the sample, the epoch, and the place on the axes."""
        position, epoch, axis = self._places[3 * place : 3 * place + 3]
        return position, epoch, axis


_NO_TRIALS = ModelTrials(())


class ListedTrials:
    """The trials of one task."""

    def __init__(self, axes: tuple[Mapping[str, str], ...], by_model: Mapping[str, ModelTrials]) -> None:
        self.axes, self._by_model = axes or ({},), by_model

    def of(self, model: str) -> ModelTrials:
        """Those of one model, which may be none."""
        return self._by_model.get(model, _NO_TRIALS)


def read_listed_trials(data: bytes, task: str, dataset: Dataset) -> ListedTrials:
    """The trials that a list has of a task, whose samples are those of `dataset`.

    Raises:
        RunDamaged: a trial is of a sample that the dataset does not have.
    """
    lines = msgspec.json.Decoder(TrialList).decode_lines(data)
    own = [line for line in lines if line.task == task]
    axes: tuple[Mapping[str, str], ...] = tuple(own[0].axes) if own else ()
    return ListedTrials(axes, {line.model: ModelTrials(_trial_positions(line, dataset)) for line in own})


def _trial_positions(line: TrialList, dataset: Dataset) -> Iterable[tuple[int, int, int]]:
    for sample, epoch, axis in line.trials:
        position = dataset.position(sample)
        if position is None:
            raise RunDamaged(f"The run's copy of the samples of the task {line.task!r} has no sample {sample!r}.")
        yield position, epoch, axis


def list_line(task: str, model: str, axes: list[dict[str, str]], trials: Any) -> bytes:
    """One line of the file."""
    return msgspec.json.encode(TrialList(task, model, axes, trials)) + b"\n"
