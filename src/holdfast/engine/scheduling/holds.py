"""Holds: reasons why nothing new may start at the moment, for all calls or for those of one model.

Several may be in force at once, each under its own reason; work starts again when the last one that concerns it is
released. What is running is not touched. Everything here happens in the event loop's thread, except that a hold may
be placed by the handler of a signal, between two bytecodes of that thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from holdfast.engine.scheduling.clock import Clock

ALL_MODELS = ""


class Hold(NamedTuple):
    """Why nothing new starts, of which model, and since when."""

    reason: str
    model: str
    """Empty for all of them, and for work that calls none."""
    since: float
    """Seconds since the epoch."""


class Holds:
    """The holds in force."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._in_force: dict[tuple[str, str], Hold] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._listeners: list[Callable[[], None]] = []

    def place(self, reason: str, model: str = ALL_MODELS) -> bool:
        """Nothing new starts from now on; a hold that is in force already stays as it is. Whether this one is new."""
        if (reason, model) in self._in_force:
            return False
        self._in_force[reason, model] = Hold(reason, model, self._clock.wall())
        return True

    def release(self, reason: str, model: str = ALL_MODELS) -> bool:
        """The reason no longer holds; whether it did."""
        if self._in_force.pop((reason, model), None) is None:
            return False
        self._wake()
        return True

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
        for listener in self._listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Calls `listener` whenever a hold is released."""
        self._listeners.append(listener)

    def stop(self, model: str) -> bool:
        """Whether work that calls this model may not start now."""
        # Asked for every call, and nearly always of an empty dict.
        return bool(self._in_force) and any(held in (ALL_MODELS, model) for _, held in list(self._in_force))

    def in_force(self) -> list[Hold]:
        """The holds in force, the oldest first."""
        return list(self._in_force.values())

    async def changed(self) -> None:
        """Waits until a hold is released; others may still be in force."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter
