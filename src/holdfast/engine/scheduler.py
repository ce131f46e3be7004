"""Starting trials: as many as the limits allow, in turn from every task and model, and no earlier than needed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from holdfast.engine.plan import Cell
from holdfast.engine.slots import Level, Slots

_END_SECONDS = 5.0
Carry = Callable[[Cell, "Ticket"], Coroutine[Any, Any, None]]


class Ticket:
    """The slots that a trial holds; it may change them when it changes its stage."""

    __slots__ = ("_slots", "levels")

    def __init__(self, slots: Slots, levels: tuple[Level, ...]) -> None:
        self._slots, self.levels = slots, levels

    async def change(self, levels: tuple[Level, ...]) -> None:
        """Gives everything back, then waits for the slots of another stage."""
        if levels == self.levels:
            return
        self.give()
        await self._slots.take(levels)
        self.levels = levels

    def give(self) -> None:
        levels, self.levels = self.levels, ()
        if levels:
            self._slots.give(levels)


class LaneQueue:
    """A lane's trials, and the slots that one of them needs to begin; `active` bounds those begun and not ended."""

    def __init__(self, cells: Iterator[Cell], levels: tuple[Level, ...], active: Level) -> None:
        self.cells, self.levels, self.active = cells, levels, active


class Scheduler:
    """Carries out all trials of all lanes."""

    def __init__(self, carry: Carry) -> None:
        self._carry = carry
        self._wake = asyncio.Event()
        self.slots = Slots(self._wake.set)
        self._lanes: deque[LaneQueue] = deque()
        self.tasks: set[asyncio.Task[None]] = set()
        self._stopped = False
        self._error: BaseException | None = None

    def add(self, lane: LaneQueue) -> None:
        self._lanes.append(lane)

    def stop(self) -> None:
        """Starts nothing more."""
        self._stopped = True
        self._wake.set()

    def cancel(self) -> None:
        """Stops everything that is under way."""
        self.stop()
        for task in self.tasks:
            task.cancel()

    async def end(self) -> None:
        """Stops everything, and waits a moment for it."""
        self.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=_END_SECONDS)

    async def run(self) -> None:
        """Returns once nothing is under way and nothing more is to start.

        Raises:
            StorageFailure: a trial met the end of the journal; everything else has been stopped.
        """
        while True:
            self._wake.clear()
            if not self._stopped:
                self._admit()
            if not self.tasks and (self._stopped or not self._lanes):
                break
            await self._wake.wait()
        if self._error is not None:
            raise self._error

    def _admit(self) -> None:
        """Starts one trial of each lane in turn until none has room."""
        blocked = 0
        while self._lanes and blocked < len(self._lanes):
            lane = self._lanes[0]
            levels = (*lane.levels, lane.active)
            if not self.slots.try_take(levels):
                blocked += 1
                self._lanes.rotate(-1)
                continue
            cell = next(lane.cells, None)
            if cell is None:
                self._lanes.popleft()
                for level in levels:
                    level.taken -= 1
                continue
            blocked = 0
            self._lanes.rotate(-1)
            self._start(cell, lane)

    def _start(self, cell: Cell, lane: LaneQueue) -> None:
        ticket = Ticket(self.slots, lane.levels)
        task = asyncio.get_running_loop().create_task(self._carry(cell, ticket))
        self.tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self.tasks.discard(task)
            lane.active.taken -= 1
            ticket.give()
            if not task.cancelled() and (error := task.exception()) is not None:
                self._fail(error)
            self._wake.set()

        task.add_done_callback(ended)

    def _fail(self, error: BaseException) -> None:
        """A trial ended with what is no outcome of a trial: the session cannot go on."""
        if self._error is None:
            self._error = error
            self.cancel()
