"""The models under test of an eval that is offered to a run and names none: those that judge nothing, there or here.

A scorer that is left out stays in the run, so its judges stay judges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holdfast.engine.planning.prepared_eval import judges_in_code
from holdfast.run.core.records import SessionRecord
from holdfast.run.core.slots.slot_names import judge_of
from holdfast.spec import EvalSpec
from holdfast.spec.models_under_test import declared_judges, models_under_test, open_tasks, with_models
from holdfast.tasks.task import Task


def with_models_under_test(
    offered: EvalSpec, saved: EvalSpec, session: SessionRecord, load_tasks: Callable[[], Iterable[Task]]
) -> EvalSpec:
    """The offered eval in which every task names its models; `load_tasks` gives its tasks in Python."""
    judges = {judge_of(slot) for entry in session.plan for slot in entry.scorers} | declared_judges(saved)
    models = set(models_under_test(offered, judges))
    # The code of tasks is loaded only if a judge that it names could be taken for a model under test.
    if any(models - _models_of(name, saved) for name in open_tasks(offered)):
        judges |= judges_in_code(load_tasks())
    return with_models(offered, judges)


def _models_of(task: str, saved: EvalSpec) -> set[str]:
    """The models under test of a task in the run; none if it is new."""
    return set(saved.tasks[task].models or saved.models) if task in saved.tasks else set()
