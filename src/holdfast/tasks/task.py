"""A task: samples, a solver and scorers, and the function that makes it when it takes arguments."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sized
from pathlib import Path
from types import FunctionType
from typing import Any, ClassVar, TypedDict, Unpack, overload

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.run.core.records import SAMPLING_ROOT, SCORER_ROOT, SOLVER_ROOT, TOOLS_ROOT
from holdfast.spec import DatasetSpec, TrialLimits
from holdfast.spec.grid import Combination, combinations
from holdfast.spec.loading.error_messages import URL_DATASET
from holdfast.suggestions import did_you_mean
from holdfast.tasks.choices import prompt_text
from holdfast.tasks.datasets.columns import Columns
from holdfast.tasks.datasets.dataset import Dataset
from holdfast.tasks.datasets.row_file import Rows
from holdfast.tasks.grid.axis_grid import NOTHING_CHOSEN, AxisGrid, Chosen
from holdfast.tasks.sample import Sample
from holdfast.tasks.scorers.base import BuiltIn, Scorer
from holdfast.tasks.scorers.registry import as_scorers
from holdfast.tasks.solver import AXIS, Generate, generate
from holdfast.tasks.source.values.taken_code import NO_CODE, TakenCode
from holdfast.tasks.stages import is_staged
from holdfast.tasks.template import MissingField, Template
from holdfast.tasks.trial_interface import Solver
from holdfast.terminal.text import quantity


def _own_part(scorer: Scorer) -> object:
    """What is a person's own in a scorer that is not built in."""
    from holdfast.tasks.scorers.function import FunctionScorer  # noqa: PLC0415 - most scorers are built in

    return scorer.function if isinstance(scorer, FunctionScorer) else scorer


class TaskOptions(TypedDict, total=False):
    """What a task may be given beside its solver and its scorers."""

    samples: Iterable[Sample] | None
    dataset: DatasetSpec | Mapping[str, Any] | str | Path | None
    name: str
    epochs: int
    axes: dict[str, list[str]]
    system: str | None
    limits: TrialLimits | None
    max_iterations: int | None
    shuffle_choices: int | None
    columns: Columns
    limit: int | None
    args: dict[str, Any]
    use: str
    grid: AxisGrid | None


FORMER_KEYWORDS = {"solve": "solver", "score": "scorers"}
"""Keywords of earlier versions, which are still accepted, and the names they have now."""


