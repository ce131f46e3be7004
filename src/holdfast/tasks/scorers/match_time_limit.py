"""A bound on the processor time of one match: a pattern that backtracks without end fails its trial.

Python's regular expressions cannot be given a deadline, but they let signals through, so a timer of the process's
own processor time can end a match in the main thread. Elsewhere there is no bound but the length of the text.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.errors import HoldfastError

CPU_SECONDS = 2.0


class PatternTooSlow(HoldfastError):  # noqa: N818 - reads as a sentence where it is raised
    """A regular expression did not come to an end on an answer."""

    kind = "task"


@contextmanager
def limit_match_time(pattern: str) -> Iterator[None]:
    """Matches inside end within that processor time, or raise PatternTooSlow."""
    if not _timer_is_free():
        yield
        return

    def stop(_number: int, _frame: Any) -> None:
        raise PatternTooSlow(
            f"The pattern {pattern[:200]!r} took more than {CPU_SECONDS:g} s on one answer.",
            hint="Repetitions inside repetitions, such as (a+)+, are the usual cause.",
        )

    signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)


def _timer_is_free() -> bool:
    """Only the main thread may set handlers, and a handler of someone else's is left alone."""
    return (
        threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL
    )
