"""Looking now and then whether a run is still at its place: a session that waits for replies acknowledges nothing."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from holdfast.errors import RunGone
from holdfast.run.session.session_lease import SessionLease

_LOOK_SECONDS = 0.5


@contextlib.contextmanager
def watching_place(lease: SessionLease, on_gone: Callable[[RunGone], None]) -> Iterator[None]:
    """Calls `on_gone` once, in another thread, if the run is moved, deleted or replaced while the block runs."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(_LOOK_SECONDS):
            try:
                lease.check()
            except RunGone as error:
                on_gone(error)
                return

    # A thread, because a filesystem that does not answer must not hold up the event loop.
    thread = threading.Thread(target=watch, name="holdfast-place", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_LOOK_SECONDS)
