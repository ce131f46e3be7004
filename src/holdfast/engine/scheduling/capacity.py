"""The capacity of the four limits: run, task, stage and model.

A trial takes one unit of every limit that its stage needs at once, or none: a trial that waits to start holds nothing,
so a task or model with a narrow limit never keeps the others from the run's capacity. A model's unit is held until the
reply is complete, and taken again for the next call. Running trials come before those that have not started,
because finishing frees more than starting.

The maximum of a limit is read whenever capacity is requested, so it can be changed at any moment: a higher one lets
waiting trials in at once, a lower one revokes nothing and lets nobody in until fewer are in use.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from holdfast.engine.scheduling.concurrency_limits import Limit

Turn = asyncio.Future[None]


class CapacityPool:
    """The capacity of all limits of a run. Everything here happens in the event loop's thread, between two awaits."""

    def __init__(self, on_free: Callable[[], None]) -> None:
        self._on_free = on_free
        self._waiting: dict[tuple[Limit, ...], deque[Turn]] = {}
        """Who waits, in the order of arrival, by what they wait for."""

    def try_acquire(self, limits: tuple[Limit, ...]) -> bool:
        """Takes one unit of each limit, or none."""
        for limit in limits:
            if limit.maximum is not None and limit.in_use >= limit.maximum:
                return False
        for limit in limits:
            limit.in_use += 1
        return True

    def acquire_nowait(self, limits: tuple[Limit, ...], held: tuple[Limit, ...] = ()) -> bool:
        """Takes one unit of each limit except those that are held already, or none.

        Nobody overtakes others who wait for the same limits.
        """
        if limits in self._waiting:
            return False
        return self.try_acquire(tuple([limit for limit in limits if limit not in held]) if held else limits)

    async def acquire(self, limits: tuple[Limit, ...]) -> None:
        """Waits until one unit of each limit can be taken at once, and takes them."""
        if self.acquire_nowait(limits):
            return
        turn: Turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(limits, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # The turn may have come in the same moment as the cancellation: then the units are ours to return.
            if turn.done() and not turn.cancelled():
                self.release(limits)
            raise

    def release(self, limits: Iterable[Limit]) -> None:
        """Returns the units and lets the next continue."""
        is_freed = False
        for limit in limits:
            # Waiting trials can only continue if a limit was full and no longer is.
            is_freed = is_freed or limit.in_use == limit.maximum
            limit.in_use -= 1
        if is_freed:
            self.serve()

    def serve(self) -> None:
        """Lets everyone continue who can: capacity was returned, or a maximum has changed."""
        self._serve_waiting()
        self._on_free()

    def _serve_waiting(self) -> None:
        """One of each kind in turn; one that cannot continue does not hold up the others."""
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


class CapacityGrant:
    """The capacity that a trial holds; it may exchange it when its stage changes."""

    __slots__ = ("_pool", "limits")

    def __init__(self, pool: CapacityPool, limits: tuple[Limit, ...]) -> None:
        self._pool, self.limits = pool, limits

    async def change(self, limits: tuple[Limit, ...]) -> None:
        """Exchanges the capacity for that of another stage.

        If that is not free now, everything is returned before it waits: a waiting trial holds nothing.
        """
        held = self.limits
        if self._pool.acquire_nowait(limits, held):
            self.limits = limits
            self._pool.release([limit for limit in held if limit not in limits])
            return
        self.release()
        await self._pool.acquire(limits)
        self.limits = limits

    def hand_over(self, limit: Limit) -> bool:
        """Whether the grant holds a unit of this limit for a call of the trial, which owns it from then on."""
        limits = self.limits
        # A trial starts with its model's limit in the first place.
        if not limits or limits[0] is not limit:
            return False
        self.limits = limits[1:]
        return True

    def release(self) -> None:
        limits, self.limits = self.limits, ()
        if limits:
            self._pool.release(limits)
