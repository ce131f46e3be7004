"""A task from an eval file: a dataset, a prompt or a solver, and scorers; or settings for a Python task."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.run.core.records import RowReading, TaskCode
from holdfast.spec import DatasetSpec, EvalSpec, Operation, TaskSpec, TrialLimits
from holdfast.spec.grid import declared_axes, joined_axes
from holdfast.spec.grid_problems import dependency_problems, filter_problems
from holdfast.spec.loading.error_messages import key_path
from holdfast.tasks.datasets.columns import Columns, PromptedColumns
from holdfast.tasks.grid.axis_grid import AxisGrid, grid_of_entry
from holdfast.tasks.scorers.base import Scorer
from holdfast.tasks.scorers.registry import as_scorers, build_scorer
from holdfast.tasks.solver import Generate, generate
from holdfast.tasks.task import Task, stand_in_of, templates_of
from holdfast.tasks.template import Template
from holdfast.tasks.trial_interface import Solver

if TYPE_CHECKING:
    from holdfast.tasks.source.code_files import CodeBase


def build_task(name: str, spec: TaskSpec, dataset: DatasetSpec, base: CodeBase = Path()) -> Task:
    """The task that a declarative entry of `tasks` describes; `dataset` is the entry that it names.

    Raises:
        ConfigurationError: something in it is wrong, or its solver or a scorer cannot be loaded from below `base`.
    """
    scorers = declared_scorers(name, spec, base)
    if not scorers:
        raise ConfigurationError(f"{key_path('tasks', name)} has no scorers.", hint="Give scorers, such as [exact].")
    task = dataclasses.replace(declared_samples(name, spec, dataset), scorers=scorers)
    if spec.tools:
        return dataclasses.replace(task, solver=_tool_solver(name, spec, task.solver, base))
    if spec.agent is not None:
        return with_agent(task, spec)
    if spec.solver is None:
        return task
    from holdfast.tasks.task_reference import load_solver  # noqa: PLC0415 - most tasks have a prompt

    solver = load_solver(spec.solver, f"tasks.{name}.solver", base)
    return dataclasses.replace(task, solver=solver, system=spec.system)


def with_agent(task: Task, spec: TaskSpec) -> Task:
    """The task whose prompts the agent of its entry works on."""
    if spec.agent is None or not isinstance(task.solver, Generate):
        return task
    from holdfast.tasks.agents.command_agent import agent_solver  # noqa: PLC0415 - most tasks have no agent

    return dataclasses.replace(task, solver=agent_solver(task.solver, spec.agent, spec.workspace))


def _tool_solver(name: str, spec: TaskSpec, asking: Solver, base: CodeBase) -> Solver:
    """The prompt of a task, asked with the tools that it names."""
    # Most tasks have none.
    from holdfast.tasks.source.object_reference import load_object  # noqa: PLC0415
    from holdfast.tasks.tools.agent import declared_max_turns, make_agent  # noqa: PLC0415

    place = f"{key_path('tasks', name)}.tools"
    if spec.solver is not None or not isinstance(asking, Generate):
        raise ConfigurationError(
            f"{place}: a solver of your own offers its tools itself.",
            hint="Leave out solver, or tools: trial.generate(…, tools=[…]).",
        )
    try:
        tools = [load_object(reference, base, "tool") for reference in spec.tools]
        return make_agent(asking, tools, max_turns=declared_max_turns(spec.max_iterations))
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error.message}", hint=error.hint) from None


def declared_samples(name: str, spec: TaskSpec, dataset: DatasetSpec) -> Task:
    """A declarative task as far as its samples are concerned: code that it names is not loaded."""
    task = Task(
        name=name,
        dataset=dataset,
        solver=_prompt_solver(name, spec),
        scorers=(),
        epochs=spec.epochs or 1,
        axes=declared_axes(spec),
        limits=spec.limits,
        max_iterations=spec.max_iterations,
        limit=spec.limit,
        grid=_declared_grid(name, spec),
    )
    return dataclasses.replace(task, columns=_columns(name, spec, dataset, task))


def _declared_grid(name: str, spec: TaskSpec) -> AxisGrid | None:
    """What an entry says of its axes; with its prompt, where a solver of one's own gets another one for each trial."""
    grid = grid_of_entry(spec)
    if grid is None or spec.solver is None or not isinstance(spec.prompt, str):
        return grid
    prompt = Template.parse(spec.prompt, f"prompt of the task {name!r}")
    return grid_of_entry(spec, prompt) if grid.has_prompts or prompt.names("axes") else grid


def recorded_samples(name: str, reading: RowReading) -> Task:
    """A task in Python as far as its samples are concerned, as a run has recorded it: its code is not loaded.

    Raises:
        ConfigurationError: the record cannot be understood.
    """
    try:
        operations = msgspec.convert(reading.operations, list[Operation])
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"The operations that the run has recorded cannot be read: {error}") from None
    columns = Columns(
        named=reading.columns,
        target=None if reading.target is None else Template.parse(reading.target, f"target of the task {name!r}"),
        options=tuple(Template.parse(option, f"list of choices of the task {name!r}") for option in reading.options),
        asked=tuple(reading.asked),
        stand_in=None if reading.stand_in is None else Template.parse(reading.stand_in, f"prompt of the task {name!r}"),
        key_paths=_recorded_key_paths(reading),
    )
    return Task(
        name=name,
        dataset=DatasetSpec(path="", operations=operations),
        solver=generate("{input}"),
        scorers=(),
        columns=columns,
        shuffle_choices=reading.shuffle_choices,
    )


