"""The arguments of `evaluate` as a request for a run: checked before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.api.start import RunRequest
from holdfast.engine.events import Observer
from holdfast.engine.planning.selection import SelectionRequest
from holdfast.errors import UsageError
from holdfast.models.env_file import read_env_file
from holdfast.run.core.display_text import shell_word
from holdfast.run.core.records import STAGES
from holdfast.spec import EvalSpec, resolve, typed_eval
from holdfast.spec.code_reference import IN_MEMORY
from holdfast.spec.override import override
from holdfast.spec.schema.runner import RunnerSpec
from holdfast.suggestions import nearest_name
from holdfast.tasks.task import Task, TaskFactory

SOURCE = "evaluate()"
"""What errors call the arguments."""
_ARGUMENTS = ("run", "name", "epochs", "limit", "set", "reuse", "redo", "until", "observers", "progress")
_KEYS = {*EvalSpec.__struct_fields__, *RunnerSpec.__struct_fields__}
TasksGiven = Task | TaskFactory | Iterable[Task | TaskFactory]
ModelsGiven = Iterable[str] | Mapping[str, Any]
RunsGiven = str | Path | Iterable[str | Path]
ObserversGiven = Observer | Iterable[Observer]


@dataclass(frozen=True, kw_only=True)
class EvaluationArguments:
    """What `evaluate` was given."""

    tasks: TasksGiven
    models: ModelsGiven
    run: str | Path | None
    name: str
    epochs: int | None
    limit: int | None
    changes: Mapping[str, Any] | None
    """Values of single keys, by their paths."""
    reuse: RunsGiven
    redo: str | None
    """An expression: the trials that are attempted once more."""
    until: str
    """The stage after which trials are left for a later session."""
    observers: ObserversGiven
    settings: Mapping[str, Any]
    """Further keys of an eval file."""

    def request(self) -> RunRequest:
        """The run that is asked for; one that exists at its place is resumed.

        Raises:
            UsageError: an argument has a wrong type or value.
            ConfigurationError: a model or a setting is wrong.
        """
        warnings = read_env_file(Path.cwd())
        made, reuse, observers = tasks_by_name(self.tasks), self.reuse, self.observers
        return RunRequest(
            self._eval(made),
            str(self.run) if self.run is not None else None,
            or_resume=True,
            tasks=made,
            reuse=[str(other) for other in ([reuse] if isinstance(reuse, str | Path) else reuse)],
            source="Python",
            observers=[observers] if callable(observers) else list(observers),
            warnings=warnings,
            selection=SelectionRequest(
                redo=_checked_redo(self.redo), until=_checked_stage(self.until), option_prefix=""
            ),
        )

    def _eval(self, tasks: Mapping[str, Task]) -> EvalSpec:
        _check_arguments(self.settings)
        spec = typed_eval(self._plain_eval(tasks), SOURCE)
        if self.changes is not None:
            spec = override(spec, checked_changes(self.changes), SOURCE)
        return resolve(spec, SOURCE, leaves_models_open=True)

    def _plain_eval(self, tasks: Mapping[str, Task]) -> dict[str, Any]:
        """The same as the content of an eval file."""
        given = [self.models] if isinstance(self.models, str) else self.models
        sizes = {"epochs": _checked_count("epochs", self.epochs), "limit": _checked_count("limit", self.limit)}
        chosen: dict[str, Any] = {key: size for key, size in sizes.items() if size is not None}
        entries = {name: {"use": task.use or IN_MEMORY + name, "args": task.args} for name, task in tasks.items()}
        models = dict(given) if isinstance(given, Mapping) else {model: model for model in given}
        return {
            "name": self.name or "-".join(tasks)[:100],
            "directory": str(Path.cwd()),
            "models": models,
            "tasks": {name: {**entry, **chosen} for name, entry in entries.items()},
            **self.settings,
        }


def tasks_by_name(tasks: TasksGiven) -> dict[str, Task]:
    """The tasks under their names.

    Raises:
        UsageError: one is not a task, two have the same name, or no task is given.
    """
    given: list[object] = [tasks]
    if isinstance(tasks, Iterable) and not isinstance(given[0], str):
        given = list(tasks)
    made: dict[str, Task] = {}
    for item in given:
        task = item() if isinstance(item, TaskFactory) else item
        if not isinstance(task, Task):
            raise _not_a_task(task)
        name = task.name or "task"
        if name in made:
            raise UsageError(f"Two tasks are called {name!r}.", hint="Give one of them another name.")
        made[name] = task
    if not made:
        raise UsageError("evaluate() needs at least one task.", hint="Give a Task, or a list of them.")
    return made


def _not_a_task(given: object) -> UsageError:
    if isinstance(given, str | Path):
        file = Path(given)
        run = f"Run it with: holdfast run {shell_word(str(file))}" if file.suffix in {".yaml", ".yml"} else ""
        return UsageError(f"{str(given)!r} is a path, and not a task.", hint=run or "Import the task from its file.")
    return UsageError(f"{type(given).__name__} is not a task.", hint="Give what a function with @task returns.")


def _check_arguments(settings: Mapping[str, Any]) -> None:
    """Refuses a mistyped argument of `evaluate`; any other name is looked for among the keys of an eval file."""
    for name in settings:
        near = nearest_name(name, _ARGUMENTS, cutoff=0.7)
        if name not in _KEYS and near is not None:
            raise UsageError(f"evaluate() has no argument {name!r}.", hint=f"Did you mean {near!r}?")


def _checked_count(name: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{name} is {value!r}.", hint="Give a whole number of 1 or more.")
    return value


def _checked_stage(until: object) -> str:
    if until is None or until == "":
        return ""
    if until in STAGES:
        return str(until)
    raise UsageError(f"until is {until!r}.", hint=f"The stages are {', '.join(STAGES)}.")


def _checked_redo(redo: object) -> str | None:
    if redo is None or isinstance(redo, str):
        return redo
    raise UsageError(f"redo is {redo!r}.", hint="Give an expression, as in redo='status=failed'.")


def checked_changes(changes: object) -> dict[Any, Any]:
    """What `set` gives: the paths of keys, and their values.

    Raises:
        UsageError: it is not a map, or a path is not text.
    """
    example = 'As in set={"models.small.generation.temperature": 0}.'
    if not isinstance(changes, Mapping):
        raise UsageError(f"set is {type(changes).__name__}, and not a map from keys to values.", hint=example)
    for path in changes:
        if not isinstance(path, str):
            raise UsageError(f"set has the key {path!r}, which is not text.", hint=example)
    return dict(changes)
