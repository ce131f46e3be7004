"""The inputs of an eval: where the rows of its datasets come from.

A new run takes its datasets from where the eval says they are; a resumed one from the copies in the run, and from
nowhere else.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from holdfast.digests import canonical_json, content_digest, file_digest, packed_digest
from holdfast.errors import RunDamaged, UsageError
from holdfast.run.core.inputs import LISTED_TRIALS
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import Input
from holdfast.spec import DatasetSpec, TaskSpec
from holdfast.tasks.datasets.dataset import Dataset
from holdfast.tasks.datasets.derived_cache import DerivedCache
from holdfast.tasks.datasets.ingest import ingest, ingest_samples
from holdfast.tasks.datasets.listed_trials import ListedTrials, read_listed_trials
from holdfast.tasks.datasets.row_content import content_at
from holdfast.tasks.datasets.row_file import Rows
from holdfast.tasks.task import Task

if TYPE_CHECKING:
    from holdfast.storage.scratch_directory import ScratchDirectory
    from holdfast.tasks.workspaces.workspace_template import PackedTemplate, WorkspaceTemplate


WriteRows = Callable[[BinaryIO], str]
"""Writes rows, and says where to look if what they come from is damaged."""

_FROM_BACKUP = "Restore it from a backup."


class Inputs(Protocol):
    """Where the rows of a dataset come from."""

    def rows(self, name: str, task: Task) -> Rows:
        """The rows of the input `name`, which `task` asks about."""

    def is_new(self, name: str) -> bool:
        """Whether its samples have not been checked before."""

    def code_copy(self, task: str, name: str) -> Path | None:
        """The copy of a file behind a task, for one that no longer exists; None if absent."""

    def other_rows(self, name: str, task: str, write: WriteRows) -> Rows:
        """The rows of an input that is no dataset, from its copy; `write` writes them where there is none yet."""

    def list_of_trials(self) -> bytes | None:
        """What an imported run has in place of a grid: see `ListedTrials`; None in every other run."""

    def template(self, name: str, template: WorkspaceTemplate) -> PackedTemplate:
        """The template of workspaces that is the input `name`, in its file."""


def raw_digest(path: Path) -> str:
    """The digest of a file as it is; empty if it cannot be read."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return ""


def input_name(task: str, entry: TaskSpec) -> str:
    """The name of the copy of a task's rows; tasks that ask about the same dataset share it."""
    return f"datasets/{entry.dataset}" if entry.dataset else f"tasks/{task}"


TEMPLATES = ("workspaces/", "axes/")
"""How the names of copies begin that are templates of workspaces, or files that are laid over one."""


def template_input(task: str) -> str:
    """The name of the copy of the template of a task's workspaces."""
    return f"workspaces/{task}"


def axis_file_input(task: str, key: str) -> str:
    """The name of the copy of a file that an axis value brings; `key` names axis, value and path."""
    return f"axes/{task}/{key}"


def listed_trials(inputs: Inputs, task: str, dataset: Dataset) -> ListedTrials | None:
    """The trials that a task of an imported run has; None in every other run."""
    data = inputs.list_of_trials()
    return None if data is None else read_listed_trials(data, task, dataset)


class FreshInputs:
    """Reads datasets from where they are; the canonical files wait in a temporary directory to be copied into the
    run.
    """

    def __init__(self) -> None:
        self._directory: ScratchDirectory | None = None
        self._cache = DerivedCache()
        self.files: dict[str, Path] = {}
        self._rows: dict[str, Rows] = {}
        self._templates: dict[str, PackedTemplate] = {}

    def rows(self, name: str, task: Task) -> Rows:
        if name not in self._rows:
            path = self._place() / f"{len(self.files)}.jsonl"
            with path.open("wb") as stream:
                if isinstance(task.dataset, DatasetSpec):
                    ingest(Path(task.dataset.path), task.dataset.format, stream)
                else:
                    ingest_samples(task.samples or [], stream, f"samples of the task {task.name!r}")
            self.files[name] = path
            source = Path(task.dataset.path).name if isinstance(task.dataset, DatasetSpec) else task.name
            self._rows[name] = Rows.open(path, source=source, cache=self._cache)
        return self._rows[name]

    def other_rows(self, name: str, task: str, write: WriteRows) -> Rows:
        if name not in self._rows:
            path = self._place() / f"{len(self.files)}.jsonl"
            with path.open("wb") as stream:
                damage = write(stream)
            self.files[name] = path
            self._rows[name] = Rows.open(path, source=task)
            self._rows[name].damage = damage
        return self._rows[name]

    def template(self, name: str, template: WorkspaceTemplate) -> PackedTemplate:
        from holdfast.tasks.workspaces.workspace_template import PackedTemplate, pack_template  # noqa: PLC0415 - few tasks

        if name not in self._templates:
            path = self._place() / f"{len(self.files)}.tar"
            with path.open("wb") as stream:
                identity = pack_template(template, stream)
            self.files[name] = path
            self._templates[name] = PackedTemplate(file_digest(path), identity)
        return self._templates[name]

    def _place(self) -> Path:
        if self._directory is None:
            from holdfast.storage.scratch_directory import ScratchDirectory  # noqa: PLC0415 - readers of a run copy nothing

            self._directory = ScratchDirectory()
        return self._directory.path

    def is_new(self, name: str) -> bool:  # noqa: ARG002 - all are
        return True

    def code_copy(self, task: str, name: str) -> None:
        """A new run has no copies yet."""

    def list_of_trials(self) -> None:
        """A run that is started here has a grid."""

    def keep_cache(self, layout: Layout) -> None:
        """Keeps in the run, which this session holds, what was computed about the rows."""
        self._cache.keep(layout.shelf)

    def append_to_saved(self, name: str, saved: Rows, task: Task) -> None:
        """Makes the input `name` the saved rows, followed by those of its own that are not among them."""
        fresh, path = self._rows[name], self.files[name].with_suffix(".merged")
        seen = Counter(_row_identity(row, task) for row in saved)
        with path.open("wb") as stream:
            stream.writelines(canonical_json(row) + b"\n" for row in saved)
            for row in fresh:
                if seen[_row_identity(row, task)] > 0:
                    seen[_row_identity(row, task)] -= 1
                else:
                    stream.write(canonical_json(row) + b"\n")
        self.files[name] = path
        self._rows[name] = Rows.open(path, source=fresh.source, cache=self._cache)

    def close(self) -> None:
        if self._directory is not None:
            self._directory.close()


