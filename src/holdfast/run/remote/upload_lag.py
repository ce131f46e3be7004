"""How far a store is behind the spool of its run: noted by the session for whoever asks on this machine."""

from __future__ import annotations

from pathlib import Path

import msgspec

LAG = "upload.json"


def count_segments(count: int) -> str:
    return f"{count} segment" if count == 1 else f"{count} segments"


class Lag(msgspec.Struct):
    """How far the store is behind: for progress and status."""

    segments: int = 0
    bytes: int = 0
    failing_since: float | None = None
    """By the clock of this process; None while the store takes what it is given."""
    reason: str = ""

    def __str__(self) -> str:
        told = f"{count_segments(self.segments)} not uploaded yet" if self.segments else ""
        return f"{told or 'uploads fail'} ({self.reason})" if self.reason else told


def read_lag(spool: Path) -> Lag | None:
    """What the process that executes a run last noted of its uploads, or None."""
    try:
        return msgspec.json.decode((spool / LAG).read_bytes(), type=Lag)
    except (OSError, msgspec.MsgspecError):
        return None


def write_lag(spool: Path, lag: Lag) -> None:
    """Notes it; nothing depends on it.

    Raises:
        OSError: it could not be written; what was noted before stands.
    """
    temporary = spool / f".{LAG}.new"
    temporary.write_bytes(msgspec.json.encode(lag))
    temporary.replace(spool / LAG)
