"""The watermark of a spool: which of its segments the store has confirmed, kept beside them.

Under `durability: remote` a trial counts once its segment is in the store. Readers learn that from the store, or, where
it does not answer, from this file. It is written durably after an upload and before anybody counts on it, so it is
never ahead of the store, and nothing that was acknowledged is beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from holdfast.journal.frame import HEADER_SIZE, decode_header
from holdfast.journal.segment import SegmentId, parse_name, segment_location
from holdfast.journal.segment_scan import SegmentScan
from holdfast.run.core.provenance import utc_timestamp
from holdfast.storage.filesystem import RealFileSystem, write_atomically

WATERMARK_FILE = "uploaded.json"
ConfirmedSegments = dict[tuple[int, int], int]
"""By session and writer, the number of the last segment that is in the store with all before it; 0 for none."""


class UploadWatermark(msgspec.Struct, frozen=True):
    """What a store had confirmed at a moment."""

    at: str
    """By the clock of this machine; for people."""
    segments: dict[str, int]
    """By session and writer ("3/0"), as in `ConfirmedSegments`."""

    def confirmed(self) -> ConfirmedSegments:
        found = ((name.split("/"), number) for name, number in self.segments.items())
        return {(int(session), int(writer)): number for (session, writer), number in found}


def confirmed_segments(journal: Path, is_uploaded: Callable[[Path], bool]) -> ConfirmedSegments:
    """Of each writer in a spool's journal, the last segment that is in the store with all before it."""
    found: ConfirmedSegments = {}
    ended: set[tuple[int, int]] = set()
    for ident, path in _segments(journal):
        writer = ident.session, ident.writer
        found.setdefault(writer, 0)
        if writer not in ended and is_uploaded(path):
            found[writer] = ident.number
        elif _is_written(path):
            ended.add(writer)
    return found


def _segments(journal: Path) -> list[tuple[SegmentId, Path]]:
    paths = journal.iterdir() if journal.is_dir() else ()
    return sorted((parsed[0], path) for path in paths if (parsed := parse_name(path.name)))


def _is_written(path: Path) -> bool:
    """Whether a segment holds anything; one that has just been renamed by sealing is found under its other name."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return True


def last_confirmed_frames(journal: Path, confirmed: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """Of each writer that has more here than in the store, the last frame that the store has.

    Empty where the store has everything that was recorded.
    """
    found: dict[tuple[int, int], int] = {}
    for ident, path in _segments(journal):
        writer = ident.session, ident.writer
        if ident.number > confirmed.get(writer, 0) and writer not in found:
            first = _first_seq(ident, path)
            if first is not None:
                found[writer] = first - 1
    return found


def _first_seq(ident: SegmentId, path: Path) -> int | None:
    """The number of the first frame of a segment, or None if it has none."""
    try:
        file = RealFileSystem().open(path)
    except FileNotFoundError:
        return None
    try:
        header = decode_header(file.read_at(0, HEADER_SIZE))
        scan = SegmentScan(file, header.run if header is not None else b"", ident, segment_location(path))
        return next((frame.header.seq for frame in scan.frames()), None)
    finally:
        file.close()


def read_watermark(spool: Path) -> UploadWatermark:
    """The watermark of a spool; of one that has none that can be read, nothing is confirmed."""
    try:
        return msgspec.json.decode((spool / WATERMARK_FILE).read_bytes(), type=UploadWatermark)
    except (OSError, msgspec.MsgspecError):
        return UploadWatermark("", {})


def has_watermark(spool: Path) -> bool:
    return (spool / WATERMARK_FILE).exists()


def write_watermark(spool: Path, confirmed: Mapping[tuple[int, int], int]) -> None:
    """Writes it durably.

    Raises:
        OSError: it could not be written; the one from before is kept.
    """
    segments = {f"{session}/{writer}": number for (session, writer), number in sorted(confirmed.items())}
    data = msgspec.json.encode(UploadWatermark(utc_timestamp(), segments))
    write_atomically(RealFileSystem(), spool / WATERMARK_FILE, data)
