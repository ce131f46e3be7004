"""From an eval to a plan: tasks are built, datasets are read, and every trial gets its place."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO, TypeVar

import msgspec

from holdfast.engine.planning.inputs import Inputs, axis_file_input, input_name, listed_trials, template_input
from holdfast.engine.planning.plan import PlannedTask
from holdfast.errors import ConfigurationError, UsageError
from holdfast.models.catalogue import COMMAND, digest_of_weights, open_provider
from holdfast.models.provider import Provider
from holdfast.run.core.display_text import list_text, short_sample
from holdfast.run.core.slots.slot_names import scorer_of
from holdfast.spec import EvalSpec, ModelSpec, SamplingSpec, TaskSpec, TrialLimits, WorkspaceSpec
from holdfast.spec.code_reference import IN_MEMORY
from holdfast.spec.grid import Combination, asked_models, pinned_models
from holdfast.spec.loading.error_messages import key_path, naming_key
from holdfast.spec.models_under_test import with_models
from holdfast.suggestions import did_you_mean, listing
from holdfast.tasks.datasets.row_file import Rows
from holdfast.tasks.from_spec import adapt_task, build_task, with_keys_of
from holdfast.tasks.grid.axis_files import AxisFile, axis_files
from holdfast.tasks.grid.axis_grid import AxisGrid
from holdfast.tasks.judges.panels import judge_slots, judging_models, shown_names
from holdfast.tasks.solver import Generate
from holdfast.tasks.source.code_files import CodeFiles
from holdfast.tasks.stages import is_staged
from holdfast.tasks.task import Task

if TYPE_CHECKING:
    from holdfast.engine.planning.early_warnings import SampleWatch
    from holdfast.run.fold.reader import RunReader

T = TypeVar("T")


class PreparedEval:
    """An eval, ready to be run: its tasks are planned, and its models can be opened."""

    def __init__(self, spec: EvalSpec, tasks: list[PlannedTask], inputs: Inputs) -> None:
        self.spec, self.tasks, self.inputs = spec, tasks, inputs
        self.providers: dict[str, Provider] = {}
        self.warnings: list[str] = []
        """What a person should know before the first call of a new run."""

    @property
    def planned(self) -> int:
        return sum(task.planned for task in self.tasks)

    @property
    def models_under_test(self) -> set[str]:
        return {model for task in self.tasks for model in task.models}

    def open_providers(self) -> None:
        """Opens the provider of every model that a task or its sampling asks; they connect when they are first asked.

        Raises:
            ConfigurationError: a provider does not exist, or something is missing, such as its key.
        """
        check_agents(self)
        for name in sorted(self.asked_models):
            self.provider(name)

    def check_programs(self, names: Collection[str] | None = None) -> None:
        """Raises ConfigurationError where the program of an agent is not on this machine.

        With `names`, only those of these tasks: work that is finished needs none.
        """
        for task in self.tasks if names is None else [task for task in self.tasks if task.name in names]:
            if (check := getattr(task.task.solver, "check_program", None)) is not None:
                with _naming_agent(task.name):
                    check()

    def provider(self, name: str) -> Provider:
        """The provider of a model, opened if it is not open yet.

        Raises:
            ConfigurationError: it does not exist, or something is missing, such as its key.
        """
        if name not in self.providers:
            with naming_key(key_path("models", name)):
                self.providers[name] = open_provider(self.spec.models[name])
        return self.providers[name]

    def check_prices(self) -> None:
        """A limit on the cost of a trial would never be reached by a model that has no price.

        Raises:
            ConfigurationError: a task has such a limit, and one of its models no price.
        """
        for task in self.tasks:
            for name in (*task.models, *other_models(task.task)) if task.limits.cost is not None else ():
                if self.spec.models[name].price is None:
                    place = key_path("models", name)
                    raise ConfigurationError(
                        f"{key_path('tasks', task.name)}.limits.cost needs a price of every model; {place} has none.",
                        hint=f"Add {place}.price, or remove the limit.",
                    )

    @functools.cached_property
    def weights(self) -> dict[str, str]:
        """By model, the digest of its weights, of those whose weights are a file on this machine.

        Raises:
            ConfigurationError: one of them cannot be read.
        """
        return digests_of_weights(self.spec.models)

    @property
    def asked_models(self) -> set[str]:
        """The models that tasks, their samplings and their judges ask, as far as that is known before."""
        asked = {name for task in self.tasks for name in (*task.models, *other_models(task.task))}
        return asked.union(*(judging_models(task.task.scorers) for task in self.tasks))

    def takes_seed(self) -> dict[str, bool]:
        """By model, whether its provider takes a seed, as far as providers are open and say so."""
        said = {name: getattr(provider, "takes_seed", None) for name, provider in self.providers.items()}
        return {name: takes for name, takes in said.items() if isinstance(takes, bool)}


def digests_of_weights(models: Mapping[str, ModelSpec], *, again: bool = False) -> dict[str, str]:
    """By model, the digest of its weights, of those whose weights are a file on this machine.

    Raises:
        ConfigurationError: one of them cannot be read.
    """
    found = {name: digest_of_weights(model, again=again) for name, model in models.items()}
    return {name: digest for name, digest in found.items() if digest}


def prepare_eval(
    spec: EvalSpec, inputs: Inputs, given: Mapping[str, Task] | None = None, forked: Mapping[str, Task] | None = None
) -> PreparedEval:
    """Builds every task of a resolved eval and plans its trials; `given` are tasks that already exist in this process.

    `forked` are tasks of another run, whose samples keep their keys.

    A task that leaves its models open asks those that no task has as a judge.

    Raises:
        ConfigurationError: a task or a dataset is wrong.
    """
    made: dict[str, Task] = {}
    for name, entry in spec.tasks.items():
        with naming_task(name, entry):
            task = task_of_entry(name, entry, spec, inputs, (given or {}).get(name))
            made[name] = with_keys_of(task, (forked or {}).get(name))
    spec = with_models(spec, judges_in_code(made.values()))
    prepared = PreparedEval(spec, [], inputs)
    for name, entry in spec.tasks.items():
        with naming_task(name, entry):
            planned, watch = _plan_task(made[name], entry, spec, inputs)
        prepared.tasks.append(planned)
        prepared.warnings += _missing_answers(planned)
        if watch is not None:
            prepared.warnings += _early_warnings().task_warnings(planned, watch)
    return prepared


def naming_task(name: str, entry: TaskSpec) -> AbstractContextManager[None]:
    """An entry that only uses a task in Python has nothing that could be wrong in the eval file."""
    return contextlib.nullcontext() if entry.use else naming_key(key_path("tasks", name))


def judges_in_code(tasks: Iterable[Task]) -> set[str]:
    """The models that tasks ask beside those under test, as far as that is known before."""
    return {model for task in tasks for model in (*judging_models(task.scorers), *other_models(task))}


def _early_warnings() -> ModuleType:
    """Loaded for new samples only: it knows every scorer, and `diff` needs none of them."""
    from holdfast.engine.planning import early_warnings  # noqa: PLC0415

    return early_warnings


def _plan_task(task: Task, entry: TaskSpec, spec: EvalSpec, inputs: Inputs) -> tuple[PlannedTask, SampleWatch | None]:
    """The task with its samples, and what was noticed when they were checked, if they are new."""
    name = task.name
    _check_other_models(task, spec)
    dataset = task.bind(inputs.rows(input_name(name, entry), task), entry.limit)
    if entry.sample_ids:
        dataset.keep_only(entry.sample_ids)
    watch = _early_warnings().SampleWatch(task) if inputs.is_new(input_name(name, entry)) else None
    if watch is not None:
        task.check(dataset, watch.see)
    if not len(dataset):
        raise ConfigurationError(
            f"The task {name!r} has no sample left after its operations.", hint="Check its filters and slices."
        )
    listed = listed_trials(inputs, name, dataset)
    axes = task.combinations() if listed is None else listed.axes
    by_model = _axes_by_model(task, axes, entry, spec) if task.grid is not None and listed is None else None
    planned = PlannedTask(
        name=name,
        task=task,
        dataset=dataset,
        models=tuple(entry.models or spec.models) if by_model is None else tuple(by_model),
        axes=axes,
        epochs=task.epochs,
        limits=task.limits or TrialLimits(),
        max_iterations=task.max_iterations,
        max_retries=_or_default(entry.runner.max_retries, spec.runner.max_retries),
        source=input_name(name, entry),
        fail_fast=_or_default(entry.runner.fail_fast, spec.runner.fail_fast),
        result_files=_has_result_files(task, entry, spec),
        listed=listed,
        by_model=by_model,
        choices={},
    )
    check_dependencies(planned)
    return planned, watch


def _axes_by_model(
    task: Task, axes: tuple[Combination, ...], entry: TaskSpec, spec: EvalSpec
) -> dict[str, tuple[Combination, ...]] | None:
    """The combinations that each model is asked with; None where no axis value names its model."""
    own = entry.models or list(spec.models)
    models = asked_models(entry, own)
    if task.grid is None or not pinned_models(entry):
        return None
    found: dict[str, list[Combination]] = {model: [] for model in models}
    for combination in axes:
        only = task.grid.model_at(combination)
        for model in own if only is None else [only]:
            found[model].append(combination)
    return {model: tuple(combinations) for model, combinations in found.items() if combinations}


def check_dependencies(planned: PlannedTask) -> None:
    """Raises ConfigurationError where values depend on others that no trial of the same model has, or on no scorer."""
    grid = planned.task.grid
    for axis, values in (grid.dependencies if grid is not None else {}).items():
        for value, entry in values.items():
            place = key_path(key_path(f"{key_path('tasks', planned.name)}.axes", axis), value)
            _check_deciding_scorer(planned, place, entry.scorer)
            for model in planned.models:
                there = planned.planned_by_value(model).get(axis, {})
                if value in there and not any(other in there for other in entry.best_of):
                    raise ConfigurationError(
                        f"{place}.best_of: none of {listing(entry.best_of)} is run with the model {model}, so there is"
                        " nothing to choose from.",
                        hint="Give the value its own model, or include some of those values.",
                    )


def _check_deciding_scorer(planned: PlannedTask, place: str, scorer: str | None) -> None:
    names = shown_names(planned.task.scorers)
    if scorer is None and len(names) > 1:
        raise ConfigurationError(
            f"{place}.scorer is missing, and the task has several scorers.", hint=f"Name one of {listing(names)}."
        )
    # Without scorers, as where only the grid is of interest, nothing is chosen.
    if scorer is not None and names and scorer not in names:
        raise ConfigurationError(
            f"{place}.scorer is {scorer!r}, which the task does not have; it has {listing(names)}.",
            hint=did_you_mean(scorer, names),
        )


def _has_result_files(task: Task, entry: TaskSpec, spec: EvalSpec) -> bool:
    """Whether finished trials get files of their own: where that is not said, those of a solver with stages."""
    chosen = _or_default(entry.runner.result_files, spec.runner.result_files)
    return is_staged(task.solver) if chosen is None else chosen


def _or_default(own: T | None, default: T) -> T:
    return default if own is None else own


def other_models(task: Task) -> tuple[str, ...]:
    """The models that the sampling of a task asks beside the one under test, as far as that is known before."""
    return task.solver.models if isinstance(task.solver, Generate) else ()


def _check_other_models(task: Task, spec: EvalSpec) -> None:
    asked = [("sampling", name) for name in other_models(task)]
    asked += [(f"scorer {scorer_of(slot.name)!r}", slot.model) for slot in judge_slots(task.scorers)]
    for who, name in asked:
        if name not in spec.models:
            raise ConfigurationError(
                f"The {who} of the task {task.name!r} asks the model {name!r}, which the eval does not have.",
                hint=did_you_mean(name, spec.models) or f"It has {listing(spec.models)}.",
            )


def task_of_entry(name: str, entry: TaskSpec, spec: EvalSpec, inputs: Inputs, given: Task | None = None) -> Task:
    """The task that an entry of the eval describes, or `given` under the entry's settings, with its sampling.

    Raises:
        ConfigurationError: it cannot be built.
    """
    task = with_other_answers(with_workspace(unsampled_task(name, entry, spec, inputs, given), inputs), spec, inputs)
    if task.grid is not None:
        task = dataclasses.replace(
            task, grid=_with_axis_files(task.grid.in_directory(spec.directory or ""), name, inputs)
        )
    code = code_files(name, spec, inputs)
    return task if entry.sampling is None else _with_sampling(task, entry.sampling, code)


def _with_axis_files(grid: AxisGrid, task: str, inputs: Inputs) -> AxisGrid:
    """The grid with the copies of the files that its values bring.

    Raises:
        ConfigurationError: one does not exist, or cannot be read.
    """
    found = {
        file.key: inputs.template(axis_file_input(task, file.key), file.template(axis_field(task, file)))
        for file in axis_files(grid)
    }
    return grid.with_copies(found) if found else grid


def axis_field(task: str, file: AxisFile) -> str:
    """Where the eval has a file of an axis value."""
    axes = f"{key_path('tasks', task)}.axes"
    return f"{key_path(key_path(axes, file.axis), file.value)}.files"


def with_workspace(task: Task, inputs: Inputs) -> Task:
    """The task with the template of its agent's workspaces, if it has an agent.

    Raises:
        ConfigurationError: the template does not exist, or cannot be read.
    """
    if not is_staged(task.solver):
        return task
    from holdfast.tasks.agents.command_agent import CommandAgent  # noqa: PLC0415 - most tasks have no agent

    if not isinstance(task.solver, CommandAgent):
        return task
    packed = inputs.template(template_input(task.name), task.solver.template)
    return dataclasses.replace(task, solver=msgspec.structs.replace(task.solver, packed=packed))


def check_agents(prepared: PreparedEval) -> None:
    """Agents have models of their own provider, which nobody else can ask, and the tools that they need.

    Raises:
        ConfigurationError: a model is used in the wrong place, or a tool is missing.
    """
    for task in prepared.tasks:
        check_tools = getattr(task.task.solver, "check_tools", None)
        others = (*other_models(task.task), *judging_models(task.task.scorers))
        wrong = [name for name in others if prepared.spec.models[name].provider == COMMAND]
        wrong += [
            name
            for name in task.models
            if (prepared.spec.models[name].provider == COMMAND) != (check_tools is not None)
        ]
        if wrong and check_tools is not None and wrong[0] in task.models:
            raise ConfigurationError(
                f"{key_path('tasks', task.name)} has an agent, which calls its model by itself;"
                f" {key_path('models', wrong[0])} has another provider.",
                hint=f"Give the task models with the provider {COMMAND}.",
            )
        if wrong:
            raise ConfigurationError(
                f"{key_path('models', wrong[0])} has the provider {COMMAND}: only an agent can use it, and"
                f" {key_path('tasks', task.name)} asks it without one.",
                hint="Give the model another provider, or the task an agent.",
            )
        if check_tools is not None:
            with _naming_agent(task.name):
                check_tools()
            _check_axis_files(task.name, task.task)


@contextlib.contextmanager
def _naming_agent(task: str) -> Iterator[None]:
    """Errors about fields of a task's agent name the task."""
    try:
        yield
    except ConfigurationError as error:
        if not error.message.startswith("agent."):
            raise
        raise ConfigurationError(f"{key_path('tasks', task)}.{error.message}", hint=error.hint) from None


