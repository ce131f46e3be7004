"""Admission: whether new work may start. An interrupt closes it; a lease in doubt makes everyone wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn

from holdfast.engine.scheduling.activity import TrialActivity

_LEASE_SECONDS = 0.2


class Admission:
    """Open while the session works; once it is closed, nobody who comes to it continues."""

    def __init__(self, is_held: Callable[[], bool] = lambda: True) -> None:
        self.is_closed = False
        self._is_held = is_held

    def close(self) -> None:
        self.is_closed = True

    @property
    def is_open(self) -> bool:
        """Whether work may start now: the session works, and holds the run.

        Raises:
            RunHeld: the lease is lost.
        """
        return not self.is_closed and self._is_held()

    async def wait_until_open(self, activity: TrialActivity) -> None:
        """Returns at once while it is open; never once it is closed: the session is about to end.

        While the run's lease is not held, it waits for the lease to be renewed.

        Raises:
            RunHeld: the lease is lost.
        """
        while not self.is_open:
            if self.is_closed:
                await self.block_forever(activity)
            with activity.waiting():
                await asyncio.sleep(_LEASE_SECONDS)

    async def block_if_interrupted(self, activity: TrialActivity) -> None:
        """Returns unless a signal came while the task's own code was running, whose outcome then does not count."""
        if activity.code_was_interrupted:
            await self.block_forever(activity)

    async def block_forever(self, activity: TrialActivity) -> NoReturn:
        """Never returns: the trial that waits here remains to be done, and ends with the session."""
        with activity.waiting():
            while True:
                await asyncio.get_running_loop().create_future()