def _default_of(field: dataclasses.Field[Any]) -> Any:
    """The default of a field, as a signature shows it."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default


@dataclasses.dataclass(frozen=True, kw_only=True, init=False, repr=False)
class Task:
    """Samples, a solver and scorers; give either samples or a dataset."""

    later_fields: ClassVar[frozenset[str]] = frozenset({"grid", "max_iterations"})
    """Fields that are newer than the first digests of code: they count in them only where they are used."""

    samples: Iterable[Sample] | None = None
    dataset: DatasetSpec | None = None
    """Given as a path too, or as a map with the keys of a dataset in an eval file."""

    solver: Solver = dataclasses.field(default_factory=generate)
    scorers: tuple[Scorer, ...]
    """Given as one scorer or several: scorers, functions, or names of built-in scorers."""

    name: str = ""
    epochs: int = 1
    axes: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    system: str | None = None
    """Goes before every conversation of the task that does not begin with a system text of its own."""

    limits: TrialLimits | None = None
    max_iterations: int | None = None
    """How many calls of the model a solver may make in one attempt; a trial that wants more ends as limited."""

    shuffle_choices: int | None = None
    """A seed: every sample's choices are put in an order of that sample's own."""

    columns: Columns = dataclasses.field(default_factory=Columns)
    limit: int | None = None
    args: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The arguments that the task was made with."""

    use: str = ""
    """How the task can be made again by another process: `file.py:name`; empty where it cannot."""

    grid: AxisGrid | None = None
    """What an eval file says of the axes: what is special about each value, and which combinations are run."""

    @overload
    def __init__(self, *, solver: Solver = ..., scorers: object, **options: Unpack[TaskOptions]) -> None: ...
    @overload
    def __init__(self, *, solve: Solver = ..., score: object, **options: Unpack[TaskOptions]) -> None: ...
    def __init__(self, **given: Any) -> None:
        # Written by hand for the sake of the former keywords, which a generated one would refuse.
        values = _task_values(given)
        _check_values(values)
        values["scorers"] = as_scorers(values["scorers"])
        values["dataset"] = dataset = _as_dataset_spec(values["dataset"])
        values["axes"] = _with_prompt_axis(values["axes"], values["solver"])
        if dataset is not None and not values["columns"].named:
            values["columns"] = msgspec.structs.replace(values["columns"], named=_named_columns(dataset))
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        scorers = ", ".join(scorer.name for scorer in self.scorers)
        solver = getattr(self.solver, "__name__", type(self.solver).__name__)
        more = "".join(f", {name}={getattr(self, name)!r}" for name in ("epochs", "limit") if _is_set(self, name))
        axes = f", axes={list(self.axes)}" if self.axes else ""
        return f"<Task {self.name!r}: {_data_text(self)}, solver={solver}, scorers=[{scorers}]{more}{axes}>"

    @property
    def solve(self) -> Solver:
        """The solver, under its former name: code of earlier runs reads it."""
        return self.solver

    @property
    def score(self) -> tuple[Scorer, ...]:
        """The scorers, under their former name."""
        return self.scorers

    @functools.cached_property
    def source(self) -> str:
        """The digest of the solver's source, taken once: a run works with the code it began with."""
        from holdfast.tasks.source.digest import source_digest  # noqa: PLC0415 - only runs of an earlier version

        return source_digest(self.solver)

    @functools.cached_property
    def taken(self) -> TakenCode:
        """Everything that the person's own code in the task reaches, taken once."""
        roots = self._code_roots()
        if not roots:
            return NO_CODE
        from holdfast.tasks.source.values.code_tree import take_code  # noqa: PLC0415 - most commands compare no code

        return take_code(roots)

    def resized(self, **sizes: Any) -> Task:
        """The same task, which asks for more or less; its code is the same, and is not taken again."""
        made = dataclasses.replace(self, **sizes)
        if "taken" in vars(self):
            vars(made)["taken"] = self.taken
        return made

    def _code_roots(self) -> dict[str, object]:
        """The parts of the task that are a person's own, by the names that they have in the tree."""
        parts: dict[str, object] = {}
        if not isinstance(self.solver, Generate):
            parts[SOLVER_ROOT] = self.solver
        elif self.solver.own_parts:
            parts[TOOLS_ROOT if self.solver.tool_identity() else SAMPLING_ROOT] = self.solver.own_parts
        for scorer in self.scorers:
            if not isinstance(scorer, BuiltIn):
                parts[f"{SCORER_ROOT}{scorer.name}"] = _own_part(scorer)
        return parts

    def bind(self, rows: Rows, limit: int | None = None) -> Dataset:
        """The task's samples in the rows that its dataset, or its own samples, were ingested to."""
        operations = self.dataset.operations if self.dataset is not None else []
        limit = self.limit if limit is None else limit
        return Dataset(rows, self.bound_columns(), operations, limit, self.shuffle_choices)

    def bind_all(self, rows: Rows) -> Dataset:
        """Every sample that can be chosen from the rows, under the key that it is chosen with."""
        operations = self.dataset.operations if self.dataset is not None else []
        # Of all operations only these give keys.
        repeats = [operation for operation in operations if operation.repeat]
        return Dataset(rows, self.bound_columns(), repeats, None, self.shuffle_choices)

    def bound_columns(self) -> Columns:
        """The columns, where a prompt may make do without an input.

        Not a part of the task itself: a task in the closure of a solver counts in that solver's digest.
        """
        if self.dataset is None or self.columns.stand_in is not None or not isinstance(self.solver, Generate):
            return self.columns
        return msgspec.structs.replace(self.columns, stand_in=stand_in_of(self))

    def used_paths(self) -> tuple[str, ...] | None:
        """The parts of a row that its answer depends on; None where code may look at all of the row."""
        solver, operations = self.solver, self.dataset.operations if self.dataset is not None else []
        if not isinstance(solver, Generate) or solver.is_sampled or self.dataset is None:
            return None
        if not all(isinstance(scorer, BuiltIn) for scorer in self.scorers):
            return None
        named = {path for template in (*templates_of(self), *self.columns.options) for path in template.paths}
        named |= {operation.filter.field for operation in operations if operation.filter is not None}
        if self.bound_columns().stand_in is None:
            named.add("input")
        return tuple(sorted(map(self.columns.column, {*named, "choices"})))

    def check(self, dataset: Dataset, on_sample: Callable[[Sample, str], None] | None = None) -> None:
        """Raise at the first sample that cannot be asked or judged, before anything is asked.

        `on_sample` is called with each sample that is looked at, and its place.
        """
        # What only depends on the types of a row's values is the same for all rows of the same types.
        situations = self.checked_situations()
        by_type = all(getattr(scorer, "checks_types_only", False) for scorer in self.scorers)
        for position in dataset.positions_of_distinct_types() if by_type else range(len(dataset)):
            try:
                sample, place = dataset[position], dataset.place(position)
                self.check_sample(sample, place, situations)
            except MissingField as error:
                raise error.of_row(dataset.row(position)) from None
            if on_sample is not None:
                on_sample(sample, place)

    def check_sample(
        self, sample: Sample, place: str, situations: Iterable[tuple[Combination, Chosen]] | None = None
    ) -> None:
        """The same of one sample; `situations` are those of `checked_situations`, if they are known."""
        for axes, chosen in self.checked_situations() if situations is None else situations:
            solver = self.solver_at(axes, chosen)
            if isinstance(solver, Generate):
                solver.messages(sample, axes, place)
            else:
                self.sample_at(sample, axes, chosen, place)
        for scorer in self.scorers:
            scorer.check(sample, place)

    def solver_identity(
        self, sample: Sample, axes: Mapping[str, str], chosen: Chosen = NOTHING_CHOSEN
    ) -> dict[str, Any]:
        """What a trial's answer depends on, apart from the model: the messages asked with, or the solver's source."""
        solver = self.solver_at(axes, chosen)
        own = solver.identity(sample, axes) if isinstance(solver, Generate) else {"source": self.source}
        return {**own, "system": self.system, "args": self.args}

    # Trials that differ by their values on axes.

    def combinations(self) -> tuple[Combination, ...]:
        """Every combination of axis values that is run."""
        return combinations(self.axes) if self.grid is None else self.grid.combinations(self.axes)

    def solver_at(self, axes: Combination, chosen: Chosen = NOTHING_CHOSEN) -> Solver:
        """The solver of a trial: it asks with the texts that its axis values give."""
        if self.grid is None or not isinstance(self.solver, Generate):
            return self.solver
        return self.grid.solver_at(self.solver, axes, chosen)

    def sample_at(
        self, sample: Sample, axes: Combination, chosen: Chosen = NOTHING_CHOSEN, place: str = "the sample"
    ) -> Sample:
        """The sample of a trial with a solver of one's own: its input is the prompt that its axis values give."""
        if self.grid is None or isinstance(self.solver, Generate):
            return sample
        prompt = self.grid.prompt_at(axes, chosen) or self.grid.prompt
        return sample if prompt is None else prompted(sample, prompt, place, axes)

    def system_at(self, axes: Combination, chosen: Chosen = NOTHING_CHOSEN) -> str | None:
        """The system text that goes before a conversation of a trial which has none of its own."""
        given = None if self.grid is None else self.grid.system_at(axes, chosen)
        return self.system if given is None or isinstance(self.solver, Generate) else given.text

    def checked_situations(self) -> list[tuple[Combination, Chosen]]:
        """A combination for each text that trials may ask with."""
        if not isinstance(self.solver, Generate) and (self.grid is None or not self.grid.has_prompts):
            return []
        if isinstance(self.solver, Generate) and not self.axes.keys() - {AXIS}:
            return [({AXIS: variant}, NOTHING_CHOSEN) for variant in self.solver.prompts]
        found: dict[object, tuple[Combination, Chosen]] = {}
        for axes, chosen in self.situations():
            found.setdefault(self._asking(axes, chosen), (axes, chosen))
        return list(found.values())

    def situations(self) -> Iterable[tuple[Combination, Chosen]]:
        """Every combination, and for one that depends on others, each choice that may be made for it."""
        if self.grid is None:
            return ((axes, NOTHING_CHOSEN) for axes in combinations(self.axes))
        return self.grid.situations(self.axes)

    def _asking(self, axes: Combination, chosen: Chosen) -> object:
        """What is the same for combinations that ask with the same texts."""
        prompt = None if self.grid is None else self.grid.prompt_at(axes, chosen)
        return id(self.solver_at(axes, chosen)), axes.get(AXIS), None if prompt is None else prompt.text


