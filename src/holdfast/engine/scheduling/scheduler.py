"""Starting trials: as many as the limits allow, in turn from every task and model, and no earlier than needed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Generic, TypeVar

from holdfast.engine.scheduling.capacity import CapacityGrant, CapacityPool
from holdfast.engine.scheduling.concurrency_limits import Limit
from holdfast.engine.scheduling.holds import Holds

_END_SECONDS = 5.0
TrialT = TypeVar("TrialT")
"""What is started. The scheduler passes it on and never looks into it."""
RunTrial = Callable[[TrialT, CapacityGrant], Coroutine[Any, Any, None]]


class TrialQueue(Generic[TrialT]):
    """The trials of one task and model, and the capacity that one of them needs to start.

    `active` bounds those that have started and not ended.
    """

    def __init__(self, trials: Iterator[TrialT], limits: tuple[Limit, ...], active: Limit, model: str = "") -> None:
        self.trials, self.active, self.model = trials, active, model
        self.limits, self.needed = limits, (*limits, active)


class Scheduler(Generic[TrialT]):
    """Runs all trials of all queues."""

    def __init__(self, run_limit: Limit, holds: Holds) -> None:
        """Every trial needs capacity of `run_limit`: while it is full no queue has to be checked."""
        self._run_limit, self._holds = run_limit, holds
        self._wake = asyncio.Event()
        holds.listen(self._wake.set)
        self.capacity = CapacityPool(self._wake.set)
        self._queues: deque[TrialQueue[TrialT]] = deque()
        self.tasks: set[asyncio.Task[None]] = set()
        self._stopped = False
        self._error: BaseException | None = None

    def add(self, queue: TrialQueue[TrialT]) -> None:
        self._queues.append(queue)

    def drop_model(self, model: str) -> None:
        """Starts no more trials of a model."""
        self._queues = deque(queue for queue in self._queues if queue.model != model)
        self._wake.set()

    def stop(self) -> None:
        """Starts nothing more."""
        self._stopped = True
        self._wake.set()

    def cancel(self) -> None:
        """Stops everything that is running."""
        self.stop()
        for task in self.tasks:
            task.cancel()

    async def end(self) -> None:
        """Stops everything, and waits a moment for it."""
        self.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=_END_SECONDS)

    async def run(self, run_trial: RunTrial[TrialT]) -> None:
        """Runs trials; returns once none is running and no more are to start.

        Raises:
            StorageFailure: a trial could not be recorded; everything else has been stopped.
        """
        while True:
            self._wake.clear()
            if not self._stopped:
                self._admit(run_trial)
            if not self.tasks and (self._stopped or not self._queues):
                break
            await self._wake.wait()
        if self._error is not None:
            raise self._error

    def _admit(self, run_trial: RunTrial[TrialT]) -> None:
        """Starts one trial of each queue in turn until none has room."""
        blocked = 0
        while blocked < len(self._queues) and not self._run_limit.is_full:
            queue = self._queues[0]
            if self._holds.stop(queue.model) or not self.capacity.try_acquire(queue.needed):
                blocked += 1
                self._queues.rotate(-1)
                continue
            trial = next(queue.trials, None)
            if trial is None:
                self._queues.popleft()
                for limit in queue.needed:
                    limit.in_use -= 1
                continue
            blocked = 0
            self._queues.rotate(-1)
            self._start(trial, queue, run_trial)

    def _start(self, trial: TrialT, queue: TrialQueue[TrialT], run_trial: RunTrial[TrialT]) -> None:
        grant = CapacityGrant(self.capacity, queue.limits)
        # Made directly: it belongs to no solver, so whatever makes the tasks of solvers need not look at it.
        task = asyncio.Task(run_trial(trial, grant), loop=asyncio.get_running_loop())
        self.tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self.tasks.discard(task)
            queue.active.in_use -= 1
            grant.release()
            if not task.cancelled() and (error := task.exception()) is not None:
                self.fail(error)
            self._wake.set()

        task.add_done_callback(ended)

    def fail(self, error: BaseException) -> None:
        """The session cannot continue: a trial raised something that is not an outcome, or the run is gone."""
        if self._error is None:
            self._error = error
            self.cancel()