def _check_axis_files(name: str, task: Task) -> None:
    """Raises ConfigurationError where a file of an axis value cannot be laid over the workspace."""
    if not (files := list(axis_files(task.grid))) or (template := getattr(task.solver, "template", None)) is None:
        return
    from holdfast.tasks.workspaces.laid_files import LaidFile, check_laid_files  # noqa: PLC0415 - few tasks have them

    check_laid_files(template, [LaidFile(axis_field(name, one), one.axis, one.path, one.source) for one in files])


def check_agent_scorers(prepared: PreparedEval) -> None:
    """Checks are scored only where there are some.

    Raises:
        ConfigurationError: the scorer `checks` would have nothing to score.
    """
    for task in prepared.tasks:
        workspace = getattr(task.task.solver, "workspace", None)
        names = [scorer.name for scorer in task.task.scorers if getattr(scorer, "kind", "") == "checks"]
        if names and not (isinstance(workspace, WorkspaceSpec) and workspace.checks):
            place = key_path("tasks", task.name)
            raise ConfigurationError(
                f"{place}: the scorer {names[0]!r} scores the checks of the workspace, and there are none.",
                hint=f"Give commands in {place}.workspace.checks, or remove the scorer.",
            )


def agent_warnings(prepared: PreparedEval) -> Iterator[str]:
    """What of the agents looks like a mistake, and may be meant."""
    for task in prepared.tasks:
        if (warnings := getattr(task.task.solver, "warnings", None)) is not None:
            yield from (f"{key_path('tasks', task.name)}.{text}" for text in warnings())
    for name in sorted(prepared.models_under_test):
        model = prepared.spec.models[name]
        if model.provider == COMMAND and model.generation != type(model.generation)():
            yield (
                f"{key_path('models', name)}.generation has no effect: the command of the agent calls the model by"
                " itself. Give the command what it needs, and remove generation."
            )


