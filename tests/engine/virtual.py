"""Time that passes when there is nothing else to do: an hour takes no time, and every run takes the same turns.

`VirtualLoop` is an event loop whose clock jumps to the next timer as soon as nobody can go on. While the journal's
thread, that of the result files or that of a step is at work the loop waits for it in earnest, and time stands still;
so the order of events depends on the program alone. A loop in which nothing will ever happen again says so, instead of
hanging.
"""

from __future__ import annotations

import asyncio
import random
import selectors
import threading
from collections.abc import Callable

PATIENCE_SECONDS = 20.0
_LOOK_SECONDS = 0.001
_START = 1_000.0


class _Selector(selectors.DefaultSelector):
    """Waits for files and threads; where there is nothing to wait for, asks the loop to jump."""

    loop: VirtualLoop

    def select(self, timeout=None):
        events = super().select(0)
        if events or timeout == 0:
            return events
        waited = 0.0
        while not self.loop.is_quiet():
            events = super().select(_LOOK_SECONDS)
            if events:
                return events
            waited += _LOOK_SECONDS
            assert waited < PATIENCE_SECONDS, "a thread outside the loop never finished"
        # The last word of a thread that has just become quiet.
        return super().select(0) or self.loop.jump()


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock of its own."""

    def __init__(self) -> None:
        self.now = _START
        self.writers: list = []
        self.outside = 0
        """How many result files a thread is writing."""
        self.at_jump: list[Callable[[], None]] = []
        """Called before every jump: whoever measures a state over time looks at it here."""
        selector = _Selector()
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        return self.now

    def is_quiet(self) -> bool:
        """Whether no thread outside is about to say something."""
        if self.outside or any(thread.name == "holdfast-step" for thread in threading.enumerate()):
            return False
        return all(_rests(writer) for writer in self.writers)

    def jump(self) -> list:
        """Lets time pass until the next timer."""
        timers = [handle.when() for handle in self._scheduled if not handle.cancelled()]
        assert timers, "nothing will ever happen again: everybody waits for somebody else"
        for look in self.at_jump:
            look()
        self.now = max(self.now, min(timers))
        return []


def _rests(writer) -> bool:
    with writer.queue._lock:
        return not writer._thread.is_alive() or (writer.queue._sleeping and not writer.queue._pending)


class VirtualClock:
    """The loop's time as the engine's clock."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        return self._loop.now

    def wall(self) -> float:
        return 1_700_000_000.0 + self._loop.now

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run_virtually(work, loop: VirtualLoop | None = None):
    """Runs a coroutine to its end in virtual time; nothing may be left behind."""
    loop = loop or VirtualLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        left = asyncio.all_tasks(loop)
        loop.close()
        assert not left, f"tasks were left behind: {left}"


def seeded(seed: int) -> random.Random:
    """A source of randomness that says how to repeat it."""
    print(f"seed {seed}")
    return random.Random(seed)
