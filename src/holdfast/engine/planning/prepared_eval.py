"""From an eval to a plan: tasks are built, datasets taken in, and every trial gets its place.

A new run takes its datasets from where the eval says they are; a resumed one from the copies in the run, and from
nowhere else. Either way the rest is the same code.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from holdfast.engine.planning.plan import PlannedTask, axis_values
from holdfast.errors import ConfigurationError, RunDamaged, UsageError
from holdfast.models.provider import Provider, open_provider
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import Input
from holdfast.spec import DatasetSpec, EvalSpec, TaskSpec, TrialLimits
from holdfast.tasks import Rows, Task, adapt_task, build_task, ingest, ingest_samples, load_use, source_files
from holdfast.tasks.datasets.derived_cache import DerivedCache
from holdfast.tasks.datasets.identity import digest
from holdfast.tasks.datasets.ingest import canonical_json

T = TypeVar("T")
IN_MEMORY = "python:"
"""How a task that lives only in a Python process is referred to in a run's configuration."""


class Inputs(Protocol):
    """Where the rows of a dataset come from."""

    def rows(self, name: str, task: Task) -> Rows:
        """The rows of the input `name`, which `task` asks about."""

    def is_new(self, name: str) -> bool:
        """Whether its samples have not been checked before."""


class FreshInputs:
    """Takes datasets in from where they are; the canonical files wait in a temporary directory to be copied into the
    run.
    """

    def __init__(self) -> None:
        self._spool = tempfile.TemporaryDirectory(prefix="holdfast-")
        self._shelf = DerivedCache()
        self.files: dict[str, Path] = {}
        self._rows: dict[str, Rows] = {}

    def rows(self, name: str, task: Task) -> Rows:
        if name not in self._rows:
            path = Path(self._spool.name) / f"{len(self.files)}.jsonl"
            with path.open("wb") as stream:
                if isinstance(task.dataset, DatasetSpec):
                    ingest(Path(task.dataset.path), task.dataset.format, stream)
                else:
                    ingest_samples(task.samples or [], stream, f"samples of the task {task.name!r}")
            self.files[name] = path
            source = Path(task.dataset.path).name if isinstance(task.dataset, DatasetSpec) else task.name
            self._rows[name] = Rows.open(path, source=source, shelf=self._shelf)
        return self._rows[name]

    def is_new(self, name: str) -> bool:  # noqa: ARG002 - all are
        return True

    def keep(self, layout: Layout) -> None:
        """Leaves in the run, which this session holds, what was worked out about the rows."""
        self._shelf.keep(layout.shelf)

    def put_behind(self, name: str, saved: Rows, task: Task) -> None:
        """Puts the rows of the input `name` that a saved one does not have behind the rows of that one."""
        fresh, path = self._rows[name], self.files[name].with_suffix(".merged")
        seen = Counter(_identity(row, task) for row in saved)
        with path.open("wb") as stream:
            stream.writelines(canonical_json(row) + b"\n" for row in saved)
            for row in fresh:
                if seen[_identity(row, task)] > 0:
                    seen[_identity(row, task)] -= 1
                else:
                    stream.write(canonical_json(row) + b"\n")
        self.files[name] = path
        self._rows[name] = Rows.open(path, source=fresh.source, shelf=self._shelf)

    def close(self) -> None:
        self._spool.cleanup()


def _identity(row: Mapping[str, Any], task: Task) -> tuple[str, bytes]:
    """What makes a row the same one in two files: its id or, where it has none, all that it holds."""
    given = task.columns.sample_id(row, task.name)
    return (given, b"") if given is not None else ("", digest(canonical_json(row)))


