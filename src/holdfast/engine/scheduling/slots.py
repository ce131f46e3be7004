"""Slots of the four limits: run, task, stage and model.

A trial takes a slot of every limit that its stage needs at once, or none: a trial that waits to start holds nothing,
so a task or model with a narrow limit never keeps the others from the run's slots. A model's slot is held until the
reply is complete, and taken again for the next call. Running trials come before those that have not started,
because finishing frees more than starting.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from holdfast.engine.scheduling.concurrency_limits import Limit

Turn = asyncio.Future[None]


class SlotPool:
    """The slots of all limits of a run. Everything here happens in the event loop's thread, between two awaits."""

    def __init__(self, on_free: Callable[[], None]) -> None:
        self._on_free = on_free
        self._waiting: dict[tuple[Limit, ...], deque[Turn]] = {}
        """Who waits, in the order of arrival, by what they wait for."""

    def try_acquire(self, limits: tuple[Limit, ...]) -> bool:
        """Takes one slot of each limit, or none."""
        for limit in limits:
            if limit.maximum is not None and limit.in_use >= limit.maximum:
                return False
        for limit in limits:
            limit.in_use += 1
        return True

    async def acquire(self, limits: tuple[Limit, ...]) -> None:
        """Waits until one slot of each limit can be taken at once, and takes them."""
        if limits not in self._waiting and self.try_acquire(limits):
            return
        turn: Turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(limits, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # The turn may have come in the same moment.
            if turn.done() and not turn.cancelled():
                self.release(limits)
            raise

    def release(self, limits: Iterable[Limit]) -> None:
        """Gives the slots back and lets the next continue."""
        for limit in limits:
            limit.in_use -= 1
        self._serve_waiting()
        self._on_free()

    def _serve_waiting(self) -> None:
        """Lets everyone continue who can, one of each kind in turn; one that cannot does not hold up the others."""
        served = True
        while served and self._waiting:
            served = False
            for limits in list(self._waiting):
                served = self._serve_next(limits) or served

    def _serve_next(self, limits: tuple[Limit, ...]) -> bool:
        turns = self._waiting[limits]
        while turns and turns[0].done():
            turns.popleft()
        served = bool(turns) and self.try_acquire(limits)
        if served:
            turns.popleft().set_result(None)
        if not turns:
            del self._waiting[limits]
        return served


class SlotGrant:
    """The slots that a trial holds; it may exchange them when its stage changes."""

    __slots__ = ("_pool", "limits")

    def __init__(self, pool: SlotPool, limits: tuple[Limit, ...]) -> None:
        self._pool, self.limits = pool, limits

    async def change(self, limits: tuple[Limit, ...]) -> None:
        """Gives everything back, then waits for the slots of another stage; fewer of the same need no wait."""
        if limits == self.limits:
            return
        if all(limit in self.limits for limit in limits):
            spare = [limit for limit in self.limits if limit not in limits]
            self.limits = limits
            self._pool.release(spare)
            return
        self.release()
        await self._pool.acquire(limits)
        self.limits = limits

    def hand_over(self, limit: Limit) -> bool:
        """Whether there is a slot of this limit here for a call of the trial, which owns it from then on."""
        if limit not in self.limits:
            return False
        self.limits = tuple(other for other in self.limits if other is not limit)
        return True

    def release(self) -> None:
        limits, self.limits = self.limits, ()
        if limits:
            self._pool.release(limits)
