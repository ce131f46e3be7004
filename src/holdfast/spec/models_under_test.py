"""The models that a task asks which names none: every model that is nobody's judge.

Judges are named in the eval, in the code of tasks, and in the run that an eval is offered to. So a resolved eval may
leave the models of a task open, until all of these are known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from holdfast.spec.judged_scorers import judges_of
from holdfast.spec.schema.eval import EvalSpec

NOBODY_UNDER_TEST = ".models is missing, and every model is a judge or one to escalate to; name those under test"
"""The end of a sentence that begins with the place of a task."""


def declared_judges(spec: EvalSpec) -> set[str]:
    """The models that the scorers of an eval name as their judges."""
    return {judge for task in spec.tasks.values() for scorer in task.scorers for judge in judges_of(scorer)}


def models_under_test(spec: EvalSpec, judges: Collection[str] = ()) -> list[str]:
    """The models that no task asks only to judge or to take over; `judges` are those that the eval does not name."""
    others = {model for task in spec.tasks.values() if task.sampling for _, model in task.sampling.other_models()}
    left_out = others | declared_judges(spec) | set(judges)
    return sorted(name for name in spec.models if name not in left_out)


def open_tasks(spec: EvalSpec) -> Iterator[str]:
    """The tasks that name no models."""
    return (name for name, task in spec.tasks.items() if task.models is None)


def with_models(spec: EvalSpec, judges: Collection[str] = ()) -> EvalSpec:
    """The eval in which every task names its models; `judges` are those that the eval does not name.

    If these are all models that there are, they are asked all the same: somebody lets a model judge itself, and is
    warned of that.
    """
    models = models_under_test(spec, judges) or models_under_test(spec)
    tasks = {name: msgspec.structs.replace(spec.tasks[name], models=models) for name in open_tasks(spec)}
    return msgspec.structs.replace(spec, tasks={**spec.tasks, **tasks}) if tasks else spec
