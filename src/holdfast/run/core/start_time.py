"""When a run was started, from its first bytes: runs can be ordered without folding any of them.

The first record of a run says when its first session began. Where damage has taken that record, the time in the run's
name counts, or else the time at which its oldest segment was last written.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.journal import Journal
from holdfast.run.core.codec import decode
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import SessionRecord
from holdfast.run.core.run_id import find_run_id
from holdfast.storage.filesystem import RealFileSystem

_FIRST_FRAMES = 3
_STAMP = re.compile(r"(\d{8}-\d{6})-")
"""What the names of runs that were given no other begin with."""

StartTime = tuple[float, float, str]
"""Seconds of the clock; then, between runs of one second, when each was first written; then the name."""


def start_time(root: Path) -> StartTime:
    """When the run in `root` was started, to be compared; of a run in any state."""
    written = _first_written(root)
    found = _from_record(root) or _from_name(root.name)
    return (found.timestamp() if found else written), written, root.name


def _from_record(root: Path) -> datetime | None:
    try:
        fs, layout = RealFileSystem(), Layout(root)
        journal = Journal(fs, layout.journal, find_run_id(fs, layout))
        with journal.scan(journal.segments()[0]) as scan:
            lines = [line for frame in islice(scan.frames(), _FIRST_FRAMES) for line in journal.records(frame)]
        first = next((one for one in map(decode, lines) if isinstance(one, SessionRecord)), None)
        return _aware(datetime.fromisoformat(first.at)) if first else None
    except (HoldfastError, OSError, ValueError):
        return None


def _from_name(name: str) -> datetime | None:
    try:
        match = _STAMP.match(name)
        return _aware(datetime.strptime(match[1], "%Y%m%d-%H%M%S")) if match else None  # noqa: DTZ007 - made aware
    except ValueError:
        return None


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _first_written(root: Path) -> float:
    """When the oldest segment was last written; 0 where that cannot be found out."""
    try:
        return min((path.stat().st_mtime for path in Layout(root).journal.iterdir()), default=0.0)
    except OSError:
        return 0.0
