"""What a trial is doing at this moment: what an interrupt waits for, and what a time limit counts.

A trial that only waits for permission to continue (capacity, its turn, the end of a pause) is idle. Once the session
is about to end, nothing is lost by stopping it there. Its time limit does not run while it waits: the trial cannot
help how many others there are, or how often a server says 429.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class TimeLimit:
    """A number of seconds of a trial's own time."""

    def __init__(self, seconds: float) -> None:
        self._left, self._is_running = seconds, True
        self._timeout: asyncio.Timeout | None = None
        self.is_reached = False

    async def run(self, work: Awaitable[T]) -> T:
        """Awaits work, which is cancelled when its time is over.

        Raises:
            TimeoutError: it was cancelled, and let the cancellation through.
        """
        try:
            async with asyncio.timeout(self._left) as self._timeout:
                return await work
        finally:
            timeout, self._timeout = self._timeout, None
            self.is_reached = timeout is not None and timeout.expired()

    def set_running(self, *, running: bool) -> None:
        """Lets the time run, or stops it."""
        timeout = self._timeout
        if timeout is None or timeout.expired() or running == self._is_running:
            return
        self._is_running = running
        now = asyncio.get_running_loop().time()
        if running:
            timeout.reschedule(now + self._left)
        else:
            self._left = (timeout.when() or now) - now
            timeout.reschedule(None)


class TrialActivity:
    """What one trial is doing. It is idle when nothing of it is worth waiting for once the session is about to end.

    If a signal arrives while the task's own code runs, the signal may have ended a command of that code, so the outcome
    of that code no longer counts.
    """

    __slots__ = ("_code_running", "_in_flight", "_on_idle", "_waiting", "code_was_interrupted", "task", "time_limit")

    def __init__(self, on_idle: Callable[[TrialActivity], None]) -> None:
        """To be made in the asyncio task that runs the trial."""
        self._on_idle, self.task = on_idle, asyncio.current_task()
        self._code_running = self._waiting = self._in_flight = 0
        self.code_was_interrupted = False
        self.time_limit: TimeLimit | None = None

    @property
    def is_idle(self) -> bool:
        return self._in_flight == 0 and (self._waiting > 0 or self.code_was_interrupted)

    def note_signal(self) -> None:
        """A signal has arrived."""
        if self._code_running or not (self._in_flight or self._waiting):
            self.code_was_interrupted = True

    def running_code(self) -> _ActivitySpan:
        """While a step or a scorer of the task's own runs."""
        return _ActivitySpan(self, 1, 0, 0)

    def waiting(self) -> _ActivitySpan:
        """While the trial waits for capacity, for its turn, or for a pause to end."""
        return _ActivitySpan(self, 0, 1, 0)

    def in_flight(self) -> _ActivitySpan:
        """While a call is in flight, or a record is being made durable."""
        return _ActivitySpan(self, 0, 0, 1)

    def add(self, code_running: int, waiting: int, in_flight: int) -> None:
        """Adds to the count of each kind of activity."""
        self._code_running += code_running
        self._waiting += waiting
        self._in_flight += in_flight
        if self.time_limit is not None:
            self.time_limit.set_running(running=self._waiting == 0 or bool(self._in_flight or self._code_running))
        if not self._in_flight and (self._waiting > 0 or self.code_was_interrupted):
            self._on_idle(self)


class _ActivitySpan:
    """The time in which a trial does one thing. Entered several times in every trial, so it is no generator."""

    __slots__ = ("_activity", "_code_running", "_in_flight", "_waiting")

    def __init__(self, activity: TrialActivity, code_running: int, waiting: int, in_flight: int) -> None:
        self._activity, self._code_running = activity, code_running
        self._waiting, self._in_flight = waiting, in_flight

    def __enter__(self) -> None:
        self._activity.add(self._code_running, self._waiting, self._in_flight)

    def __exit__(self, *_: object) -> None:
        self._activity.add(-self._code_running, -self._waiting, -self._in_flight)
