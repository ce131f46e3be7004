"""A task: samples, a solver and scorers, and the function that makes it when it takes arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.spec import DatasetSpec, TrialLimits
from holdfast.tasks.datasets.columns import Columns
from holdfast.tasks.datasets.dataset import Dataset
from holdfast.tasks.datasets.rows import Rows
from holdfast.tasks.sample import Sample
from holdfast.tasks.scorers import Scorer, as_scorers
from holdfast.tasks.solver import AXIS, Generate
from holdfast.tasks.source.arguments import fit_arguments
from holdfast.tasks.source.digest import source_digest
from holdfast.tasks.trial import Solver


class Task(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What is asked and how it is judged; either samples or a dataset is given."""

    samples: Iterable[Sample] | None = None
    dataset: DatasetSpec | str | Path | None = None
    solve: Solver
    score: Any
    """One scorer or several: scorers, functions, or names of built-in scorers."""

    name: str = ""
    epochs: int = 1
    axes: dict[str, list[str]] = msgspec.field(default_factory=dict)
    system: str | None = None
    """Goes before every conversation of the task that does not begin with a system text of its own."""

    limits: TrialLimits | None = None
    shuffle_choices: int | None = None
    """A seed: every sample's choices are put in an order of that sample's own."""

    columns: Columns = Columns()
    limit: int | None = None
    args: dict[str, Any] = msgspec.field(default_factory=dict)
    """The arguments that the task was made with."""

    use: str = ""
    """How the task can be made again by another process: `file.py:name`; empty where it cannot."""

    def __post_init__(self) -> None:
        _check(self)
        settle = msgspec.structs.force_setattr
        settle(self, "score", as_scorers(self.score))
        settle(self, "dataset", _specified(self.dataset))
        if isinstance(self.solve, Generate) and self.solve.variants:
            settle(self, "axes", {**self.axes, AXIS: self.axes.get(AXIS, self.solve.variants)})
        if isinstance(self.dataset, DatasetSpec) and not self.columns.named:
            named = {str(part): column for part, column in self.dataset.fields.items()}
            settle(self, "columns", msgspec.structs.replace(self.columns, named=named))

    @property
    def scorers(self) -> tuple[Scorer, ...]:
        """The scorers, each with a name of its own."""
        scorers: tuple[Scorer, ...] = self.score
        return scorers

    @functools.cached_property
    def source(self) -> str:
        """The digest of the solver's source, taken once: a run works with the code it began with."""
        return source_digest(self.solve)

    def bind(self, rows: Rows, limit: int | None = None) -> Dataset:
        """The task's samples in the rows that its dataset, or its own samples, were ingested to."""
        operations = self.dataset.operations if isinstance(self.dataset, DatasetSpec) else []
        return Dataset(rows, self.columns, operations, self.limit if limit is None else limit, self.shuffle_choices)

    def check(self, dataset: Dataset) -> None:
        """Raise at the first sample that cannot be asked or judged, before anything is asked."""
        for position, sample in enumerate(dataset):
            self.check_sample(sample, dataset.place(position))

    def check_sample(self, sample: Sample, place: str) -> None:
        if isinstance(self.solve, Generate):
            self.solve.check(sample, place)
        for scorer in self.scorers:
            scorer.check(sample, place)

    def solver_identity(self, sample: Sample, axes: Mapping[str, str]) -> dict[str, Any]:
        """What a trial's answer depends on, apart from the model: the messages asked with, or the solver's source."""
        own = self.solve.identity(sample, axes) if isinstance(self.solve, Generate) else {"source": self.source}
        return {**own, "system": self.system, "args": self.args}


class TaskFactory:
    """A function that makes a task; called like the function, or with arguments that come as text."""

    def __init__(self, function: Callable[..., Task], name: str = "") -> None:
        self.function = function
        self.name = name or function.__name__
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__

    def __call__(self, *args: Any, **kwargs: Any) -> Task:
        made = self.function(*args, **kwargs)
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        return self._finished(made, bound.arguments)

    def build(self, given: Mapping[str, Any]) -> Task:
        """The task with arguments from an eval file or a command line, checked against the annotations."""
        arguments = fit_arguments(self.function, given, f"The task {self.name!r}")
        return self._finished(self.function(**arguments), arguments)

    def _reference(self) -> str:
        home = Path(self.function.__code__.co_filename)
        reachable = "." not in self.function.__qualname__ and home.suffix == ".py" and home.is_file()
        return f"{home.absolute()}:{self.function.__name__}" if reachable else ""

    def _finished(self, made: object, arguments: Mapping[str, Any]) -> Task:
        if not isinstance(made, Task):
            raise ConfigurationError(
                f"The task {self.name!r} returned {type(made).__name__}.", hint="Its function has to return a Task."
            )
        return msgspec.structs.replace(
            made,
            name=made.name or self.name,
            use=made.use or self._reference(),
            args=made.args or {name: value for name, value in arguments.items() if _recordable(value)},
            dataset=_beside(made.dataset, self.function),
        )


REGISTERED: dict[str, TaskFactory] = {}


def task(function: Callable[..., Task]) -> TaskFactory:
    """Make a task of a function that returns one: its name and its arguments are then known by name."""
    factory = TaskFactory(function)
    REGISTERED[factory.name] = factory
    return factory


def _check(made: Task) -> None:
    title = f"The task {made.name!r}" if made.name else "A task"
    if (made.samples is None) == (made.dataset is None):
        raise ConfigurationError(f"{title} needs samples or a dataset.", hint="Give exactly one of the two.")
    if not _solves(made.solve):
        name = getattr(made.solve, "__name__", type(made.solve).__name__)
        raise ConfigurationError(f"{title} cannot be solved by {name!r}.", hint="Give generate() or an async function.")
    if isinstance(made.epochs, bool) or not isinstance(made.epochs, int) or made.epochs < 1:
        raise ConfigurationError(f"{title} has {made.epochs!r} epochs.", hint="Give 1 or more.")


def _solves(given: object) -> bool:
    """Whether it can be awaited with a trial; of an object that is called, only that is known."""
    if isinstance(given, FunctionType):
        return inspect.iscoroutinefunction(inspect.unwrap(given))
    return callable(given) and not isinstance(given, type)


def _specified(dataset: object) -> DatasetSpec | None:
    if dataset is None or isinstance(dataset, DatasetSpec):
        return dataset
    if isinstance(dataset, str | Path):
        return DatasetSpec(path=str(dataset))
    raise ConfigurationError(
        f"A task's dataset cannot be {type(dataset).__name__}.", hint="Give a path, or samples as samples=[...]."
    )


def _beside(dataset: DatasetSpec | str | Path | None, function: Callable[..., Any]) -> DatasetSpec | None:
    """The dataset with its path taken from the file that defines the task; from here where there is no such file."""
    if not isinstance(dataset, DatasetSpec) or "://" in dataset.path:
        return _specified(dataset)
    code = getattr(inspect.unwrap(function), "__code__", None)
    home = Path(code.co_filename if code else "")
    path = home.parent / dataset.path if home.is_file() else Path(dataset.path)
    return msgspec.structs.replace(dataset, path=str(path.absolute()))


def _recordable(value: object) -> bool:
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
