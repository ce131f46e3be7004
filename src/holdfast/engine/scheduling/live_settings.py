"""The settings that may change while a session runs, in one place.

Code reads a setting when it is needed and keeps no copy, so that a change takes effect at once. Code that has to act
on a change (a limit that lets waiting calls in) subscribes.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.spec import EvalSpec, ModelSpec


class LiveSettings:
    """The resolved eval as it is in force now."""

    def __init__(self, spec: EvalSpec) -> None:
        self.spec = spec
        self._listeners: list[Callable[[EvalSpec], None]] = []

    def listen(self, listener: Callable[[EvalSpec], None]) -> None:
        """Calls `listener` with the eval now, and whenever it changes."""
        self._listeners.append(listener)
        listener(self.spec)

    def change(self, spec: EvalSpec) -> None:
        """From now on this eval is in force: the same, but for settings that decide only how fast the work is done."""
        self.spec = spec
        for listener in self._listeners:
            listener(spec)

    @property
    def grace_period(self) -> float:
        return self.spec.runner.grace_period

    def retry_deadline(self, task: str) -> float:
        """Seconds for which a call of this task may keep failing."""
        own = self.spec.tasks[task].runner.retry_deadline
        return self.spec.runner.retry_deadline if own is None else own

    def model(self, name: str) -> ModelSpec:
        return self.spec.models[name]
