"""The rows that a resumed run uses: its own copies, except where a dataset has grown or is new.

A dataset whose file has changed is used if everything that was asked about is still chosen from it. If it is not,
because rows are missing or others have come before them, the new rows are appended to the run's own. If even then
others would be chosen, by a shuffle and a slice for example, the run's own copy is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from holdfast.digests import packed_digest
from holdfast.engine.planning.inputs import FreshInputs, Inputs, SavedInputs, WriteRows
from holdfast.errors import ConfigurationError
from holdfast.run.core.layout import Layout
from holdfast.run.drift.gate import SampleDigests, Samples
from holdfast.spec import TaskSpec
from holdfast.tasks.datasets.dataset import Dataset
from holdfast.tasks.datasets.row_content import content_at
from holdfast.tasks.datasets.row_file import Rows
from holdfast.tasks.task import Task

if TYPE_CHECKING:
    from holdfast.tasks.workspaces.workspace_template import PackedTemplate, WorkspaceTemplate


class ResumedInputs:
    """Where the rows of the next session come from."""

    def __init__(self, saved: SavedInputs, fresh: FreshInputs) -> None:
        self.saved, self.fresh = saved, fresh
        self._grown: set[str] = set()
        # A second reader of the sources: what they have in place of a copy stays as it is when a dataset grows.
        self._sources = FreshInputs()
        self._templates: dict[str, WorkspaceTemplate] = {}
        saved.instead = self._rows_of_source

    def rows(self, name: str, task: Task) -> Rows:
        return self.fresh.rows(name, task) if self.is_new(name) else self.saved.rows(name, task)

    def other_rows(self, name: str, task: str, write: WriteRows) -> Rows:
        # What was compared with stays what it was, whatever has become of where it came from.
        source: Inputs = self.saved if self.saved.has(name) else self.fresh
        return source.other_rows(name, task, write)

    def is_new(self, name: str) -> bool:
        return name in self._grown or not self.saved.has(name)

    def code_copy(self, task: str, name: str) -> Path | None:
        return self.saved.code_copy(task, name)

    def template(self, name: str, template: WorkspaceTemplate) -> PackedTemplate:
        source: Inputs = self.saved if self.saved.has(name) else self.fresh
        self._templates[name] = template
        return source.template(name, template)

    def list_of_trials(self) -> bytes | None:
        return self.saved.list_of_trials()

    @property
    def files(self) -> dict[str, Path]:
        """What has to be copied into the run."""
        return {name: path for name, path in self.fresh.files.items() if self.is_new(name)}

    def canonical_file(self, name: str, task: Task) -> Path | None:
        """A file with exactly the content of a copy that is damaged or missing, made from its source."""
        return None if self._rows_of_source(name, task) is None else self._sources.files[name]

    def packed_file(self, name: str) -> Path | None:
        """As `canonical_file`, for the copy of a template of workspaces."""
        try:
            packed = self._sources.template(name, self._templates[name])
        except (KeyError, ConfigurationError, OSError):
            return None
        return self._sources.files[name] if packed.digest == self.saved.digest(name) else None

    def has_template(self, name: str) -> bool:
        """Whether a task has said what the copy of a template was made from."""
        return name in self._templates

    def _rows_of_source(self, name: str, task: Task) -> Rows | None:
        try:
            rows = self._sources.rows(name, task)
        except ConfigurationError:
            return None
        return rows if rows.digest == self.saved.digest(name) else None

    def choose(self, name: str, selections: Sequence[SampleSelection], *, prefers_fresh: bool = False) -> None:
        """Decides which rows of a changed dataset are used by the tasks that ask about it.

        With `prefers_fresh`, those of now also where the same samples are chosen: their targets may be others.
        """
        before = [selection.keys_before(self.saved.rows(name, selection.task)) for selection in selections]
        for merge in (False, True):
            if merge:
                task = selections[0].task
                self.fresh.append_to_saved(name, self.saved.rows(name, task), task)
            after = [selection.keys_now(self.fresh.rows(name, selection.task)) for selection in selections]
            if all(old <= new for old, new in zip(before, after, strict=True)):
                if before != after or (prefers_fresh and not merge):
                    self._grown.add(name)
                return

    def keep_cache(self, layout: Layout) -> None:
        self.saved.keep_cache(layout)
        self.fresh.keep_cache(layout)

    def close(self) -> None:
        self.fresh.close()
        self._sources.close()


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

    def compared(self, saved: Rows, rows: Rows, offered: Rows) -> tuple[Samples, Samples, set[str]]:
        """What was asked about, what would be asked about of `rows`, beside everything that is offered, and the keys
        of what would be chosen from that.

        A sample counts as unchanged, and has the key it had, if only columns have changed that its answer does not
        depend on.
        """
        every_before, every_now = self.task.bind_all(saved), self.task.bind_all(offered)
        before = _compared_samples(self.selected_before(saved), every_before)
        after = _compared_samples(self.selected_now(rows), every_now)
        used, chosen = self.task.used_paths(), self.keys_now(offered)
        if used is None:
            return before, after, chosen
        same = _UsedContent(used, every_before, every_now).same(before, after)
        return before, _renamed(same, before, after), {same.get(key, key) for key in chosen}


class _UsedContent:
    """The rows of both sides, compared by the columns that answers depend on."""

    def __init__(self, paths: Sequence[str], before: Dataset, after: Dataset) -> None:
        self._paths, self._before, self._after = paths, before, after

    def same(self, before: Samples, after: Samples) -> dict[str, str]:
        """The saved key of every sample on offer that differs in other columns alone."""
        same = {
            key: key
            for key, (digest, _) in before.asked.items()
            if key in after.every
            if digest != after.every[key][0] and self._is_same(key)
        }
        if not before.keyed and not after.keyed:
            same |= self._same_without_ids(before, after)
        return same

    def _is_same(self, key: str) -> bool:
        return self._content(self._before, key) == self._content(self._after, key)

    def _same_without_ids(self, before: Samples, after: Samples) -> dict[str, str]:
        """The saved key of every sample that is named by its content, and has another name only for other columns."""
        others: dict[bytes, list[str]] = {}
        for key in after.every:
            if key not in before.every:
                others.setdefault(self._content(self._after, key), []).append(key)
        missing = [key for key in before.asked if key not in after.every]
        found = {key: others.get(self._content(self._before, key)) for key in missing}
        return {names.pop(): key for key, names in found.items() if names}

    def _content(self, dataset: Dataset, key: str) -> bytes:
        position = dataset.position(key)
        return b"" if position is None else content_at(dataset.row(position), self._paths)


def _renamed(same: Mapping[str, str], before: Samples, after: Samples) -> Samples:
    """What is offered, where a sample that is the same as before has the key and the digest it had."""
    numbers = {same.get(key, key): number for key, number in after.numbers.items()}
    return Samples(_under(same, before, after.asked), _under(same, before, after.every), after.keyed, numbers)


def _under(same: Mapping[str, str], before: Samples, samples: SampleDigests) -> SampleDigests:
    """The samples, where those that are the same as before have the key and the digest of the input they had."""
    return {
        same.get(key, key): (before.every[same[key]][0], target) if key in same else (digest, target)
        for key, (digest, target) in samples.items()
    }


def select_samples(task: Task, rows: Rows, limit: int | None, sample_ids: list[str] | None) -> Dataset:
    """The samples that a task asks about."""
    dataset = task.bind(rows, limit)
    if sample_ids:
        dataset.keep_only(sample_ids)
    return dataset


def _compared_samples(asked: Dataset, every: Dataset) -> Samples:
    numbers = (
        {} if every.has_ids else {every.key(position): every.row_number(position) for position in range(len(every))}
    )
    return Samples(_content_digests(asked), _content_digests(every), every.has_ids, numbers)


def _content_digests(dataset: Dataset) -> Mapping[str, tuple[bytes, bytes]]:
    """By key, the digests of what is asked and of what it is judged by."""
    return {
        dataset.key(position): (_asked_digest(dataset, position), dataset.target_digest(position))
        for position in range(len(dataset))
    }


def _asked_digest(dataset: Dataset, position: int) -> bytes:
    """That of the input, and of a target that the model is shown as one of the choices."""
    shown = dataset.columns.shown_target_paths()
    digest = dataset.input_digest(position)
    return digest + packed_digest(content_at(dataset.row(position), shown)) if shown else digest
