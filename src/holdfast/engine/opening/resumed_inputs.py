"""The rows that a run goes on with: its own copies, except where a dataset has grown or is new.

A dataset whose file has changed is gone on with if everything that was asked about is still chosen from it. Where it is
not, because rows are missing or others have come before them, the new rows are put behind the run's own. Where even
then others would be chosen, by a shuffle and a slice for example, the run's own copy stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.engine.planning.prepared_eval import FreshInputs, SavedInputs
from holdfast.errors import ConfigurationError
from holdfast.run.core.layout import Layout
from holdfast.run.drift.gate import Samples
from holdfast.spec import DatasetSpec, TaskSpec
from holdfast.tasks import Dataset, Rows, Task


class ResumedInputs:
    """Where the rows of the next session come from."""

    def __init__(self, saved: SavedInputs, fresh: FreshInputs) -> None:
        self.saved, self.fresh = saved, fresh
        self._grown: set[str] = set()

    def rows(self, name: str, task: Task) -> Rows:
        return self.fresh.rows(name, task) if self.is_new(name) else self.saved.rows(name, task)

    def is_new(self, name: str) -> bool:
        return name in self._grown or not self.saved.has(name)

    @property
    def files(self) -> dict[str, Path]:
        """What has to be copied into the run."""
        return {name: path for name, path in self.fresh.files.items() if self.is_new(name)}

    def choose(self, name: str, askings: Sequence[Asking]) -> None:
        """Decides which rows of a changed dataset the tasks that ask about it go on with."""
        before = [asking.keys_before(self.saved.rows(name, asking.task)) for asking in askings]
        for merge in (False, True):
            if merge:
                task = askings[0].task
                self.fresh.put_behind(name, self.saved.rows(name, task), task)
            after = [asking.keys_now(self.fresh.rows(name, asking.task)) for asking in askings]
            if all(old <= new for old, new in zip(before, after, strict=True)):
                if before != after:
                    self._grown.add(name)
                return

    def keep(self, layout: Layout) -> None:
        self.saved.keep(layout)
        self.fresh.keep(layout)

    def close(self) -> None:
        self.fresh.close()


class Asking(NamedTuple):
    """What a task asks of its dataset: in the session before, and in the next one."""

    task: Task
    before: TaskSpec
    limit_before: int | None
    now: TaskSpec

    def asked_before(self, rows: Rows) -> Dataset:
        return chosen(self.task, rows, self.limit_before, self.before.sample_ids)

    def asked_now(self, rows: Rows) -> Dataset:
        return chosen(self.task, rows, self.now.limit, self.now.sample_ids)

    def keys_before(self, rows: Rows) -> set[str]:
        return set(self.asked_before(rows).keys())

    def keys_now(self, rows: Rows) -> set[str]:
        """None where nothing can be chosen."""
        try:
            return set(self.asked_now(rows).keys())
        except ConfigurationError:
            return set()

    def samples_before(self, rows: Rows) -> Samples:
        return _samples(self.asked_before(rows), _every(self.task, rows))

    def samples_offered(self, rows: Rows, offered: Rows) -> Samples:
        """What would be asked about of `rows`, beside everything that is offered."""
        return _samples(self.asked_now(rows), _every(self.task, offered))


def chosen(task: Task, rows: Rows, limit: int | None, sample_ids: list[str] | None) -> Dataset:
    """The samples that a task asks about."""
    dataset = task.bind(rows, limit)
    if sample_ids:
        dataset.only(sample_ids)
    return dataset


def _every(task: Task, rows: Rows) -> Dataset:
    """Every sample that can be chosen from the rows, under the key that it is chosen with."""
    operations = task.dataset.operations if isinstance(task.dataset, DatasetSpec) else []
    return Dataset(rows, task.columns, [operation for operation in operations if operation.repeat])


def _samples(asked: Dataset, every: Dataset) -> Samples:
    return Samples(_content(asked), _content(every), every.has_ids)


def _content(dataset: Dataset) -> Mapping[str, tuple[bytes, bytes]]:
    return {
        dataset.key(position): (dataset.input_digest(position), dataset.target_digest(position))
        for position in range(len(dataset))
    }
