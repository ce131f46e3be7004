"""The upload lag of a run: how far its store is behind the spool, noted by the session for readers on this machine."""

from pathlib import Path

import msgspec

from holdfast.storage.leases.remote import paused_text

LAG_FILE = "upload.json"


def segments_text(count: int) -> str:
    return f"{count} segment" if count == 1 else f"{count} segments"


class UploadLag(msgspec.Struct):
    """How far the store is behind: for progress and status."""

    segments: int = 0
    bytes: int = 0
    failing_since: float | None = None
    """By the clock of this process; None while the store takes what it is given."""
    reason: str = ""
    paused_since: str = ""
    """Since when the lease could not be renewed, while nothing starts because of that."""

    def paused_text(self) -> str:
        """What is said while nothing starts because the lease could not be renewed; else empty."""
        return paused_text(self.paused_since)

    def __str__(self) -> str:
        waiting = f"{segments_text(self.segments)} not uploaded yet" if self.segments else ""
        return f"{waiting or 'uploads fail'} ({self.reason})" if self.reason else waiting


def read_lag(spool: Path) -> UploadLag | None:
    """What the process that executes a run last noted of its uploads, or None."""
    try:
        return msgspec.json.decode((spool / LAG_FILE).read_bytes(), type=UploadLag)
    except (OSError, msgspec.MsgspecError):
        return None


def write_lag(spool: Path, lag: UploadLag) -> None:
    """Notes it; nothing depends on it.

    Raises:
        OSError: it could not be written; what was noted before is kept.
    """
    temporary = spool / f".{LAG_FILE}.new"
    temporary.write_bytes(msgspec.json.encode(lag))
    temporary.replace(spool / LAG_FILE)
