"""The four limits: run, task, stage and model.

A trial takes a slot of every level that its stage needs in one go, or none: a trial that waits holds nothing, so a
task or model with a narrow limit never keeps the others from the run's slots. A trial that changes its stage comes
before one that has not started, because finishing frees more than beginning.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable


class Level:
    """One limit, and how much of it is taken."""

    __slots__ = ("limit", "name", "taken")

    def __init__(self, name: str, limit: int | None) -> None:
        self.name, self.limit, self.taken = name, limit, 0

    @property
    def is_full(self) -> bool:
        return self.limit is not None and self.taken >= self.limit


class Slots:
    """All limits of a run. Everything here happens in the event loop's thread, between two awaits."""

    def __init__(self, on_free: Callable[[], None]) -> None:
        self._on_free = on_free
        self._waiting: deque[tuple[tuple[Level, ...], asyncio.Future[None]]] = deque()

    def try_take(self, levels: Iterable[Level]) -> bool:
        """Takes one slot of each level, or none."""
        levels = tuple(levels)
        if any(level.is_full for level in levels):
            return False
        for level in levels:
            level.taken += 1
        return True

    async def take(self, levels: tuple[Level, ...]) -> None:
        """Waits until one slot of each level can be taken at once, and takes them."""
        if not self._waiting and self.try_take(levels):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((levels, turn))
        self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give(levels)
            raise

    def give(self, levels: Iterable[Level]) -> None:
        """Gives the slots back and lets the next go on."""
        for level in levels:
            level.taken -= 1
        self._serve()
        self._on_free()

    def _serve(self) -> None:
        """Lets everyone go on who can, in the order of arrival; one that cannot does not hold up those behind it."""
        if not self._waiting:
            return
        left: deque[tuple[tuple[Level, ...], asyncio.Future[None]]] = deque()
        for levels, turn in self._waiting:
            if turn.done():
                continue
            if self.try_take(levels):
                turn.set_result(None)
            else:
                left.append((levels, turn))
        self._waiting = left