def with_other_answers(task: Task, spec: EvalSpec, inputs: Inputs) -> Task:
    """The task with the answers of other runs that its judges compare with."""
    if not any(isinstance(slot.of.pairwise, msgspec.Struct) for slot in judge_slots(task.scorers)):
        return task
    # Few tasks have such a judge.
    from holdfast.engine.planning.saved_samples import SavedSamples  # noqa: PLC0415
    from holdfast.tasks.judges.other_run import (  # noqa: PLC0415
        InputDigests,
        OtherRun,
        answers_input,
        scorers_with_answers,
        write_answers,
    )

    def read_inputs(reader: RunReader) -> InputDigests:
        return SavedSamples(reader).input_digests

    def open_rows(scorer: str, other: OtherRun) -> Rows:
        def write(stream: BinaryIO) -> str:
            return write_answers(Path(spec.locate(other.run)), other, task.name, read_inputs, stream)

        return inputs.other_rows(answers_input(task.name, scorer, other), task.name, write)

    return dataclasses.replace(task, scorers=scorers_with_answers(task.scorers, open_rows) or task.scorers)


def _missing_answers(planned: PlannedTask) -> Iterator[str]:
    """A warning for every scorer that compares with a run which has not answered every sample.

    Raises:
        ConfigurationError: it has answered none of them.
    """
    if not any(slot.other is not None for slot in judge_slots(planned.task.scorers)):
        return
    from holdfast.tasks.judges.other_run import missing_answers  # noqa: PLC0415 - as above

    slots = judge_slots(planned.task.scorers)
    for scorer, damage in {slot.of.name: slot.other.damage for slot in slots if slot.other is not None}.items():
        if damage:
            which = f"The scorer {scorer!r} of the task {planned.name!r} compares with another run"
            yield f"{which}, and not all of that can be read. {damage}"
    yield from _other_questions(planned)
    samples = planned.dataset.keys()
    for scorer, missing in missing_answers(planned.task.scorers, list(samples)).items():
        if len(missing) == len(planned.dataset):
            raise ConfigurationError(
                f"The scorer {scorer!r} of the task {planned.name!r} compares with a run that has an answer to none of"
                f" the samples, such as {short_sample(missing[0])}.",
                hint="Samples are matched by their ids or, without ids, by their content.",
            )
        yield (
            f"The scorer {scorer!r} of the task {planned.name!r} compares with a run that has no answer to"
            f" {list_text(missing)}; these stay unscored."
        )


