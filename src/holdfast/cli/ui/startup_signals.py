"""Signals before a session runs: the program stops where it is, and no signal is lost.

Python raises KeyboardInterrupt wherever the program happens to be, and drops it where that is a destructor. So a
signal is also remembered, for the session to find before its first call. A run that is being created exists whole or
not at all, so stopping anywhere is safe.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

_EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


class StartupSignals:
    """The signals that have arrived before a session runs."""

    def __init__(self) -> None:
        self.number = 0
        """The first of them, or 0."""

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[signal.Signals(self.number)] if self.number else 0

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self.number = self.number or number
        raise KeyboardInterrupt

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """While the block runs, signals are remembered; only the main thread can listen."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self.number = 0
        before = {number: signal.signal(number, self._remember) for number in _EXIT_CODES}
        hook, sys.unraisablehook = sys.unraisablehook, _print_unless_interrupted
        try:
            yield
        finally:
            sys.unraisablehook = hook
            for number, handler in before.items():
                # A session that was interrupted has set handlers of its own, which stay.
                if signal.getsignal(number) == self._remember:
                    signal.signal(number, handler)


def _print_unless_interrupted(unraisable: Any) -> None:
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)


startup_signals = StartupSignals()
