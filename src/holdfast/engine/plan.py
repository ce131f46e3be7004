"""The plan: every trial of a run, named without being listed.

A trial is one (task, axis values, model, sample, epoch). Its key is a digest of just that, so it is the same in every
session, whatever else changed. Trials are made one at a time when there is room for them; a plan of a million trials
takes no more memory than its datasets do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import product
from typing import NamedTuple

import msgspec

from holdfast.spec import Limits
from holdfast.tasks.dataset import Dataset
from holdfast.tasks.task import Task

KEY_BYTES = 10


class PlannedTask(NamedTuple):
    """A task with everything that its trials need."""

    name: str
    task: Task
    dataset: Dataset
    models: tuple[str, ...]
    axes: tuple[Mapping[str, str], ...]
    epochs: int
    limits: Limits
    max_retries: int
    deadline: float
    source: str = ""
    """The name of the input that its rows come from."""

    @property
    def planned(self) -> int:
        return self.planned_by_model * len(self.models)

    @property
    def planned_by_model(self) -> int:
        return len(self.dataset) * len(self.axes) * self.epochs


class Cell(NamedTuple):
    """One trial of the plan."""

    key: str
    task: PlannedTask
    model: str
    position: int
    epoch: int
    axes: Mapping[str, str]
    late: bool = False
    """It has ended; only scores are missing that were asked for later."""


class KeySet:
    """Many keys in little memory: sorted, ten bytes each."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._data = b"".join(sorted(bytes.fromhex(key) for key in keys if _is_key(key)))

    def __len__(self) -> int:
        return len(self._data) // KEY_BYTES

    def __contains__(self, digest: bytes) -> bool:
        data = self._data
        place = bisect_left(range(len(self)), digest, key=lambda at: data[at * KEY_BYTES : at * KEY_BYTES + KEY_BYTES])
        return data[place * KEY_BYTES : place * KEY_BYTES + KEY_BYTES] == digest


def _is_key(key: str) -> bool:
    try:
        return len(bytes.fromhex(key)) == KEY_BYTES
    except ValueError:
        return False


def axis_values(axes: Mapping[str, list[str]]) -> tuple[Mapping[str, str], ...]:
    """Every combination of the values on the axes; one empty combination where there are none."""
    names = sorted(axes)
    return tuple(dict(zip(names, values, strict=True)) for values in product(*(axes[name] for name in names)))


class Lane:
    """The trials of one task and model, in order, without those that are finished."""

    def __init__(self, task: PlannedTask, model: str, finished: KeySet, lacking: KeySet) -> None:
        self.task, self.model = task, model
        self._finished, self._lacking = finished, lacking

    def cells(self) -> Iterator[Cell]:
        """Epoch after epoch, so that every sample has been asked once before any is asked twice."""
        task, finished, lacking = self.task, self._finished, self._lacking
        bases = [(axes, _base(task.name, self.model, axes)) for axes in task.axes]
        for epoch in range(1, task.epochs + 1):
            for position in range(len(task.dataset)):
                sample = task.dataset.key(position)
                for axes, base in bases:
                    digest = _digest(base, sample, epoch)
                    if digest not in finished:
                        yield Cell(digest.hex(), task, self.model, position, epoch, axes)
                    elif len(lacking) and digest in lacking:
                        yield Cell(digest.hex(), task, self.model, position, epoch, axes, late=True)


def _base(task: str, model: str, axes: Mapping[str, str]) -> blake2b:
    return blake2b(msgspec.json.encode([task, model, sorted(axes.items())]), digest_size=KEY_BYTES)


def _digest(base: blake2b, sample: str, epoch: int) -> bytes:
    hash_ = base.copy()
    hash_.update(b"\n%d %b" % (epoch, sample.encode("utf-8", "surrogatepass")))
    return hash_.digest()


def trial_key(task: str, model: str, axes: Mapping[str, str], sample: str, epoch: int) -> str:
    """The key of one trial."""
    return _digest(_base(task, model, axes), sample, epoch).hex()


def trial_seed(seed: int, key: str) -> int:
    """A seed of a trial's own, the same in every session."""
    return int.from_bytes(blake2b(f"{seed}/{key}".encode(), digest_size=8).digest(), "big") >> 1
