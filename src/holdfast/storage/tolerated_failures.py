"""Failures outside the journal that do not stop a run: an index, a heartbeat, an upload.

No acknowledged record depends on any of these, so the run continues. But no failure is hidden: each is counted under
the name of what could not be written, with the last reason, and the first of each name is reported to the listener at
once.
"""

import threading
from collections.abc import Callable, Iterable

import msgspec


class ToleratedFailure(msgspec.Struct, frozen=True):
    """Something that could not be written, and how often."""

    what: str
    count: int
    reason: str
    """The last one."""

    def __str__(self) -> str:
        times = "" if self.count == 1 else f" ({self.count} times)"
        return f"{self.what} could not be written{times}: {self.reason}"


class ToleratedFailures:
    """The failures of one part of the program; may be noted from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, ToleratedFailure] = {}
        self._tell: Callable[[ToleratedFailure], None] | None = None

    def note(self, what: str, error: OSError | str) -> None:
        """Counts a failure; the first of its name is reported."""
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else error
        with self._lock:
            before = self._found.get(what)
            failure = self._found[what] = ToleratedFailure(what, before.count + 1 if before else 1, reason)
            tell = self._tell if before is None else None
        if tell is not None:
            tell(failure)

    def listen(self, tell: Callable[[ToleratedFailure], None]) -> None:
        """From now on `tell` gets the first failure of every name; what failed before, it gets at once."""
        with self._lock:
            self._tell, before = tell, list(self._found.values())
        for failure in before:
            tell(failure)

    def all(self) -> list[ToleratedFailure]:
        with self._lock:
            return list(self._found.values())


def merge_failures(parts: Iterable[ToleratedFailures]) -> list[ToleratedFailure]:
    """The failures of several parts, by name; each name belongs to one part."""
    return sorted((failure for part in parts for failure in part.all()), key=lambda failure: failure.what)