def templates_of(task: Task) -> list[Template]:
    """Every text that is made from the fields of a sample, of a task that asks with prompts; axes are no fields."""
    solvers = {id(solver): solver for solver in (task.solver_at(*at) for at in task.situations())}
    found = [text for solver in solvers.values() if isinstance(solver, Generate) for text in solver.templates]
    return [text.without("axes") for text in found] if task.axes else found


def stand_in_of(task: Task) -> Template | None:
    """What the input of a sample is when no text asks for it: the first prompt."""
    texts = templates_of(task)
    return None if any(text.names("input") for text in texts) else next(iter(texts), None)


def prompted(sample: Sample, prompt: Template, place: str, axes: Combination) -> Sample:
    """A sample whose input is a prompt made from it.

    Raises:
        ConfigurationError: its input is a conversation, or a field does not exist.
    """
    if isinstance(sample.input, list) and prompt.names("input"):
        raise ConfigurationError(
            f"The input of {place} is a list of messages, which the {prompt.where} cannot be made from.",
            hint="Leave the prompt out, or give the input as a text.",
        )
    return msgspec.structs.replace(sample, input=prompt_text(prompt, sample, place, axes))


def _data_text(task: Task) -> str:
    if task.dataset is not None:
        return f"dataset={task.dataset.path!r}"
    return quantity(len(task.samples), "sample") if isinstance(task.samples, Sized) else "samples"


