"""The observers of a session: those that the caller gives, and those of installed packages.

A package offers one through an entry point in the group "holdfast.observers", which names a function without arguments.
It is called once for each session, before anything is written, and returns the observer, or None to leave this session
alone. What cannot be loaded is refused: somebody relies on it.
"""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Iterable

from holdfast.engine.events import Observer
from holdfast.engine.observers import observer_name
from holdfast.engine.trials.error_boundary import Outcome, guard_call
from holdfast.errors import ConfigurationError, UsageError

GROUP = "holdfast.observers"


def find_observers(given: Iterable[Observer] = ()) -> list[Observer]:
    """The observers that a session has: those given, then those of installed packages, by the names of their points.

    Raises:
        UsageError: one that is given cannot be called with an event.
        ConfigurationError: one of a package cannot be loaded.
    """
    observers = list(given)
    for observer in observers:
        if fault := _fault(observer):
            raise UsageError(f"The observer {observer_name(observer)} {fault}.", hint=_PLAIN)
    points = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    made = map(_load_observer, points)
    return [*observers, *(observer for observer in made if observer is not None)]


_PLAIN = "An observer is a plain function of one event."


def _fault(observer: object) -> str:
    if not callable(observer):
        return "is not a function"
    call = getattr(type(observer), "__call__", None)  # noqa: B004 - its code, not whether there is one
    is_async = inspect.iscoroutinefunction(observer) or inspect.iscoroutinefunction(call)
    return "is a coroutine function" if is_async else ""


def _load_observer(point: importlib.metadata.EntryPoint) -> Observer | None:
    loaded = guard_call(point.load)
    made = loaded if loaded.error is not None else _make(loaded)
    if made.error is not None:
        failure = made.failure()
        raise _refused(point, f"cannot be loaded: {failure.kind}: {' '.join(failure.message.split())[:200]}")
    observer: Observer | None = made.value  # type: ignore[assignment]
    if observer is not None and (fault := _fault(observer)):
        raise _refused(point, f"cannot be used: what it made ({type(observer).__name__}) {fault}")
    return observer


def _make(loaded: Outcome) -> Outcome:
    """What the function behind an entry point makes."""
    return guard_call(loaded.value) if callable(loaded.value) else Outcome(error=TypeError("it is not a function"))


def _refused(point: importlib.metadata.EntryPoint, why: str) -> ConfigurationError:
    package = point.dist.name if point.dist is not None else "its package"
    return ConfigurationError(
        f"The observer {point.name!r} ({point.value}) {why}.",
        hint=f"Repair or uninstall {package}; nothing was written.",
    )
