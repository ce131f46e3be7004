"""Looking now and then whether a run is still at its place: a session that waits for replies acknowledges nothing.

The same thread writes down how far the session has come, for whoever reads the run after a kill.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from holdfast.errors import RunGone
from holdfast.run.session.session_lease import SessionLease
from holdfast.storage.leases.holder import AcknowledgedFrames

_LOOK_SECONDS = 0.5


@contextlib.contextmanager
def watching_place(
    lease: SessionLease, acknowledged: Callable[[], AcknowledgedFrames], on_gone: Callable[[RunGone], None]
) -> Iterator[None]:
    """Calls `on_gone` once, in another thread, if the run is moved, deleted or replaced while the block runs.

    As long as it is there, the lease says how far the session has come.
    """
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(_LOOK_SECONDS):
            try:
                lease.check()
                lease.publish(acknowledged())
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
