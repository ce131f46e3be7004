"""Ctrl-C while `evaluate` works in somebody else's process: what it does on the command line too.

The first lets calls in flight finish and ends the session as interrupted; the second stops at once. In the main thread
the session listens to the signal itself; what comes before and after is noted here: while the session is started, the
first stops the program where it is, and a second one soon after it does not disturb that. Where `evaluate` was called
inside an event loop the session has a thread of its own, and is asked by the thread that waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

from holdfast.engine.execution import Execution, SessionOutcome

_STOPPING_SECONDS = 2.0
"""How long stopping takes at the most, unless something has swallowed the interrupt."""


class GuestInterrupts:
    """The interrupts that one call of `evaluate` has got."""

    def __init__(self) -> None:
        self.count = 0
        self.is_listening = self._is_executing = False
        """Whether the session may listen to the signal itself."""
        self._raised_at: float | None = None
        """When the program was last stopped where it was."""
        self._lock = threading.Lock()
        self._deliver: Callable[[], object] | None = None
        """Hands an interrupt to the session that runs in another thread."""

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """While the block runs, Ctrl-C is noted; only where Python's own handler would get it."""
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        self.is_listening = True
        signal.signal(signal.SIGINT, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        """One that comes while the session does not listen; the first is found by the session, or at its end."""
        self.count += 1
        if not self._is_executing or self.count > 1:
            self._stop_here()

    def _stop_here(self) -> None:
        now = time.monotonic()
        if self._raised_at is None or now - self._raised_at > _STOPPING_SECONDS:
            self._raised_at = now
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def executing(self) -> Iterator[None]:
        """While the block runs, the first interrupt is left to the session; it stops the program after the block.

        Whoever pressed Ctrl-C wants that, also if the session came to its end meanwhile.

        Raises:
            KeyboardInterrupt: there was one.
        """
        self._is_executing = True
        yield
        self._is_executing = False
        if self.count:
            self._stop_here()

    def ask(self) -> None:
        """Interrupts the session from the thread that waits for it."""
        with self._lock:
            self.count += 1
            if self._deliver is not None:
                self._deliver()

    async def run(self, execution: Execution) -> SessionOutcome:
        """Executes the session, which gets the interrupts of before too."""
        early = (signal.SIGINT if self.count else 0) if self.is_listening else None
        try:
            with self._delivering_to(execution):
                return await execution.run(signals=False, guest_signal=early)
        finally:
            self.count = max(self.count, int(execution.was_interrupted))

    @contextlib.contextmanager
    def _delivering_to(self, execution: Execution) -> Iterator[None]:
        if self.is_listening:
            yield
            return
        loop = asyncio.get_running_loop()
        with self._lock:
            self._deliver = lambda: loop.call_soon_threadsafe(execution.interrupt)
            for _ in range(self.count):
                self._deliver()
        try:
            yield
        finally:
            with self._lock:
                self._deliver = None
