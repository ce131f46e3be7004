"""The admission mark: how many calls may be in flight at most, recorded before they are.

After a kill nobody knows which calls were in flight: their records may not have been synced. But the maximum is known:
**more calls than the mark says are never in flight, because a higher mark is durable before that.** It starts low and
doubles, so that a session waits for it only a few times. Only calls beyond the mark wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.engine.scheduling.concurrency_limits import Limit

FIRST_MARK = 16


def first_mark(at_once: int, to_run: int) -> int:
    """The mark that a session starts with: `at_once` trials may be solved at once, `to_run` are run at all.

    A trial that makes one call at a time has none in flight when its capacity is free again, so trials of that kind
    need no more than this; others raise it, and so do scorers that call models.
    """
    return max(1, min(FIRST_MARK, at_once, to_run))


class AdmissionMark:
    """Counts the calls in flight, and has the mark raised before there are more of them."""

    def __init__(self, first: int, write: Callable[[int], Awaitable[object]], run_limit: Limit) -> None:
        """`first` is durable, or 0; `write` returns once a mark is durable, and a cancellation waits for that too."""
        self.calls, self.in_flight = first, 0
        self._write, self._run_limit = write, run_limit
        self._waiting = 0
        self._raised: asyncio.Future[None] | None = None

    def enter_nowait(self) -> bool:
        """Counts one more call, if the mark allows it."""
        if self.in_flight >= self.calls or self._waiting:
            return False
        self.in_flight += 1
        return True

    async def enter(self) -> None:
        """Counts one more call, once the mark allows it.

        Raises:
            StorageFailure: the mark could not be raised.
            RunHeld: the lease is lost.
        """
        self._waiting += 1
        try:
            while self.in_flight >= self.calls:
                await self._until_raised()
        finally:
            self._waiting -= 1
        self.in_flight += 1

    def leave(self) -> None:
        """A call is no longer in flight: its end is durable, or it was never sent."""
        self.in_flight -= 1

    async def _until_raised(self) -> None:
        """The first who waits has the mark raised, the others wait for that."""
        if self._raised is not None:
            # Shielded: a call that is cancelled while it waits must not cancel the wait of the others.
            await asyncio.shield(self._raised)
            return
        self._raised = raised = asyncio.get_running_loop().create_future()
        try:
            await self._raise_to(self._next())
        finally:
            self._raised = None
            raised.set_result(None)

    async def _raise_to(self, calls: int) -> None:
        try:
            await self._write(calls)
        except asyncio.CancelledError:
            # Durable anyway: the cancellation has waited for it.
            self.calls = calls
            raise
        self.calls = calls

    def _next(self) -> int:
        needed, calls = self.in_flight + self._waiting, self.calls
        while calls < needed:
            calls = calls * 2 or FIRST_MARK
        usual = self._run_limit.maximum
        return usual if usual is not None and needed <= usual < calls else calls
