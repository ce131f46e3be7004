"""An eval with nothing left to guess: two evals that ask for the same work resolve to equal values.

Bases are filled in, paths start at the root, every task names its models and has its runner's settings. An
explicit default, a `null`, an empty block, `0.0` for `0`, the order of keys and of a task's models: none of
these makes a difference. Nothing is read or written here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

import msgspec

from holdfast.spec.canonical import plain_data
from holdfast.spec.code_reference import split_reference
from holdfast.spec.derived_models import derive_models
from holdfast.spec.grid import short_axis
from holdfast.spec.grid_problems import grid_problems
from holdfast.spec.judged_scorers import unknown_judges
from holdfast.spec.loading.error_messages import URL_DATASET, describe_value, item_path, key_path, refuse
from holdfast.spec.loading.load import typed_eval
from holdfast.spec.models_under_test import NOBODY_UNDER_TEST, models_under_test, with_models
from holdfast.spec.resolved_sampling import resolve_sampling, sampling_problems, short_form
from holdfast.spec.schema.dataset import DatasetSpec
from holdfast.spec.schema.eval import EvalSpec
from holdfast.spec.schema.model import LOCAL, ModelSpec
from holdfast.spec.schema.runner import RunnerSpec, TaskRunner
from holdfast.spec.schema.task import DECLARATIVE_FIELDS, TaskSpec
from holdfast.spec.schema.workspace import WorkspaceSpec
from holdfast.suggestions import nearest_or_known

ASKED_BY_PROMPT = ("few_shot", "few_shot_template", "sampling")
"""Keys that only the built-in solver has a use for, which asks with the prompt."""
UNSEEN_BY_AGENTS = ("solver", "tools", *ASKED_BY_PROMPT, "choices")
"""Keys that a task with an agent cannot have."""


def resolve(spec: EvalSpec, source: str = "the eval", *, leaves_models_open: bool = False) -> EvalSpec:
    """The eval in full; a ConfigurationError when names do not meet or tasks make no sense.

    A task that names no models asks every model that is nobody's judge. With `leaves_models_open` it names none here
    either: further judges may be known from code, or from the run that the eval is offered to (`with_models`).
    """
    # An eval built in Python has not met the checks of loading yet.
    spec = typed_eval(plain_data(spec), source)
    models = derive_models(spec.models, source)
    refuse(source, list(_problems(spec)))
    resolved = msgspec.structs.replace(
        spec,
        deterministic=spec.deterministic or None,
        models={name: _model(model, spec) for name, model in models.items()},
        datasets={name: _dataset(dataset, spec) for name, dataset in spec.datasets.items()},
        tasks={name: _task(task, spec) for name, task in spec.tasks.items()},
    )
    return resolved if leaves_models_open else with_models(resolved)


def _model(model: ModelSpec, spec: EvalSpec) -> ModelSpec:
    """The weights of a local model lie where the eval says, from wherever it is resumed."""
    path = model.args.get("path")
    if model.provider != LOCAL or not isinstance(path, str) or path.startswith("~"):
        return model
    return msgspec.structs.replace(model, args={**model.args, "path": spec.locate(path)})


def _dataset(dataset: DatasetSpec, spec: EvalSpec) -> DatasetSpec:
    return msgspec.structs.replace(dataset, path=spec.locate(dataset.path))


def _task(task: TaskSpec, spec: EvalSpec) -> TaskSpec:
    return msgspec.structs.replace(
        task,
        models=None if task.models is None else sorted(task.models),
        prompt=task.prompt or None,
        epochs=1 if task.epochs is None and task.use is None else task.epochs,
        sample_ids=sorted(set(task.sample_ids)) if task.sample_ids else None,
        choices=task.choices or None,
        axes={name: short_axis(axis) for name, axis in task.axes.items()},
        scorers=[short_form(scorer) for scorer in task.scorers],
        sampling=resolve_sampling(task.sampling, deterministic=spec.deterministic is True),
        workspace=_workspace(task.workspace, spec),
        runner=_task_runner(task.runner, spec.runner),
    )


def _workspace(workspace: WorkspaceSpec | None, spec: EvalSpec) -> WorkspaceSpec | None:
    """With paths that start at the eval's directory; one that says nothing is the same as none."""
    if workspace is None or workspace == WorkspaceSpec():
        return None
    repo = workspace.repo
    return msgspec.structs.replace(
        workspace,
        path=None if workspace.path is None else spec.locate(workspace.path),
        repo=repo if repo is None or "://" in repo else spec.locate(repo),
        files={place: spec.locate(source) for place, source in workspace.files.items()},
    )


def _task_runner(own: TaskRunner, run: RunnerSpec) -> TaskRunner:
    return msgspec.structs.replace(
        own,
        max_retries=run.max_retries if own.max_retries is None else own.max_retries,
        fail_fast=run.fail_fast if own.fail_fast is None else own.fail_fast,
        retry_deadline=run.retry_deadline if own.retry_deadline is None else own.retry_deadline,
    )


def _problems(spec: EvalSpec) -> Iterator[str]:
    if not spec.tasks:
        yield "tasks is missing; an eval needs at least one task"
    if not spec.models:
        yield "models is missing; an eval needs at least one model"
    for name, dataset in spec.datasets.items():
        yield from _dataset_problems(key_path("datasets", name), dataset)
    for name, task in spec.tasks.items():
        place = key_path("tasks", name)
        yield from _source_problems(place, task, spec)
        yield from _model_problems(place, task, spec)
        yield from _scorer_problems(place, task, spec)
        yield from sampling_problems(place, task, spec)
        yield from grid_problems(place, task, spec)
    if spec.deterministic:
        yield from _seed_problems(spec)


