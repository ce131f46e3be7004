"""The models under test of an eval that is offered to a run and names none: those that judge nothing, there or here.

A scorer that is left out stays in the run, so its judges stay judges. If no model is left by that, as when a model
under test and a judge change places, the tasks of the run keep the models that they have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import msgspec

from holdfast.engine.planning.prepared_eval import judges_in_code
from holdfast.errors import ConfigurationError
from holdfast.run.core.records import SessionRecord
from holdfast.run.core.slots.slot_names import judge_of
from holdfast.spec import EvalSpec, TaskSpec
from holdfast.spec.loading.error_messages import key_path
from holdfast.spec.models_under_test import (
    NOBODY_UNDER_TEST,
    declared_judges,
    models_under_test,
    open_tasks,
    with_models,
)
from holdfast.tasks.task import Task


def with_models_under_test(
    offered: EvalSpec, saved: EvalSpec, session: SessionRecord, load_tasks: Callable[[], Iterable[Task]]
) -> EvalSpec:
    """The offered eval in which every task names its models; `load_tasks` gives its tasks in Python."""
    judged = {judge_of(slot) for entry in session.plan for slot in entry.scorers} | declared_judges(saved)
    judges, models = set(judged), set(models_under_test(offered, judged))
    # The code of tasks is loaded only if a judge that it names could be taken for a model under test.
    if any(models - _models_of(name, saved) for name in open_tasks(offered)):
        judges |= judges_in_code(load_tasks())
    if models_under_test(offered, judges):
        return with_models(offered, judges)
    tasks = {name: _kept_models(name, offered, saved, judged) for name in open_tasks(offered)}
    return msgspec.structs.replace(offered, tasks={**offered.tasks, **tasks})


def _kept_models(name: str, offered: EvalSpec, saved: EvalSpec, judged: Collection[str]) -> TaskSpec:
    """A task that names no models with those that it has in the run.

    One that is new gets the models that judge nothing now, unless they have only judged in the run.

    Raises:
        ConfigurationError: there is none.
    """
    if name in saved.tasks:
        return msgspec.structs.replace(offered.tasks[name], models=saved.tasks[name].models)
    tested = set[str]().union(*(_models_of(task, saved) for task in saved.tasks))
    models = [model for model in models_under_test(offered) if model in tested or model not in judged]
    if not models:
        raise ConfigurationError(f"{key_path('tasks', name)}{NOBODY_UNDER_TEST}.")
    return msgspec.structs.replace(offered.tasks[name], models=models)


def _models_of(task: str, saved: EvalSpec) -> set[str]:
    """The models under test of a task in the run; none if it is new."""
    return set(saved.tasks[task].models or saved.models) if task in saved.tasks else set()
