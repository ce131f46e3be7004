"""Starting trials: as many as the limits allow, in turn from every task and model, and no earlier than needed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Generic, TypeVar

from holdfast.engine.scheduling.capacity import CapacityGrant, CapacityPool
from holdfast.engine.scheduling.concurrency_limits import Limit
from holdfast.engine.scheduling.holds import Holds
from holdfast.engine.scheduling.task_watch import TaskWatch

_END_SECONDS = 5.0
TrialT = TypeVar("TrialT")
"""What is started. The scheduler passes it on and never looks into it."""
RunTrial = Callable[[TrialT, CapacityGrant], Coroutine[Any, Any, None]]


class TrialQueue(Generic[TrialT]):
    """The trials of one task and model, and the capacity that one of them needs to start.

    `active` bounds those that have started and not ended. A `watch` over the task may keep trials from starting; those
    in `front` come first.
    """

    def __init__(self, trials: Iterator[TrialT], limits: tuple[Limit, ...], active: Limit, model: str = "") -> None:
        self.trials, self.active, self.model = trials, active, model
        self.limits, self.needed = limits, (*limits, active)
        self.watch: TaskWatch | None = None
        self.front: deque[TrialT] = deque()

    @property
    def is_open(self) -> bool:
        """Whether the watch lets a trial start now."""
        return self.watch is None or self.watch.allows(is_in_front=bool(self.front))

    def take(self) -> TrialT | None:
        """The next trial, which starts now; None if absent."""
        trial = self.front.popleft() if self.front else next(self.trials, None)
        if trial is not None and self.watch is not None:
            self.watch.active += 1
        return trial


class Scheduler(Generic[TrialT]):
    """Runs all trials of all queues."""

    def __init__(self, run_limit: Limit, holds: Holds) -> None:
        """Every trial needs capacity of `run_limit`: while it is full no queue has to be checked."""
        self._run_limit, self._holds = run_limit, holds
        self._wake = asyncio.Event()
        holds.listen(self._wake.set)
        self.capacity = CapacityPool(self._wake.set)
        self._queues: deque[TrialQueue[TrialT]] = deque()
        self._dropped: set[str] = set()
        """The models of which nothing more is started."""
        self.tasks: set[asyncio.Task[None]] = set()
        self._stopped = False
        self._error: BaseException | None = None

    def add(self, queue: TrialQueue[TrialT]) -> None:
        """Starts the trials of a queue; also of one that has been added before and got more of them."""
        if queue not in self._queues and self.may_start(queue):
            self._queues.append(queue)
        self._wake.set()

    def may_start(self, queue: TrialQueue[TrialT]) -> bool:
        """Whether trials of a queue are started at all; not if its model was dropped."""
        return queue.model not in self._dropped

    def drop_model(self, model: str) -> None:
        """Starts no more trials of a model."""
        self._dropped.add(model)
        self._keep(self.may_start)

    def drop_watched(self, watch: TaskWatch) -> None:
        """Starts no more trials of the task that this watch is about."""
        self._keep(lambda queue: queue.watch is not watch)

    def _keep(self, is_kept: Callable[[TrialQueue[TrialT]], bool]) -> None:
        self._queues = deque(filter(is_kept, self._queues))
        self._wake.set()

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more is started."""
        return self._stopped

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

    async def run(self, run_trial: RunTrial[TrialT], on_blocked: Callable[[], bool] = lambda: False) -> None:
        """Runs trials; returns once none is running and no more are to start.

        `on_blocked` is called when nothing runs and the watches let nothing start; whether it has changed that.

        Raises:
            StorageFailure: a trial could not be recorded; everything else has been stopped.
        """
        while True:
            self._wake.clear()
            if not self._stopped:
                self._admit(run_trial)
            if not self.tasks and (self._stopped or self._is_out_of_trials(on_blocked)):
                break
            await self._wake.wait()
        if self._error is not None:
            raise self._error

    def _is_out_of_trials(self, on_blocked: Callable[[], bool]) -> bool:
        """Whether no queue may start anything now, while nothing runs that could change that."""
        if any(queue.is_open for queue in self._queues):
            return False
        if not on_blocked():
            return True
        self._wake.set()
        return False

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Does something beside the trials, before the end; it needs no capacity."""
        task = asyncio.Task(work, loop=asyncio.get_running_loop())
        self.tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)
        self._wake.set()

    def _admit(self, run_trial: RunTrial[TrialT]) -> None:
        """Starts one trial of each queue in turn until none has room."""
        blocked = 0
        while blocked < len(self._queues) and not self._run_limit.is_full:
            queue = self._queues[0]
            is_kept_back = queue.watch is not None and not queue.is_open
            if is_kept_back or self._holds.stop(queue.model) or not self.capacity.try_acquire(queue.needed):
                blocked += 1
                self._queues.rotate(-1)
                continue
            trial = queue.take()
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
            queue.active.in_use -= 1
            grant.release()
            self._ended(task)

        task.add_done_callback(ended)

    def fail(self, error: BaseException) -> None:
        """The session cannot continue: a trial raised something that is not an outcome, or the run is gone."""
        if self._error is None:
            self._error = error
            self.cancel()
