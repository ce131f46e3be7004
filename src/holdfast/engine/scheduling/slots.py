"""The four limits: run, task, stage and model.

A trial takes a slot of every level that its stage needs in one go, or none: a trial that waits to begin holds nothing,
so a task or model with a narrow limit never keeps the others from the run's slots. A model's slot is held until the
reply is complete, and taken again for the next call. Trials under way come before those that have not started,
because finishing frees more than beginning.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable


class Limit:
    """One limit, and how much of it is taken."""

    __slots__ = ("limit", "name", "taken")

    def __init__(self, name: str, limit: int | None) -> None:
        self.name, self.limit, self.taken = name, limit, 0

    @property
    def is_full(self) -> bool:
        return self.limit is not None and self.taken >= self.limit


Turn = asyncio.Future[None]


class SlotPool:
    """All limits of a run. Everything here happens in the event loop's thread, between two awaits."""

    def __init__(self, on_free: Callable[[], None]) -> None:
        self._on_free = on_free
        self._waiting: dict[tuple[Limit, ...], deque[Turn]] = {}
        """Who waits, in the order of arrival, by what they wait for."""

    def try_take(self, levels: tuple[Limit, ...]) -> bool:
        """Takes one slot of each level, or none."""
        for level in levels:
            if level.limit is not None and level.taken >= level.limit:
                return False
        for level in levels:
            level.taken += 1
        return True

    async def take(self, levels: tuple[Limit, ...]) -> None:
        """Waits until one slot of each level can be taken at once, and takes them."""
        if levels not in self._waiting and self.try_take(levels):
            return
        turn: Turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(levels, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # The turn may have come in the same moment.
            if turn.done() and not turn.cancelled():
                self.give(levels)
            raise

    def give(self, levels: Iterable[Limit]) -> None:
        """Gives the slots back and lets the next go on."""
        for level in levels:
            level.taken -= 1
        self._serve()
        self._on_free()

    def _serve(self) -> None:
        """Lets everyone go on who can, one of each kind in turn; one that cannot does not hold up the others."""
        served = True
        while served and self._waiting:
            served = False
            for levels in list(self._waiting):
                served = self._serve_one(levels) or served

    def _serve_one(self, levels: tuple[Limit, ...]) -> bool:
        turns = self._waiting[levels]
        while turns and turns[0].done():
            turns.popleft()
        served = bool(turns) and self.try_take(levels)
        if served:
            turns.popleft().set_result(None)
        if not turns:
            del self._waiting[levels]
        return served
