"""Two copies of one segment, each damaged in its own way, made into one that has every intact frame of both.

Frames of a segment are the same bytes in every copy, so a frame is taken from whichever copy has it intact; where
nothing is lost in both, the result is the segment as it was written.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from holdfast.journal.segment import SegmentId, segment_location
from holdfast.journal.segment_scan import SegmentScan
from holdfast.storage.filesystem import FileSystem


class _Piece(NamedTuple):
    path: Path
    offset: int
    size: int


class SegmentCopy:
    """What is intact in one copy of a segment."""

    def __init__(self, fs: FileSystem, path: Path, run: bytes, ident: SegmentId) -> None:
        self.frames: dict[int, _Piece] = {}
        self.footer: _Piece | None = None
        file = fs.open(path)
        try:
            scan = SegmentScan(file, run, ident, segment_location(path))
            for frame in scan.frames():
                self.frames[frame.header.seq] = _Piece(path, frame.offset, frame.header.size)
            if scan.footer is not None:
                self.footer = _Piece(path, scan.footer_offset, scan.end - scan.footer_offset)
            self.damage = [damage for damage in scan.damage if damage.is_loss]
        finally:
            file.close()

    def lacks(self, other: SegmentCopy) -> bool:
        """Whether the other copy has anything that this one has not."""
        return bool(other.frames.keys() - self.frames.keys()) or (self.footer is None and other.footer is not None)


def merge_copies(fs: FileSystem, copies: list[SegmentCopy], target: Path) -> None:
    """Writes every intact frame of the copies, in order, and a footer if one has it, to a new file, and syncs it."""
    frames = {seq: piece for copy in reversed(copies) for seq, piece in copy.frames.items()}
    footers = [copy.footer for copy in copies if copy.footer is not None]
    file = fs.create(target)
    try:
        for piece in [*(frames[seq] for seq in sorted(frames)), *footers[:1]]:
            file.write(_read_piece(fs, piece))
        file.sync()
    finally:
        file.close()


def _read_piece(fs: FileSystem, piece: _Piece) -> bytes:
    file = fs.open(piece.path)
    try:
        return file.read_at(piece.offset, piece.size)
    finally:
        file.close()
