"""Observers from outside the engine: one that raises is disabled, and the run continues."""

from __future__ import annotations

from holdfast.engine.events import FAILED_OBSERVER, Events, Note, Observer
from holdfast.engine.trials.error_boundary import guard_call
from holdfast.engine.trials.scopes import IN_OBSERVER, Masking
from holdfast.event_type import Event


class GuardedObserver:
    """Calls an observer until it raises; that is noted once, with its name."""

    def __init__(self, events: Events, observer: Observer) -> None:
        self._events, self._observer = events, observer

    def __call__(self, event: Event) -> None:
        # Tasks that it starts are not branches of the solver in whose context it is called.
        with Masking(IN_OBSERVER):
            outcome = guard_call(self._observer, event)
        if outcome.error is None:
            return
        self._events.unsubscribe(self)
        failure = outcome.failure()
        name = observer_name(self._observer)
        self._events.emit(Note(FAILED_OBSERVER, name, f"{failure.kind}: {failure.message}", failure))


def observer_name(observer: object) -> str:
    """The module and the name of a function, or of the class of any other object."""
    named = observer if hasattr(observer, "__qualname__") else type(observer)
    return f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', '')}".strip(".")