class SavedInputs:
    """The copies in a run."""

    def __init__(self, layout: Layout, inputs: Mapping[str, Input]) -> None:
        self._layout, self._inputs = layout, inputs
        self._shelf = DerivedCache(layout.shelf)
        self._rows: dict[str, Rows] = {}

    def has(self, name: str) -> bool:
        return name in self._inputs

    def is_new(self, name: str) -> bool:  # noqa: ARG002 - none is
        return False

    def keep(self, layout: Layout) -> None:
        self._shelf.keep(layout.shelf)

    def rows(self, name: str, task: Task) -> Rows:
        if name not in self._rows:
            self._rows[name] = self._open(name, task)
        return self._rows[name]

    def _open(self, name: str, task: Task) -> Rows:
        saved = self._inputs.get(name)
        if saved is None:
            raise UsageError(f"The run has no copy of the dataset of the task {task.name!r}.")
        path = self._layout.inputs / saved.digest
        try:
            source = Path(saved.source).name or task.name
            return Rows.open(path, digest=saved.digest, source=source, shelf=self._shelf)
        except FileNotFoundError:
            raise RunDamaged(
                f"The run's copy of {saved.source or name} ({path}) is gone.", hint="Bring it back from a backup."
            ) from None


class Prepared:
    """An eval, ready to be carried out."""

    def __init__(self, spec: EvalSpec, tasks: list[PlannedTask], inputs: Inputs) -> None:
        self.spec, self.tasks, self.inputs = spec, tasks, inputs
        self.providers: dict[str, Provider] = {}

    @property
    def planned(self) -> int:
        return sum(task.planned for task in self.tasks)

    def open_models(self) -> None:
        """Opens the provider of every model that a task asks; they connect when they are first asked.

        Raises:
            ConfigurationError: a provider is not there, or lacks something, such as its key.
        """
        for name in sorted({name for task in self.tasks for name in task.models}):
            if name not in self.providers:
                self.providers[name] = open_provider(self.spec.models[name])


def prepare(spec: EvalSpec, inputs: Inputs, given: Mapping[str, Task] | None = None) -> Prepared:
    """Builds every task of a resolved eval and plans its trials; `given` are tasks that already exist in this process.

    Raises:
        ConfigurationError: a task or a dataset is wrong.
    """
    tasks = [_plan(name, entry, spec, inputs, (given or {}).get(name)) for name, entry in spec.tasks.items()]
    return Prepared(spec, tasks, inputs)


def _plan(name: str, entry: TaskSpec, spec: EvalSpec, inputs: Inputs, given: Task | None) -> PlannedTask:
    task = build(name, entry, spec, given)
    dataset = task.bind(inputs.rows(input_name(name, entry), task), entry.limit)
    if entry.sample_ids:
        dataset.only(entry.sample_ids)
    if inputs.is_new(input_name(name, entry)):
        task.check(dataset)
    if not len(dataset):
        raise ConfigurationError(
            f"The task {name!r} has no sample left after its operations.", hint="Look at its filters and slices."
        )
    return PlannedTask(
        name=name,
        task=task,
        dataset=dataset,
        models=tuple(entry.models or spec.models),
        axes=axis_values(task.axes),
        epochs=task.epochs,
        limits=task.limits or TrialLimits(),
        max_retries=_or(entry.runner.max_retries, spec.runner.max_retries),
        retry_deadline=_or(entry.runner.retry_deadline, spec.runner.retry_deadline),
        source=input_name(name, entry),
    )


def _or(own: T | None, common: T) -> T:
    return common if own is None else own


def input_name(task: str, entry: TaskSpec) -> str:
    """The name of the copy of a task's rows; tasks that ask about the same dataset share it."""
    return f"datasets/{entry.dataset}" if entry.dataset else f"tasks/{task}"


def build(name: str, entry: TaskSpec, spec: EvalSpec, given: Task | None) -> Task:
    """The task that an entry of the eval describes, or `given` under the entry's settings.

    Raises:
        ConfigurationError: it cannot be built.
    """
    if given is not None:
        return adapt_task(name, entry, given)
    if entry.use is None:
        return build_task(name, entry, spec.datasets[entry.dataset or ""])
    if entry.use.startswith(IN_MEMORY):
        raise UsageError(
            f"The task {name!r} was defined in a Python process and is in no file.",
            hint="Go on from Python: holdfast.evaluate(..., run=PATH).",
        )
    return adapt_task(name, entry, load_use(entry.use, Path(spec.directory or "."), entry.args))


def source_inputs(prepared: Prepared) -> dict[str, Path]:
    """The Python files that the tasks come from, by the name of their copy."""
    files: dict[str, Path] = {}
    for planned in prepared.tasks:
        for item in (planned.task.solve, *planned.task.scorers):
            for path in source_files(item):
                files[f"sources/{planned.name}/{path.name}"] = path
    return files
