"""The threads in which plain functions of steps run: a bounded number for a session, reused for the next step.

They are daemons: neither the end of a session nor that of the interpreter waits for one. A function that does not
come back after its trial was abandoned keeps its thread, but not its place among those that may run.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import AsyncIterator, Callable
from queue import SimpleQueue

from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.trials.error_boundary import Outcome, guard_in_thread

MOST_THREADS = 64
_BUSY, _IDLE = "holdfast-step", "holdfast-step-idle"
"""The names of threads, for whoever looks at a process."""


class _StepThread(threading.Thread):
    """Does one job after the other until it is asked to end."""

    def __init__(self) -> None:
        super().__init__(name=_BUSY, daemon=True)
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.start()

    def do(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    def end(self) -> None:
        """Ends the thread once its job is done."""
        self._jobs.put(None)

    def run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            # While the thread waits for the next one, it must not keep arguments and results of this one alive.
            del job


class StepThreads:
    """The threads of one session. Everything here is called in the loop's thread."""

    def __init__(self, most: int = MOST_THREADS) -> None:
        self._most, self._places = most, asyncio.Semaphore(most)
        self._idle: list[_StepThread] = []
        self._busy: set[_StepThread] = set()
        self._is_closed = False

    @contextlib.asynccontextmanager
    async def place(self, activity: TrialActivity) -> AsyncIterator[None]:
        """A place among those that may run; a trial that waits for one is idle."""
        with activity.waiting() if self._places.locked() else contextlib.nullcontext():
            await self._places.acquire()
        try:
            yield
        finally:
            self._places.release()

    async def call(self, function: Callable[..., object], *args: object) -> Outcome:
        """Calls the user's code in a thread, with the context variables of the caller, who has a place."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Outcome] = loop.create_future()
        context = contextvars.copy_context()
        thread = self._take_thread()

        def deliver(outcome: Outcome) -> None:
            self._put_back(thread)
            if not done.done():
                done.set_result(outcome)

        def work() -> None:
            outcome = context.run(guard_in_thread, function, *args)
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(deliver, outcome)

        thread.do(work)
        if self._is_closed:
            thread.end()
        return await done

    def _take_thread(self) -> _StepThread:
        thread = self._idle.pop() if self._idle else _StepThread()
        thread.name = _BUSY
        self._busy.add(thread)
        return thread

    def _put_back(self, thread: _StepThread) -> None:
        self._busy.discard(thread)
        if self._is_closed:
            return
        if len(self._idle) >= self._most:
            thread.end()
            return
        thread.name = _IDLE
        self._idle.append(thread)

    def close(self) -> None:
        """Ends all threads, each with what it is doing: the loop may end before it hears of that."""
        self._is_closed = True
        for thread in (*self._idle, *self._busy):
            thread.end()
        self._idle.clear()
        self._busy.clear()