def _row_identity(row: Mapping[str, Any], task: Task) -> tuple[str, bytes]:
    """What makes a row the same one in two files: its id or, where it has none, all that is used of it."""
    given, used = task.columns.sample_id(row, task.name), task.used_paths()
    if given is not None:
        return given, b""
    return "", packed_digest(canonical_json(row) if used is None else content_at(row, used))


class SavedInputs:
    """The copies in a run.

    Those of code are found only with `loads_code`: for a resume, and for what compares as a resume does without one
    (`diff`, `run --or-resume --dry-run`). Looking at a run executes none of it.
    """

    def __init__(self, layout: Layout, inputs: Mapping[str, Input], *, loads_code: bool = False) -> None:
        self._layout, self._inputs, self._loads_code = layout, inputs, loads_code
        self.copies_used: dict[str, set[str]] = {}
        """By task, the files that no longer exist and whose copies were loaded."""
        self._cache = DerivedCache(layout.shelf)
        self._rows: dict[str, Rows] = {}
        self.instead: Callable[[str, Task], Rows | None] = lambda _name, _task: None
        """Gives the rows of a copy that is damaged or missing from elsewhere, if they are the same."""

    def is_open(self, name: str) -> bool:
        """Whether the copy was read, and is what it was."""
        return name in self._rows

    def has(self, name: str) -> bool:
        return name in self._inputs

    def digest(self, name: str) -> str:
        """The digest of a copy; empty if absent."""
        return self._inputs[name].digest if name in self._inputs else ""

    def is_new(self, name: str) -> bool:  # noqa: ARG002 - none is
        return False

    def code_copy(self, task: str, name: str) -> Path | None:
        if not self._loads_code:
            return None
        from holdfast.engine.planning.source_copies import unpack_copy  # noqa: PLC0415 - only for code that is gone

        found = unpack_copy(self._layout, self._inputs, task, name)
        if found is not None:
            self.copies_used.setdefault(task, set()).add(name)
        return found

    def list_of_trials(self) -> bytes | None:
        saved = self._inputs.get(LISTED_TRIALS)
        if saved is None:
            return None
        path = self._layout.inputs / saved.digest
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            data = b""
        if content_digest(data) != saved.digest:
            raise RunDamaged(f"The run's list of its trials ({path}) is missing or damaged.", hint=_FROM_BACKUP)
        return data

    def template(self, name: str, template: WorkspaceTemplate) -> PackedTemplate:  # noqa: ARG002 - the copy is used
        from holdfast.tasks.workspaces.workspace_template import PackedTemplate  # noqa: PLC0415 - few tasks have one

        saved = self._inputs.get(name)
        if saved is None:
            raise UsageError(f"The run has no copy of the files of {name!r}.")
        return PackedTemplate(saved.digest, saved.raw)

    def keep_cache(self, layout: Layout) -> None:
        self._cache.keep(layout.shelf)

    def rows(self, name: str, task: Task) -> Rows:
        try:
            return self.copied_rows(name, task.name)
        except RunDamaged:
            if (rows := self.instead(name, task)) is None:
                raise
            return rows

    def other_rows(self, name: str, task: str, write: WriteRows) -> Rows:  # noqa: ARG002 - the copy is all there is
        return self.copied_rows(name, task)

    def copied_rows(self, name: str, task: str) -> Rows:
        """As `rows`, where no more than the name of the task is known.

        Raises:
            UsageError: the run has no such copy.
            RunDamaged: the copy is gone, or its content is not what it was.
        """
        if name not in self._rows:
            self._rows[name] = self._open_copy(name, task)
        return self._rows[name]

    def _open_copy(self, name: str, task: str) -> Rows:
        saved = self._inputs.get(name)
        if saved is None:
            raise UsageError(f"The run has no copy of the dataset of the task {task!r}.")
        path = self._layout.inputs / saved.digest
        try:
            source = Path(saved.source).name or task
            return Rows.open(path, digest=saved.digest, source=source, cache=self._cache)
        except FileNotFoundError:
            raise RunDamaged(
                f"The run's copy of {saved.source or name} ({path}) is missing.", hint=_FROM_BACKUP
            ) from None