def samples_on_record(name: str, spec: EvalSpec, code: TaskCode | None) -> Task | None:
    """A task of a session as far as its samples are concerned; None where nothing but its code says how rows are read.

    Raises:
        ConfigurationError: the record cannot be understood.
    """
    entry, reading = spec.tasks[name], code.rows if code is not None else None
    if entry.use is not None:
        return None if reading is None else recorded_samples(name, reading)
    task = declared_samples(name, entry, spec.datasets[entry.dataset or ""])
    columns = msgspec.structs.replace(task.columns, key_paths=_recorded_key_paths(reading))
    return dataclasses.replace(task, columns=columns)


def with_keys_of(task: Task, earlier: Task | None) -> Task:
    """The task, where rows without ids have the keys that they have in an earlier session or run."""
    columns = task.columns if earlier is None else task.columns.with_keys_of(earlier.columns)
    return task if columns == task.columns else dataclasses.replace(task, columns=columns)


def _recorded_key_paths(reading: RowReading | None) -> tuple[str, ...] | None:
    return None if reading is None or reading.key_paths is None else tuple(reading.key_paths)


def adapt_task(name: str, spec: TaskSpec, made: Task, base: CodeBase = Path()) -> Task:
    """A Python task under the settings of the entry that uses it; what it leaves open stays as the task has it."""
    return dataclasses.replace(
        made,
        name=name,
        scorers=declared_scorers(name, spec, base) or made.scorers,
        epochs=made.epochs if spec.epochs is None else spec.epochs,
        limits=made.limits if spec.limits == TrialLimits() else spec.limits,
        max_iterations=made.max_iterations if spec.max_iterations is None else spec.max_iterations,
        limit=made.limit if spec.limit is None else spec.limit,
        system=made.system if spec.system is None else spec.system,
        axes=_widened_axes(spec, made),
        grid=_grid_of_use(name, spec, made),
    )


def _widened_axes(spec: TaskSpec, made: Task) -> dict[str, list[str]]:
    """The axes of a task with the values that an entry adds to them."""
    return joined_axes(made.axes, declared_axes(spec)) if spec.axes else made.axes


def regrouped(task: Task, entry: TaskSpec) -> Task:
    """A task that exists, with the combinations of axis values that an entry of `tasks` selects."""
    directory = task.grid.directory if task.grid is not None else ""
    grid = grid_of_entry(entry)
    return task.resized(grid=None if grid is None else grid.in_directory(directory))


def _grid_of_use(name: str, spec: TaskSpec, made: Task) -> AxisGrid | None:
    """What an entry says of the axes of a task that exists.

    Raises:
        ConfigurationError: it names an axis or a value that the task does not have.
    """
    if (grid := grid_of_entry(spec)) is None:
        return made.grid
    if spec.use is None:
        # Built from the same entry, or one that has the same values.
        return _declared_grid(name, spec)
    place, axes = key_path("tasks", name), _widened_axes(spec, made)
    problems = list(filter_problems(place, spec, axes))
    for axis, values in grid.values.items():
        problems += dependency_problems(key_path(f"{place}.axes", axis), values, axes[axis])
    if isinstance(made.solver, Generate) and made.solver.variants and grid.has_prompts:
        problems.append(f"{place}.axes gives prompts, and the Python task has several prompts of its own")
    if problems:
        raise ConfigurationError(f"{problems[0]}.")
    return grid


def declared_scorers(name: str, spec: TaskSpec, base: CodeBase) -> tuple[Scorer, ...]:
    """The scorers that an entry of `tasks` names.

    Raises:
        ConfigurationError: one does not exist or cannot be loaded, or two have the same name.
    """
    place = f"tasks.{name}.scorers"
    scorers = [build_scorer(given, place, base) for given in spec.scorers]
    try:
        return as_scorers(scorers)
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error.message}", hint=error.hint) from None


def _prompt_solver(name: str, spec: TaskSpec) -> Generate:
    try:
        return generate(
            "{input}" if spec.prompt is None else spec.prompt,
            # A solver of one's own sends the system text as it is.
            system=spec.system if spec.solver is None else None,
            few_shot=spec.few_shot,
            few_shot_template=spec.few_shot_template,
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"tasks.{name}: {error.message}", hint=error.hint) from None


def _columns(name: str, spec: TaskSpec, dataset: DatasetSpec, task: Task) -> Columns:
    named = {str(part): column for part, column in dataset.fields.items()}
    options = spec.choices if isinstance(spec.choices, list) else []
    if isinstance(spec.choices, str):
        named["choices"] = spec.choices
    columns = Columns(
        named=named,
        target=None if spec.target is None else Template.parse(spec.target, f"target of the task {name!r}"),
        options=tuple(Template.parse(option, f"list of choices of the task {name!r}") for option in options),
        asked=tuple(sorted({path for template in templates_of(task) for path in template.paths})),
        stand_in=stand_in_of(task),
    )
    if spec.solver is None or spec.prompt is None or (task.grid is not None and task.grid.has_prompts):
        return columns
    prompt = next(template for template in templates_of(task) if template.text == spec.prompt)
    return PromptedColumns(**msgspec.structs.asdict(columns), prompt=prompt)
