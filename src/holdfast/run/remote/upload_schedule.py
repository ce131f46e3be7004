"""When the next upload is due: the interval of a session, which grows, and growing pauses after failures.

Every upload of a run that grows is one more object, which every reader has to fetch. So under `durability: local` the
interval is short in the first ten minutes, and a minute from then on: a day has about 1,500 objects. Time is passed
in.
"""

from __future__ import annotations

import time
from collections.abc import Callable

FIRST_INTERVAL, LATER_INTERVAL = 5.0, 60.0
"""Seconds between two uploads unless the eval says otherwise."""
GROWS_AFTER = 600.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


class UploadSchedule:
    """Says how long to wait before the next round of uploads."""

    def __init__(
        self, interval: float | None = None, *, grows: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`interval` is what the eval sets, if it sets one; only another one `grows`."""
        self._set, self._grows, self._clock = interval, grows, clock
        self._began = clock()
        self._failures = 0

    @property
    def interval(self) -> float:
        """The seconds between two uploads now."""
        if self._set is not None:
            return self._set
        is_late = self._grows and self._clock() - self._began >= GROWS_AFTER
        return LATER_INTERVAL if is_late else FIRST_INTERVAL

    def pause(self, *, succeeded: bool) -> float:
        """How long to wait after a round: after one that failed longer and longer."""
        if succeeded:
            self._failures = 0
            return self.interval
        self._failures += 1
        return float(min(_FIRST_PAUSE * 2 ** min(self._failures - 1, 16), _LONGEST_PAUSE))

    def forgive(self) -> None:
        """The next failure is followed by a short pause again: the session is about to end."""
        self._failures = 0