def _dataset_problems(place: str, dataset: DatasetSpec) -> Iterator[str]:
    if "://" in dataset.path:
        yield f"{place}.path is {describe_value(dataset.path)}; {URL_DATASET}"
    for index, operation in enumerate(dataset.operations):
        pattern = operation.filter.matches if operation.filter else None
        try:
            re.compile(pattern or "")
        except re.error as error:
            at = f"{item_path(f'{place}.operations', index)}.filter.matches"
            yield f"{at} is {describe_value(pattern)}, which is not a valid regular expression: {error}"


def _source_problems(place: str, task: TaskSpec, spec: EvalSpec) -> Iterator[str]:
    if task.use is None and task.dataset is None:
        yield f"{place} has neither dataset nor use; give it the name of a dataset, or the Python task that it uses"
    elif task.use is None:
        yield from _declarative_problems(place, task, spec)
    else:
        given = [name for name in ("dataset", *DECLARATIVE_FIELDS) if getattr(task, name)]
        if given:
            yield f"{place} has use and also {', '.join(given)}; a Python task brings its own"


def _declarative_problems(place: str, task: TaskSpec, spec: EvalSpec) -> Iterator[str]:
    if task.dataset not in spec.datasets:
        missing = f"There is no dataset named {describe_value(task.dataset)} ({place}.dataset)"
        yield missing + _dataset_way_out(task, spec)
    if task.args:
        yield f"{place}.args is for a Python task, and this task has no use; remove args"
    if task.solver is not None:
        yield from _solver_problems(place, task)
    if task.tools:
        yield from _tool_problems(place, task)
    yield from _agent_problems(place, task)


def _agent_problems(place: str, task: TaskSpec) -> Iterator[str]:
    workspace = task.workspace
    if task.agent is None:
        if workspace is not None:
            yield f"{place} has a workspace and no agent that works in it; give it an agent, or remove workspace"
        return
    for name in UNSEEN_BY_AGENTS:
        if getattr(task, name):
            yield f"{place} has agent and also {name}, which the agent would not see; keep one of them"
    if not task.agent.network and task.agent.sandbox == "none":
        yield f"{place}.agent.network is false, which only a sandbox can enforce; set {place}.agent.sandbox"
    if workspace is not None and workspace.path and workspace.repo:
        yield f"{place}.workspace has path and also repo; keep one of them"
    if workspace is not None and workspace.commit and not workspace.repo:
        yield f"{place}.workspace.commit needs a repo; the template is a directory, which has no commits"


def _solver_problems(place: str, task: TaskSpec) -> Iterator[str]:
    if not all(split_reference(task.solver or "")):
        yield f"{place}.solver is {describe_value(task.solver)}; write it as file.py:name or package.module:name"
    for name in ASKED_BY_PROMPT:
        if getattr(task, name):
            yield f"{place} has solver and also {name}, which the solver would not see; keep one of them"
    if isinstance(task.prompt, list | dict):
        yield f"{place} has solver and also several prompts; give the solver one prompt, or none"


def _tool_problems(place: str, task: TaskSpec) -> Iterator[str]:
    for index, reference in enumerate(task.tools):
        if not all(split_reference(reference)):
            at = item_path(f"{place}.tools", index)
            yield f"{at} is {describe_value(reference)}; write it as file.py:name or package.module:name"
    if task.solver is not None:
        yield f"{place} has solver and also tools; a solver offers its tools itself: trial.generate(…, tools=[…])"
    if task.sampling is not None:
        yield f"{place} has sampling and also tools, and a sampling runs no tools; keep one of them"


def _dataset_way_out(task: TaskSpec, spec: EvalSpec) -> str:
    """The end of a sentence about a dataset that does not exist: a file's name was perhaps meant as one."""
    name = str(task.dataset)
    if "." not in name and "/" not in name and spec.datasets:
        return f"; {nearest_or_known(name, spec.datasets)}"
    entry = PurePosixPath(name).stem or "data"
    path = name if "." in name or "/" in name else f"{name}.jsonl"
    return f". Add: datasets: {{{entry}: {{path: {path}}}}}" + (f" and dataset: {entry}" if entry != name else "")


def _model_problems(place: str, task: TaskSpec, spec: EvalSpec) -> Iterator[str]:
    names = task.models
    if names is None:
        if spec.models and not models_under_test(spec):
            yield f"{place}{NOBODY_UNDER_TEST}"
        return
    if not names:
        yield f"{place}.models is an empty list; name a model, or leave the key out to ask every model"
    for index, name in enumerate(names):
        at = item_path(f"{place}.models", index)
        if name not in spec.models:
            yield f"{at} is {describe_value(name)}, which is unknown; {nearest_or_known(name, spec.models)}"
        elif name in names[:index]:
            yield f"{at} is {describe_value(name)} a second time; keep one"


def _seed_problems(spec: EvalSpec) -> Iterator[str]:
    for name, model in spec.models.items():
        if model.generation.seed is not None:
            at = f"{key_path('models', name)}.generation.seed"
            yield f"deterministic is true, which gives every call a seed of its own, and {at} is set; keep one of them"


def _scorer_problems(place: str, task: TaskSpec, spec: EvalSpec) -> Iterator[str]:
    for index, scorer in enumerate(task.scorers):
        at = item_path(f"{place}.scorers", index)
        if isinstance(scorer, dict) and len(scorer) != 1:
            yield f"{at} must have exactly one name with its arguments; it has {len(scorer)}"
        elif isinstance(scorer, dict) and not isinstance(next(iter(scorer.values())) or {}, dict):
            yield f"{at} must give its arguments as a map, such as {{exact: {{ignore_case: true}}}}"
        else:
            yield from unknown_judges(at, scorer, spec.models)
