"""The concurrency limits of an eval: of the run, its tasks, its stages and its models."""

from __future__ import annotations

from holdfast.spec import EvalSpec, StageLimits


class Limit:
    """One concurrency limit, and how much of it is in use."""

    __slots__ = ("in_use", "maximum", "name")

    def __init__(self, name: str, maximum: int | None) -> None:
        """Without a maximum, use is counted and never refused."""
        self.name, self.maximum, self.in_use = name, maximum, 0

    @property
    def is_full(self) -> bool:
        return self.maximum is not None and self.in_use >= self.maximum


class EvalLimits:
    """One limit for every maximum that the eval sets."""

    def __init__(self, spec: EvalSpec) -> None:
        runner = spec.runner
        self.run = Limit("run", runner.concurrency_limit)
        self._stages = _stage_limits("run", runner.concurrency_limits)
        self._tasks = {name: Limit(name, task.runner.concurrency_limit) for name, task in spec.tasks.items()}
        self._task_stages = {
            name: _stage_limits(name, task.runner.concurrency_limits) for name, task in spec.tasks.items()
        }
        self.score = {task: self._of_stage(task, "score") for task in spec.tasks}
        """By task, what a trial needs to be scored."""

    def _of_stage(self, task: str, stage: str) -> tuple[Limit, ...]:
        limits = (self._task_stages[task][stage], self._stages[stage], self._tasks[task], self.run)
        return tuple(limit for limit in limits if limit.maximum is not None)

    def solve(self, task: str, model: Limit) -> tuple[Limit, ...]:
        """What a trial needs to start, narrowest first; the model's slot is for its first call."""
        return (*((model,) if model.maximum is not None else ()), *self._of_stage(task, "solve"))

    def active(self) -> Limit:
        """A new limit on the trials of one queue that have started and not ended, whatever they wait for.

        Each queue has its own: trials that wait to be scored keep no other task or model from starting.
        """
        return Limit("active", self.run.maximum)


def _stage_limits(owner: str, limits: StageLimits) -> dict[str, Limit]:
    return {"solve": Limit(f"{owner}.solve", limits.solve), "score": Limit(f"{owner}.score", limits.score)}