def _is_set(task: Task, name: str) -> bool:
    return getattr(task, name) not in {None, 1}


# For help() and notebooks: what is written by hand takes anything, and says nothing.
Task.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=_default_of(field), annotation=field.type)
        for field in dataclasses.fields(Task)
    ]
)


class TaskFactory:
    """A function that makes a task; called like the function, or with arguments that come as text."""

    def __init__(self, function: Callable[..., Task], name: str = "") -> None:
        self.function = function
        self.name = name or function.__name__
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__

    def __repr__(self) -> str:
        parameters = inspect.signature(self.function).parameters.values()
        plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
        return f"<task {self.name}{inspect.Signature(plain)}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Task:
        made = self.function(*args, **kwargs)
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        return self._finished(made, bound.arguments)

    def build(self, given: Mapping[str, Any]) -> Task:
        """The task with arguments from an eval file or a command line, checked against the annotations."""
        from holdfast.tasks.source.arguments import fit_arguments  # noqa: PLC0415 - most tasks are not in Python

        arguments = fit_arguments(self.function, given, f"The task {self.name!r}")
        return self._finished(self.function(**arguments), arguments)

    def _reference(self) -> str:
        home = Path(self.function.__code__.co_filename)
        reachable = "." not in self.function.__qualname__ and home.suffix == ".py" and home.is_file()
        return f"{home.absolute()}:{self.function.__name__}" if reachable else ""

    def _finished(self, made: object, arguments: Mapping[str, Any]) -> Task:
        if not isinstance(made, Task):
            raise ConfigurationError(
                f"The task {self.name!r} returned {type(made).__name__}.", hint="The function must return a Task."
            )
        return dataclasses.replace(
            made,
            name=made.name or self.name,
            use=made.use or self._reference(),
            args=made.args or {name: value for name, value in arguments.items() if _is_encodable(value)},
            dataset=_beside_function(made.dataset, self.function),
        )


REGISTERED: dict[str, TaskFactory] = {}


def task(function: Callable[..., Task]) -> TaskFactory:
    """Registers a function that returns a task, so that it can be found by its name and called with arguments."""
    factory = TaskFactory(function)
    REGISTERED[factory.name] = factory
    return factory