def _other_questions(planned: PlannedTask) -> Iterator[str]:
    """A warning for every scorer that compares with a run whose samples of the same ids are others.

    Raises:
        ConfigurationError: all of them are.
    """
    from holdfast.engine.planning.saved_samples import input_digests  # noqa: PLC0415 - as above
    from holdfast.tasks.judges.other_run import compare_inputs  # noqa: PLC0415

    dataset = planned.dataset
    samples = ((dataset.key(position), input_digests(dataset, position)) for position in range(len(dataset)))
    for scorer, different in compare_inputs(planned.task.scorers, samples).items():
        which = f"The scorer {scorer!r} of the task {planned.name!r} compares with a run that was asked something else"
        if len(different) == len(dataset):
            raise ConfigurationError(
                f"{which} about every sample, such as {short_sample(different[0])}.",
                hint="Samples of the same ids have other inputs there. Give the run of the same dataset.",
            )
        yield f"{which} about {list_text(different)} ({len(different)} of {len(dataset)}); these stay unscored."


def code_files(task: str, spec: EvalSpec, inputs: Inputs) -> CodeFiles:
    """Where the files of a task's code are looked for."""
    return CodeFiles(Path(spec.directory or "."), functools.partial(inputs.code_copy, task))


def _with_sampling(task: Task, sampling: SamplingSpec, code: CodeFiles) -> Task:
    # Most evals have none.
    from holdfast.sampling.from_spec import build_strategy  # noqa: PLC0415
    from holdfast.sampling.solver import SampledGenerate, sampled  # noqa: PLC0415

    solver, place = task.solver, f"tasks.{task.name}.sampling"
    if isinstance(solver, SampledGenerate) and solver.spec == sampling:
        # The task was built before, to be compared.
        return task
    if not isinstance(solver, Generate) or solver.is_sampled or is_staged(solver) or solver.tool_identity():
        own = "is code of its own"
        if isinstance(solver, Generate) and not is_staged(solver):
            own = "draws candidates itself" if solver.is_sampled else "lets the model call tools"
        raise ConfigurationError(
            f"{place}: the solver of this Python task {own}, so a sampling in the eval file cannot apply to it.",
            hint="Leave sampling out, or make the solver of the task generate(...).",
        )
    strategy = build_strategy(sampling, place, code)
    return dataclasses.replace(task, solver=sampled(solver, strategy=strategy, spec=sampling))


