"""A task from an eval file: a dataset, a prompt and scorers with no Python, or settings for a Python task."""

from __future__ import annotations

import dataclasses

from holdfast.errors import ConfigurationError
from holdfast.spec import DatasetSpec, TaskSpec, TrialLimits
from holdfast.tasks.datasets.columns import Columns
from holdfast.tasks.scorers import as_scorers, build_scorer
from holdfast.tasks.solver import Generate, generate
from holdfast.tasks.task import Task
from holdfast.tasks.template import Template


def build_task(name: str, spec: TaskSpec, dataset: DatasetSpec) -> Task:
    """The task that a declarative entry of `tasks` describes; `dataset` is the entry that it names."""
    solver = _solver(name, spec)
    scorers = [build_scorer(given, f"tasks.{name}.scorers") for given in spec.scorers]
    if not scorers:
        raise ConfigurationError(f"The task {name!r} has no scorer.", hint="Give scorers, such as [exact].")
    return Task(
        name=name,
        dataset=dataset,
        solver=solver,
        scorers=scorers,
        epochs=spec.epochs or 1,
        limits=spec.limits,
        limit=spec.limit,
        columns=_columns(name, spec, dataset, solver),
    )


def adapt_task(name: str, spec: TaskSpec, made: Task) -> Task:
    """A Python task under the settings of the entry that uses it; what it leaves open stays as the task has it."""
    scorers = [build_scorer(given, f"tasks.{name}.scorers") for given in spec.scorers]
    return dataclasses.replace(
        made,
        name=name,
        scorers=as_scorers(scorers) if scorers else made.scorers,
        epochs=made.epochs if spec.epochs is None else spec.epochs,
        limits=made.limits if spec.limits == TrialLimits() else spec.limits,
        limit=made.limit if spec.limit is None else spec.limit,
        system=made.system if spec.system is None else spec.system,
    )


def _solver(name: str, spec: TaskSpec) -> Generate:
    try:
        return generate(
            "{input}" if spec.prompt is None else spec.prompt,
            system=spec.system,
            few_shot=spec.few_shot,
            few_shot_template=spec.few_shot_template,
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"tasks.{name}: {error.message}", hint=error.hint) from None


def _columns(name: str, spec: TaskSpec, dataset: DatasetSpec, solver: Generate) -> Columns:
    named = {str(part): column for part, column in dataset.fields.items()}
    options = spec.choices if isinstance(spec.choices, list) else []
    if isinstance(spec.choices, str):
        named["choices"] = spec.choices
    return Columns(
        named=named,
        target=None if spec.target is None else Template.parse(spec.target, f"target of the task {name!r}"),
        options=tuple(Template.parse(option, f"choices of the task {name!r}") for option in options),
        asked=tuple(sorted({path for template in solver.templates for path in template.paths})),
        stand_in=solver.stand_in,
    )
