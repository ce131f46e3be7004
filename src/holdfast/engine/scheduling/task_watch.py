"""The watch over the first trials of a task: do all of them fail alike?

A bug in a task's own code fails every trial. The watch spares the calls that would only repeat it: until a trial is
valid, or ten first attempts have ended, no second attempt starts. If those ten failed alike, a few others are tried one
at a time, and if these fail alike too, the task is stopped. One success ends the watch. Here are the counting and the
rules; nothing is started or recorded here.
"""

from __future__ import annotations

import enum

FIRST_TRIALS = 10
"""As many ended first attempts decide, and as many others are tried then; all of a smaller task."""


class WatchPhase(enum.Enum):
    """What the watch is waiting for."""

    OPENING = "opening"
    """The first ends."""
    DRAINING = "draining"
    """They are alike; trials that run already come to their ends."""
    CHECKING = "checking"
    """The ends of others that were drawn, one at a time."""
    OVER = "over"
    """Nothing: everything may start, or the task is stopped."""


class TaskWatch:
    """The watch over one task, with all of its models: they run the same code."""

    def __init__(self, planned: int) -> None:
        """`planned` is the number of its trials."""
        self._planned = planned
        self.phase = WatchPhase.OPENING
        self.error = ""
        """What the errors so far have in common."""
        self.ended = 0
        """First attempts that have ended, now or on record."""
        self.alike = 0
        """Of those, the ones that failed with the same error."""
        self.active = 0
        """Trials that run now."""
        self.checked = 0
        """Those of the drawn ones that failed alike."""

    @property
    def is_over(self) -> bool:
        return self.phase is WatchPhase.OVER

    def allows(self, *, is_in_front: bool) -> bool:
        """Whether a trial may start now; one that was put in front of the others may."""
        if is_in_front or self.phase is WatchPhase.OVER:
            return True
        # Before the first end nothing is known, and nobody has to wait. After it no more are started than decide.
        is_undecided = not self.ended or self.ended + self.active < FIRST_TRIALS
        return self.phase is WatchPhase.OPENING and is_undecided

    def count(self, error: str, *, is_drawn: bool = False) -> bool:
        """A first attempt has ended; `error` identifies the error of the task's code, and is empty for any other end.

        Gives whether the trials do not all fail alike: then the watch has nothing more to do.
        """
        self.ended += 1
        if self.phase is WatchPhase.OPENING:
            return self._count_first(error)
        self.alike += error == self.error
        if self.phase is WatchPhase.CHECKING and is_drawn:
            self.checked += error == self.error
            return error != self.error
        return False

    def _count_first(self, error: str) -> bool:
        if self.ended == 1:
            self.error = error
        elif error != self.error:
            self.error = ""
        self.alike += bool(self.error)
        if self.ended < min(FIRST_TRIALS, self._planned):
            return False
        if self.error:
            self.phase = WatchPhase.DRAINING
        return not self.error

    @property
    def is_quiet(self) -> bool:
        """Whether the first trials failed alike, and none of the task runs any more."""
        return self.phase in {WatchPhase.DRAINING, WatchPhase.CHECKING} and not self.active

    @property
    def has_checked(self) -> bool:
        """Whether as many others as are tried have failed alike."""
        return self.checked >= FIRST_TRIALS

    def end(self) -> None:
        """The watch is over."""
        self.phase = WatchPhase.OVER
