"""Stopping in two stages: the first signal lets calls in flight finish, the second stops at once.

After the first, nothing new starts. What is running continues until it is done, but no longer than the grace period.
Trials that finish by then are kept; the others stay unfinished, and are not scored.

A signal that goes to the whole process group also ends the commands of solvers and scorers. So it is noted the moment
it arrives, between two bytecodes, before the outcome of a command that it ended can count as a result. If the second
signal does not end the program in a few seconds, because a task's code holds it up, then `on_stuck` is called, from a
thread of its own.

In a process that belongs to someone else only Ctrl-C is listened to, and only while the session runs: then the handler
of before is back. The third one raises KeyboardInterrupt where the program happens to be, and so does a second one that
a task's code holds up.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

INTERRUPTED, TERMINATED, HUNG_UP = 130, 143, 129
EXIT_CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED, signal.SIGHUP: HUNG_UP}
"""The signals that stop a session in an orderly way, and the exit code after each."""
STUCK_SECONDS = 3.0


def heeded_signals() -> list[signal.Signals]:
    """Those that stop a session: all of them, but for a hangup that whoever started the program ignores (`nohup`)."""
    is_hangup_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [number for number in EXIT_CODES if number != signal.SIGHUP or not is_hangup_ignored]


class Interrupt:
    """The signals that a session has got."""

    def __init__(
        self,
        on_first: Callable[[str], None],
        on_second: Callable[[str], None],
        on_arrival: Callable[[], None],
    ) -> None:
        """`on_arrival` is called the moment a signal arrives; the others act on it, in the loop."""
        self._on_first, self._on_second, self._on_arrival = on_first, on_second, on_arrival
        self._on_stuck: Callable[[], None] | None = None
        self.exit_code = 0
        self._noted = 0
        self._is_draining = self._is_guest = False
        self._watch: threading.Timer | None = None
        """Waits for the end, after the second signal."""
        self._replaced: dict[signal.Signals, Any] = {}
        """The signals that are listened to, with the handlers they had before."""

    @property
    def has_arrived(self) -> bool:
        return self.exit_code != 0

    def install(self, missed: Callable[[], int] = lambda: 0, on_stuck: Callable[[], None] | None = None) -> None:
        """Starts to listen; only the main thread can.

        `missed` gives the number of a signal that came before, or 0; it is treated as one that comes now.
        """
        self._on_stuck = on_stuck
        if threading.current_thread() is threading.main_thread():
            self._listen(heeded_signals(), missed())

    def install_as_guest(self, missed: int) -> None:
        """Starts to listen to Ctrl-C in somebody else's process, in its main thread; `missed` as for `install`."""
        self._is_guest = True
        self._on_stuck = lambda: os.kill(os.getpid(), signal.SIGINT)
        self._listen([signal.SIGINT], missed)

    def _listen(self, numbers: list[signal.Signals], early: int) -> None:
        loop = asyncio.get_running_loop()
        for number in numbers:
            self._replaced[number] = signal.getsignal(number)
            # The loop's handler wakes the loop and acts there; ours, put in its place, takes note at once.
            loop.add_signal_handler(number, self.arrive, number)
            signal.signal(number, self._note)
        if early:
            self._note(early, None)
            loop.call_soon(self.arrive, signal.Signals(early))

    def ask(self) -> None:
        """Does what Ctrl-C does, where no signal can be listened to; in the loop."""
        self._note(signal.SIGINT, None)
        self.arrive(signal.SIGINT)

    def remove(self) -> None:
        """Stops acting on signals; a program that is ending because of one still takes note of more."""
        if self._watch is not None and self._is_guest:
            self._watch.cancel()
        loop = asyncio.get_running_loop()
        while self._replaced:
            number, before = self._replaced.popitem()
            loop.remove_signal_handler(number)
            signal.signal(number, self._note if self.has_arrived and not self._is_guest else before)

    @staticmethod
    def ignore() -> None:
        """From now on signals change nothing: everything is done, and the exit code is final."""
        for number in EXIT_CODES:
            signal.signal(number, signal.SIG_IGN)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self._is_repeated_hangup(number):
            return
        self.exit_code = self.exit_code or EXIT_CODES[signal.Signals(number)]
        self._on_arrival()
        self._noted += 1
        if self._noted == 2 and self._on_stuck is not None:
            self._watch = threading.Timer(STUCK_SECONDS, self._on_stuck)
            self._watch.daemon = True
            self._watch.start()
        if self._noted > 2 and self._is_guest:
            raise KeyboardInterrupt

    def _is_repeated_hangup(self, number: int) -> bool:
        """Whether a terminal is gone a second time: the kernel and the shell each say so, and nobody asks for haste."""
        return number == signal.SIGHUP and self._noted > 0

    def arrive(self, number: signal.Signals) -> None:
        """Acts on a signal, in the loop."""
        if self._is_draining and number == signal.SIGHUP:
            return
        self.exit_code = self.exit_code or EXIT_CODES[number]
        if self._is_draining:
            self._on_second(signal.Signals(number).name)
            return
        self._is_draining = True
        self._on_first(signal.Signals(number).name)
