"""Signals before a session runs: the program stops where it is, and no signal is lost.

Python raises KeyboardInterrupt wherever the program happens to be, and drops it where that is a destructor. So a
signal is also remembered, for the session to find before its first call. A run that is being created exists whole or
not at all, so stopping anywhere is safe.

A second Ctrl-C soon after the first would interrupt the program while it says how to resume: it changes nothing.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from holdfast.errors import HoldfastError

_EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
_STOPPING_SECONDS = 2.0
"""How long stopping takes at the most, unless something in the program has swallowed the interrupt."""


class StartupSignals:
    """The signals that have arrived before a session runs."""

    def __init__(self) -> None:
        self.number = 0
        """The first of them, or 0."""
        self._raised_at = 0.0
        """When the program was last told to stop; 0 if it is not stopping."""

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[signal.Signals(self.number)] if self.number else 0

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self.number = self.number or number
        now = time.monotonic()
        if not self._raised_at or now - self._raised_at > _STOPPING_SECONDS:
            self._raised_at = now
            raise KeyboardInterrupt

    def _report_unraisable(self, unraisable: Any) -> None:
        """An interrupt that came in a destructor stops nothing: the next one has to."""
        if unraisable.exc_type is KeyboardInterrupt:
            self._raised_at = 0.0
        else:
            sys.__unraisablehook__(unraisable)

    def __enter__(self) -> None:
        """Whatever a signal becomes on its way out of the block, it leaves the block as KeyboardInterrupt.

        Python turns one that comes while a class is made, as by an import, into RuntimeError.
        """

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if self._raised_at and isinstance(error, RuntimeError | ImportError) and not isinstance(error, HoldfastError):
            raise KeyboardInterrupt from None

    @contextlib.contextmanager
    def listening(self, *, is_program: bool = False) -> Iterator[None]:
        """While the block runs, signals are remembered; only the main thread can listen.

        If the block is all of a program, signals change nothing after it: what is to be printed was printed.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self.number, self._raised_at = 0, 0.0
        # A hangup that whoever started the program ignores, as `nohup` does, stays ignored.
        ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else set()
        before = {number: signal.signal(number, self._remember) for number in _EXIT_CODES if number not in ignored}
        hook, sys.unraisablehook = sys.unraisablehook, self._report_unraisable
        try:
            yield
        finally:
            sys.unraisablehook = hook
            for number, handler in before.items():
                # A session that was interrupted has set handlers of its own, which stay.
                if signal.getsignal(number) == self._remember:
                    signal.signal(number, signal.SIG_IGN if is_program else handler)


startup_signals = StartupSignals()