def unsampled_task(name: str, entry: TaskSpec, spec: EvalSpec, inputs: Inputs, given: Task | None = None) -> Task:
    """The same without its sampling, whose code is not needed where nothing is asked.

    Raises:
        ConfigurationError: it cannot be built.
    """
    code = code_files(name, spec, inputs)
    if given is not None:
        return adapt_task(name, entry, given, code)
    if entry.use is None:
        return build_task(name, entry, spec.datasets[entry.dataset or ""], code)
    if entry.use.startswith(IN_MEMORY):
        raise UsageError(
            f"The task {name!r} exists only in the Python process that made it: it does not come from a function with"
            " @task in a file.",
            hint="Call evaluate(tasks, models, run=PATH) in that program, or fork(PATH, tasks=tasks). With @task on the"
            " function that returns the task, later runs can be resumed from the command line too.",
        )
    from holdfast.tasks.task_reference import load_use  # noqa: PLC0415 - most tasks are not in Python

    with naming_key(f"{key_path('tasks', name)}.use"):
        used = load_use(entry.use, code, entry.args)
    return adapt_task(name, entry, used, code)


def copied_source_files(prepared: PreparedEval) -> dict[str, Path]:
    """The Python files that the tasks come from, by the name of their copy in the run.

    Files that hold keys are left out, with a warning for each.
    """
    # Only a new run copies files.
    from holdfast.engine.planning.source_copies import files_to_copy, key_warning  # noqa: PLC0415
    from holdfast.tasks.source.keys_in_code import holds_key  # noqa: PLC0415

    files: dict[str, Path] = {}
    for planned in prepared.tasks:
        files |= files_to_copy(planned.name, planned.task, prepared.spec)
    left_out = {path for path in set(files.values()) if holds_key(path)}
    prepared.warnings += [key_warning(path, prepared.spec) for path in sorted(left_out)]
    return {name: path for name, path in files.items() if path not in left_out}
