"""The concurrency limits of an eval: of the run, its tasks, its stages and its models.

Every limit is counted, also one that has no maximum, so that a maximum can be set at any moment. The names are the
paths of the fields in the resolved eval.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.errors import UsageError
from holdfast.run.core.records import STAGES
from holdfast.spec import EvalSpec, StageLimits, TaskSpec
from holdfast.suggestions import did_you_mean

RUN_LIMIT = "runner.concurrency_limit"


class Limit:
    """One concurrency limit, and how much of it is in use."""

    __slots__ = ("in_use", "maximum", "name")

    def __init__(self, name: str, maximum: int | None) -> None:
        """Without a maximum, use is counted and never refused."""
        self.name, self.maximum, self.in_use = name, maximum, 0

    @property
    def is_full(self) -> bool:
        return self.maximum is not None and self.in_use >= self.maximum

    @property
    def is_exceeded(self) -> bool:
        """Whether more is in use than is allowed, because it was lowered since."""
        return self.maximum is not None and self.in_use > self.maximum


class EvalLimits:
    """The limits of the run, of every task, of their stages, and of every model that was added."""

    def __init__(self, spec: EvalSpec) -> None:
        self._by_name: dict[str, Limit] = {}
        self._active: list[Limit] = []
        for name, maximum in _maxima(spec).items():
            self._add(name, maximum)
        self.run = self._by_name[RUN_LIMIT]
        self.score = {task: self._of_stage(task, "score") for task in spec.tasks}
        """By task, what a trial needs to be scored."""
        self.stages = {task: {stage: self._of_stage(task, stage) for stage in STAGES[:-1]} for task in spec.tasks}
        """By task and stage, what the stages of a solver need to run."""

    def _add(self, name: str, maximum: int | None) -> Limit:
        limit = self._by_name[name] = Limit(name, maximum)
        return limit

    def _of_stage(self, task: str, stage: str) -> tuple[Limit, ...]:
        names = (f"{_task_path(task)}.concurrency_limits.{stage}", f"runner.concurrency_limits.{stage}")
        task_limit = f"{_task_path(task)}.concurrency_limit"
        return tuple(self._by_name[name] for name in (*names, task_limit, RUN_LIMIT))

    def add_model(self, model: str, maximum: int | None) -> Limit:
        """A new limit on the calls of a model that may be in flight at once."""
        return self._add(f"models.{model}.concurrency_limit", maximum)

    def solve(self, task: str, model: Limit) -> tuple[Limit, ...]:
        """What a trial needs to start, narrowest first; the model's capacity is for its first call."""
        return (model, *self._of_stage(task, "solve"))

    def active(self) -> Limit:
        """A new limit on the trials of one queue that have started and not ended, whatever they wait for.

        It has the run's maximum. Each queue has its own: trials that wait to be scored keep no other task or model
        from starting.
        """
        limit = Limit("active", self.run.maximum)
        self._active.append(limit)
        return limit

    def set_maximum(self, name: str, maximum: int | None) -> None:
        """Sets a limit, or takes its maximum away; what is in use stays in use.

        Raises:
            UsageError: there is no limit of that name, or the maximum is not a whole number of at least 1.
        """
        limit = self._by_name.get(name)
        if limit is None:
            raise UsageError(f"There is no limit named {name!r}.", hint=did_you_mean(name, self._by_name))
        if maximum is not None and maximum < 1:
            raise UsageError(f"{name} cannot be {maximum}.", hint="A limit is a whole number, at least 1.")
        for changed in (limit, *self._active) if limit is self.run else (limit,):
            changed.maximum = maximum

    def apply(self, spec: EvalSpec) -> None:
        """Sets the limits of the run and its tasks as the eval has them now."""
        for name, maximum in _maxima(spec).items():
            self.set_maximum(name, maximum)


def most_solved_at_once(spec: EvalSpec) -> int:
    """How many trials the limits of an eval let solve at once."""
    found = [
        spec.runner.concurrency_limit,
        spec.runner.concurrency_limits.solve,
        _sum_of_limits(map(_of_task, spec.tasks.values())),
    ]
    found.append(_sum_of_limits(model.concurrency_limit for model in spec.models.values()))
    return min(limit for limit in found if limit is not None)


def _of_task(task: TaskSpec) -> int | None:
    own = (task.runner.concurrency_limit, task.runner.concurrency_limits.solve)
    return min((limit for limit in own if limit is not None), default=None)


def _sum_of_limits(limits: Iterable[int | None]) -> int | None:
    """What several may have together; None if one of them has no limit, or there are none."""
    found = list(limits)
    known = [limit for limit in found if limit is not None]
    return sum(known) if found and len(known) == len(found) else None


def _task_path(task: str) -> str:
    return f"tasks.{task}.runner"


def _maxima(spec: EvalSpec) -> dict[str, int | None]:
    """What the eval sets for the run, its tasks and their stages."""
    found = {RUN_LIMIT: spec.runner.concurrency_limit, **_stage_maxima("runner", spec.runner.concurrency_limits)}
    for name, task in spec.tasks.items():
        path = _task_path(name)
        found[f"{path}.concurrency_limit"] = task.runner.concurrency_limit
        found |= _stage_maxima(path, task.runner.concurrency_limits)
    return found


def _stage_maxima(path: str, limits: StageLimits) -> dict[str, int | None]:
    return {f"{path}.concurrency_limits.{stage}": getattr(limits, stage) for stage in STAGES}
