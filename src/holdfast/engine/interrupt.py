"""Stopping in two stages: the first signal lets calls in flight finish, the second stops at once.

After the first, nothing new begins. What is under way goes on until it is done, but no longer than the grace time.
What is finished by then is kept; the rest is owed, and none of it is scored.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable

_SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143}


class Interrupt:
    """The signals that a session has got."""

    def __init__(self, on_first: Callable[[str], None], on_second: Callable[[], None]) -> None:
        self._on_first, self._on_second = on_first, on_second
        self.exit_code = 0
        self._installed: list[signal.Signals] = []

    @property
    def has_come(self) -> bool:
        return self.exit_code != 0

    def install(self) -> None:
        """Begins to listen; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            return
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.arrive, number)
            self._installed.append(number)

    def remove(self) -> None:
        loop = asyncio.get_running_loop()
        while self._installed:
            loop.remove_signal_handler(self._installed.pop())

    def arrive(self, number: signal.Signals) -> None:
        if self.has_come:
            self._on_second()
            return
        self.exit_code = _SIGNALS[number]
        self._on_first(signal.Signals(number).name)
