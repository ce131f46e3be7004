"""Time as an argument: the engine uses a Clock, so that a test can let an hour pass in no time."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """The clock that the engine uses."""

    def monotonic(self) -> float:
        """Seconds that never go backwards; for waiting and for durations."""

    def wall(self) -> float:
        """Seconds since the epoch; for people, never compared."""

    async def sleep(self, seconds: float) -> None:
        """Returns after a number of seconds of this clock."""


class RealClock:
    """The machine's own time."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
