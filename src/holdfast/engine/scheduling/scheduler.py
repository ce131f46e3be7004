"""Starting trials: as many as the limits allow, in turn from every task and model, and no earlier than needed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from holdfast.engine.planning.plan import PlannedTrial
from holdfast.engine.scheduling.slots import Limit, SlotPool

_END_SECONDS = 5.0
RunTrial = Callable[[PlannedTrial, "SlotGrant"], Coroutine[Any, Any, None]]


class SlotGrant:
    """The slots that a trial holds; it may change them when it changes its stage."""

    __slots__ = ("_slots", "levels")

    def __init__(self, slots: SlotPool, levels: tuple[Limit, ...]) -> None:
        self._slots, self.levels = slots, levels

    async def change(self, levels: tuple[Limit, ...]) -> None:
        """Gives everything back, then waits for the slots of another stage; fewer of the same are there at once."""
        if levels == self.levels:
            return
        if all(level in self.levels for level in levels):
            spare = [level for level in self.levels if level not in levels]
            self.levels = levels
            self._slots.give(spare)
            return
        self.give()
        await self._slots.take(levels)
        self.levels = levels

    def hand_over(self, level: Limit) -> bool:
        """Whether there is a slot of this level here for a call of the trial, whose it is from then on."""
        if level not in self.levels:
            return False
        self.levels = tuple(other for other in self.levels if other is not level)
        return True

    def give(self) -> None:
        levels, self.levels = self.levels, ()
        if levels:
            self._slots.give(levels)


class TrialQueue:
    """A lane's trials, and the slots that one of them needs to begin; `active` bounds those begun and not ended."""

    def __init__(
        self, cells: Iterator[PlannedTrial], levels: tuple[Limit, ...], active: Limit, model: str = ""
    ) -> None:
        self.cells, self.active, self.model = cells, active, model
        self.levels, self.needed = levels, (*levels, active)


class Scheduler:
    """Carries out all trials of all lanes."""

    def __init__(self, whole: Limit) -> None:
        """`whole` is a level that every trial needs: while it is full no lane has to be asked."""
        self._whole = whole
        self._wake = asyncio.Event()
        self.slots = SlotPool(self._wake.set)
        self._lanes: deque[TrialQueue] = deque()
        self.tasks: set[asyncio.Task[None]] = set()
        self._stopped = self._has_dropped = False
        self._error: BaseException | None = None

    def add(self, lane: TrialQueue) -> None:
        self._lanes.append(lane)

    @property
    def is_through(self) -> bool:
        """Whether every lane has been gone through to its end."""
        return not self._lanes and not self._has_dropped

    def drop(self, model: str) -> None:
        """Starts no more trials of a model."""
        self._has_dropped = True
        self._lanes = deque(lane for lane in self._lanes if lane.model != model)
        self._wake.set()

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

    async def run(self, carry: RunTrial) -> None:
        """Carries trials out; returns once nothing is under way and nothing more is to start.

        Raises:
            StorageFailure: a trial met the end of the journal; everything else has been stopped.
        """
        while True:
            self._wake.clear()
            if not self._stopped:
                self._admit(carry)
            if not self.tasks and (self._stopped or not self._lanes):
                break
            await self._wake.wait()
        if self._error is not None:
            raise self._error

    def _admit(self, carry: RunTrial) -> None:
        """Starts one trial of each lane in turn until none has room."""
        blocked = 0
        while blocked < len(self._lanes) and not self._whole.is_full:
            lane = self._lanes[0]
            if not self.slots.try_take(lane.needed):
                blocked += 1
                self._lanes.rotate(-1)
                continue
            cell = next(lane.cells, None)
            if cell is None:
                self._lanes.popleft()
                for level in lane.needed:
                    level.taken -= 1
                continue
            blocked = 0
            self._lanes.rotate(-1)
            self._start(cell, lane, carry)

    def _start(self, cell: PlannedTrial, lane: TrialQueue, carry: RunTrial) -> None:
        ticket = SlotGrant(self.slots, lane.levels)
        task = asyncio.get_running_loop().create_task(carry(cell, ticket))
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
