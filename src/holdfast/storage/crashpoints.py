"""Crash points: named places at which a test can kill this process.

`reach(name)` is called at every boundary between two durable states. It does nothing unless the process was started
with `HOLDFAST_CRASH_AT=name` or `HOLDFAST_CRASH_AT=name:n`: then the n-th arrival there ends the process with SIGKILL,
as the machine would. The test suite kills at every point of POINTS, MAINTENANCE and RESULTS in turn.
"""

from __future__ import annotations

import os
import signal

POINTS = (
    "run.directory-made",
    "run.inputs-written",
    "run.session-synced",
    "run.renamed",
    "run.parent-synced",
    "config.before-write",
    "session.settled",
    "session.opened",
    "session.ending",
    "segment.created",
    "segment.successor-created",
    "segment.footer-synced",
    "segment.renamed",
    "frame.before-write",
    "frame.half-written",
    "frame.written",
    "frame.synced",
    "frame.acknowledged",
    "blob.written",
    "blob.renamed",
    "index.rows-written",
    "index.committed",
)
MAINTENANCE = (
    "repair.backed-up",
    "repair.rebuilding",
    "repair.rebuilt",
    "clean.segment-written",
    "clean.proven",
    "clean.exchanged",
    "clean.journal-removed",
    "clean.blob-removed",
    "recover.fetched",
    "recover.taken",
    "recover.brought",
    "recover.named",
    "spool.derived-removed",
    "spool.file-removed",
)
"""Points that only the commands `repair`, `clean` and `recover` reach."""
RESULTS = ("result.written",)
"""Points that only sessions with result files reach."""


class _ArmedCrash:
    """One point, and how many arrivals are still let through."""

    def __init__(self, order: str) -> None:
        name, _, count = order.partition(":")
        if name not in (known := POINTS + MAINTENANCE + RESULTS):
            raise ValueError(
                f"HOLDFAST_CRASH_AT names {name!r}, which is not a crash point; points are: {', '.join(known)}"
            )
        self.name = name
        self.left = int(count or 1)

    def arrive(self, name: str) -> None:
        if name != self.name:
            return
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


_armed = _ArmedCrash(os.environ["HOLDFAST_CRASH_AT"]) if os.environ.get("HOLDFAST_CRASH_AT") else None


def is_armed(name: str) -> bool:
    """Whether a crash is ordered at `name`; a writer then splits what it otherwise does in one call."""
    return _armed is not None and _armed.name == name


def reach(name: str) -> None:
    """Arrives at a crash point; returns at once unless a crash is ordered here."""
    if _armed is not None:
        _armed.arrive(name)
