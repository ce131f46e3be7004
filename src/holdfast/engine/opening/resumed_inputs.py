"""The rows that a resumed run uses: its own copies, except where a dataset has grown or is new.

A dataset whose file has changed is used if everything that was asked about is still chosen from it. If it is not,
because rows are missing or others have come before them, the new rows are appended to the run's own. If even then
others would be chosen, by a shuffle and a slice for example, the run's own copy is used.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.engine.planning.inputs import FreshInputs, SavedInputs
from holdfast.errors import ConfigurationError
from holdfast.run.core.layout import Layout
from holdfast.run.drift.gate import Samples
from holdfast.spec import TaskSpec
from holdfast.tasks.datasets.dataset import Dataset
from holdfast.tasks.datasets.row_file import Rows
from holdfast.tasks.task import Task


class ResumedInputs:
    """Where the rows of the next session come from."""

    def __init__(self, saved: SavedInputs, fresh: FreshInputs) -> None:
        self.saved, self.fresh = saved, fresh
        self._grown: set[str] = set()

    def rows(self, name: str, task: Task) -> Rows:
        return self.fresh.rows(name, task) if self.is_new(name) else self.saved.rows(name, task)

    def is_new(self, name: str) -> bool:
        return name in self._grown or not self.saved.has(name)

    def code_copy(self, task: str, name: str) -> Path | None:
        return self.saved.code_copy(task, name)

    @property
    def files(self) -> dict[str, Path]:
        """What has to be copied into the run."""
        return {name: path for name, path in self.fresh.files.items() if self.is_new(name)}

    def choose(self, name: str, selections: "Sequence[SampleSelection]") -> None:
        """Decides which rows of a changed dataset are used by the tasks that ask about it."""
        before = [selection.keys_before(self.saved.rows(name, selection.task)) for selection in selections]
        for merge in (False, True):
            if merge:
                task = selections[0].task
                self.fresh.append_to_saved(name, self.saved.rows(name, task), task)
            after = [selection.keys_now(self.fresh.rows(name, selection.task)) for selection in selections]
            if all(old <= new for old, new in zip(before, after, strict=True)):
                if before != after:
                    self._grown.add(name)
                return

    def keep_cache(self, layout: Layout) -> None:
        self.saved.keep_cache(layout)
        self.fresh.keep_cache(layout)

    def close(self) -> None:
        self.fresh.close()


class SampleSelection(NamedTuple):
    """Which samples of its dataset a task asks about: in the session before, and in the next one."""

    task: Task
    before: TaskSpec
    limit_before: int | None
    now: TaskSpec

    def selected_before(self, rows: Rows) -> Dataset:
        return select_samples(self.task, rows, self.limit_before, self.before.sample_ids)

    def selected_now(self, rows: Rows) -> Dataset:
        return select_samples(self.task, rows, self.now.limit, self.now.sample_ids)

    def keys_before(self, rows: Rows) -> set[str]:
        return set(self.selected_before(rows).keys())

    def keys_now(self, rows: Rows) -> set[str]:
        """Empty where nothing can be chosen."""
        try:
            return set(self.selected_now(rows).keys())
        except ConfigurationError:
            return set()

    def samples_before(self, rows: Rows) -> Samples:
        return _compared_samples(self.selected_before(rows), self.task.bind_all(rows))

    def samples_offered(self, rows: Rows, offered: Rows) -> Samples:
        """What would be asked about of `rows`, beside everything that is offered."""
        return _compared_samples(self.selected_now(rows), self.task.bind_all(offered))


def select_samples(task: Task, rows: Rows, limit: int | None, sample_ids: list[str] | None) -> Dataset:
    """The samples that a task asks about."""
    dataset = task.bind(rows, limit)
    if sample_ids:
        dataset.keep_only(sample_ids)
    return dataset


def _compared_samples(asked: Dataset, every: Dataset) -> Samples:
    return Samples(_content_digests(asked), _content_digests(every), every.has_ids)


def _content_digests(dataset: Dataset) -> Mapping[str, tuple[bytes, bytes]]:
    return {
        dataset.key(position): (dataset.input_digest(position), dataset.target_digest(position))
        for position in range(len(dataset))
    }
