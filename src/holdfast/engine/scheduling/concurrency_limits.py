"""The limits of an eval, as slots: of the run, its tasks, its stages and its models."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.engine.scheduling.slots import Limit
from holdfast.spec import EvalSpec, StageLimits


class EvalLimits:
    """One level for every limit that the eval sets."""

    def __init__(self, spec: EvalSpec, models: Mapping[str, Limit]) -> None:
        runner = spec.runner
        self._models = models
        self.run = Limit("run", runner.concurrency_limit)
        self._stages = _stages("run", runner.concurrency_limits)
        self._tasks = {name: Limit(name, task.runner.concurrency_limit) for name, task in spec.tasks.items()}
        self._task_stages = {name: _stages(name, task.runner.concurrency_limits) for name, task in spec.tasks.items()}
        self.score = {task: self._of(task, "score") for task in spec.tasks}

    def _of(self, task: str, stage: str) -> tuple[Limit, ...]:
        levels = (self._task_stages[task][stage], self._stages[stage], self._tasks[task], self.run)
        return tuple(level for level in levels if level.limit is not None)

    def solve_of(self, task: str, model: str) -> tuple[Limit, ...]:
        """What a trial takes to begin, narrowest first; the model's slot is for its first call."""
        own = self._models[model]
        return (*((own,) if own.limit is not None else ()), *self._of(task, "solve"))

    def active(self) -> Limit:
        """Bounds the trials of one lane that have begun and not ended, whatever they wait for.

        Each lane has its own: trials that wait to be scored keep no other task or model from beginning.
        """
        return Limit("active", self.run.limit)


def _stages(owner: str, limits: StageLimits) -> dict[str, Limit]:
    return {"solve": Limit(f"{owner}.solve", limits.solve), "score": Limit(f"{owner}.score", limits.score)}
