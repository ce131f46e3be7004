"""What a trial is doing at this moment: what an interrupt waits for, and what a time limit counts.

A trial that only waits for leave to go on, for a slot, its turn, or a pause to end, is idle. Once the session is to end
nothing is lost by stopping it there, and while it waits its time limit stands still: how many others there are, and
how often a server says 429, is none of its doing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

T = TypeVar("T")
_LEASE_SECONDS = 0.2


class TimeLimit:
    """So many seconds of a trial's own time."""

    def __init__(self, seconds: float) -> None:
        self._left, self._is_running = seconds, True
        self._timeout: asyncio.Timeout | None = None
        self.is_reached = False

    async def hold(self, work: Awaitable[T]) -> T:
        """Awaits work, which is cancelled when its time is over.

        Raises:
            TimeoutError: it was, and did not hide it.
        """
        try:
            async with asyncio.timeout(self._left) as self._timeout:
                return await work
        finally:
            timeout, self._timeout = self._timeout, None
            self.is_reached = timeout is not None and timeout.expired()

    def count(self, *, running: bool) -> None:
        """Lets the time run, or stand still."""
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


class Activity:
    """What one trial is doing: it is idle when nothing of it is worth waiting for, once the session is to end.

    A trial that was running code of the task's own when a signal came is disturbed: the signal may have ended a command
    of that code, so nothing that the code comes to counts any more.
    """

    __slots__ = ("_on_idle", "acting", "busy", "is_disturbed", "limit", "parked", "task")

    def __init__(self, on_idle: Callable[[Activity], None]) -> None:
        """Begins in the asyncio task that carries the trial out."""
        self._on_idle, self.task = on_idle, asyncio.current_task()
        self.acting = self.busy = self.parked = 0
        self.is_disturbed = False
        self.limit: TimeLimit | None = None

    @property
    def is_idle(self) -> bool:
        return self.busy == 0 and (self.parked > 0 or self.is_disturbed)

    def disturb(self) -> None:
        """A signal has come."""
        if self.acting or not (self.busy or self.parked):
            self.is_disturbed = True

    def foreign(self) -> _During:
        """While a step or a scorer of the task's own runs."""
        return _During(self, 1, 0, 0)

    def parking(self) -> _During:
        """While the trial waits for a slot, for its turn, or for a pause to end."""
        return _During(self, 0, 1, 0)

    def working(self) -> _During:
        """While a call is under way, or a record is being made durable."""
        return _During(self, 0, 0, 1)

    def add(self, acting: int, parked: int, busy: int) -> None:
        """So much more of each is going on."""
        self.acting += acting
        self.parked += parked
        self.busy += busy
        if self.limit is not None:
            self.limit.count(running=self.parked == 0 or bool(self.busy or self.acting))
        if not self.busy and (self.parked > 0 or self.is_disturbed):
            self._on_idle(self)


class _During:
    """While a trial does one thing. Entered several times in every trial, so it is no generator."""

    __slots__ = ("_acting", "_activity", "_busy", "_parked")

    def __init__(self, activity: Activity, acting: int, parked: int, busy: int) -> None:
        self._activity, self._acting, self._parked, self._busy = activity, acting, parked, busy

    def __enter__(self) -> None:
        self._activity.add(self._acting, self._parked, self._busy)

    def __exit__(self, *_: object) -> None:
        self._activity.add(-self._acting, -self._parked, -self._busy)


class AdmissionGate:
    """Open while the session works; once closed, nobody who comes to it goes on."""

    def __init__(self, is_held: Callable[[], bool] = lambda: True) -> None:
        self.is_closed = False
        self._is_held = is_held

    def close(self) -> None:
        self.is_closed = True

    @property
    def is_open(self) -> bool:
        """Whether work may begin now: the session works, and holds the run.

        Raises:
            RunHeld: the lease is lost.
        """
        return not self.is_closed and self._is_held()

    async def passes(self, activity: Activity) -> None:
        """Returns at once while the gate is open; never once it is closed: the session is about to end.

        While the run's lease is not held, it waits for the lease to be renewed.

        Raises:
            RunHeld: the lease is lost.
        """
        while not self.is_open:
            if self.is_closed:
                await self.stays(activity)
            with activity.parking():
                await asyncio.sleep(_LEASE_SECONDS)

    async def stays(self, activity: Activity) -> NoReturn:
        """Never returns: whoever waits here is owed, and ends with the session."""
        with activity.parking():
            while True:
                await asyncio.get_running_loop().create_future()