def _task_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Every field of a task: what was given, by the names of today, and the defaults of the others."""
    renamed = {FORMER_KEYWORDS.get(keyword, keyword): value for keyword, value in given.items()}
    fields = {field.name: field for field in dataclasses.fields(Task)}
    for keyword in renamed:
        if keyword not in fields:
            near = did_you_mean(keyword, fields) or f"It takes {', '.join(fields)}."
            raise TypeError(f"Task() got an unexpected keyword argument {keyword!r}. {near}")
    for former, present in FORMER_KEYWORDS.items():
        if former in given and present in given:
            raise ConfigurationError(
                f"A task is given both {present} and {former}, which is the former name of {present}.",
                hint=f"Keep {present}.",
            )
    return {name: renamed[name] if name in renamed else _default(field) for name, field in fields.items()}


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    if field.default is dataclasses.MISSING:
        raise TypeError(f"Task() is missing the argument {field.name!r}, as in {field.name}=exact().")
    return field.default


def _check_values(values: Mapping[str, Any]) -> None:
    title = f"The task {values['name']!r}" if values["name"] else "A task"
    if (values["samples"] is None) == (values["dataset"] is None):
        raise ConfigurationError(f"{title} needs samples or a dataset.", hint="Give exactly one of the two.")
    solver, epochs = values["solver"], values["epochs"]
    if not _solves(solver):
        name = getattr(solver, "__name__", type(solver).__name__)
        raise ConfigurationError(
            f"{title} cannot use {name!r} as its solver.", hint="Give generate(...), or a function with `async def`."
        )
    if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1:
        raise ConfigurationError(f"{title} has {epochs!r} epochs.", hint="Give 1 or more.")
    _check_iterations(title, values["max_iterations"])
    _check_axes(title, values["axes"])


def _check_iterations(title: str, given: object) -> None:
    is_count = isinstance(given, int) and not isinstance(given, bool) and given >= 1
    if given is not None and not is_count:
        raise ConfigurationError(f"{title} has max_iterations={given!r}.", hint="Give 1 or more, or leave it out.")


def _check_axes(title: str, axes: object) -> None:
    if not isinstance(axes, Mapping):
        raise ConfigurationError(
            f"The axes of {title.lower()} are not a map.", hint='As in axes={"tier": ["T0", "T1"]}.'
        )
    for axis, values in axes.items():
        is_list = isinstance(values, list | tuple) and len(values) > 0
        if not isinstance(axis, str) or not is_list or not all(isinstance(value, str) for value in values):
            raise ConfigurationError(
                f"{title} has an axis {axis!r} with the values {values!r}.",
                hint='An axis is a name with one or more values, all of them text: axes={"tier": ["T0", "T1"]}.',
            )


def _solves(given: object) -> bool:
    """Whether it can be awaited with a trial; of an object that is called, only that is known."""
    if isinstance(given, FunctionType):
        return inspect.iscoroutinefunction(inspect.unwrap(given))
    return (callable(given) or is_staged(given)) and not isinstance(given, type)


def _with_prompt_axis(axes: dict[str, list[str]], solver: object) -> dict[str, list[str]]:
    """The axes of a task; the variants of a solver's prompt are one, unless the task says which of them."""
    variants = solver.variants if isinstance(solver, Generate) else []
    return {**axes, AXIS: axes.get(AXIS, variants)} if variants else axes


def _named_columns(dataset: DatasetSpec) -> dict[str, str]:
    return {str(part): column for part, column in dataset.fields.items()}


def _as_dataset_spec(dataset: object) -> DatasetSpec | None:
    if isinstance(dataset, str) and "://" in dataset:
        raise ConfigurationError(f"The dataset is {dataset!r}; {URL_DATASET}.")
    if dataset is None or isinstance(dataset, DatasetSpec):
        return dataset
    if isinstance(dataset, str | Path):
        return DatasetSpec(path=str(dataset))
    if not isinstance(dataset, Mapping):
        raise ConfigurationError(
            f"A task's dataset cannot be {type(dataset).__name__}.", hint="Give a path, or samples as samples=[...]."
        )
    try:
        plain = {key: str(value) if isinstance(value, Path) else value for key, value in dataset.items()}
        return msgspec.convert(plain, DatasetSpec)
    except (msgspec.ValidationError, ConfigurationError) as error:
        raise ConfigurationError(
            f"A task's dataset is wrong: {error}.",
            hint='As in dataset={"path": "rows.csv", "fields": {"input": "question", "target": "answer"}}.',
        ) from None


def _beside_function(dataset: DatasetSpec | None, function: Callable[..., Any]) -> DatasetSpec | None:
    """The dataset with its path taken from the file that defines the task; from here where there is no such file.

    For code that is loaded from a run's copy, that is the file which was copied.
    """
    if dataset is None or "://" in dataset.path:
        return dataset
    code = getattr(inspect.unwrap(function), "__code__", None)
    home = Path(code.co_filename if code else "")
    from holdfast.tasks.source.unpacked_copies import original_path  # noqa: PLC0415 - as above

    path = original_path(home).parent / dataset.path if home.is_file() else Path(dataset.path)
    return msgspec.structs.replace(dataset, path=str(path.absolute()))


def _is_encodable(value: object) -> bool:
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
