"""A model of every byte of a journal: which frames were written, which of them have been destroyed.

It parses the segments by itself while they are sound, and remembers them after that.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import zstandard
from account import expect

from holdfast.journal import Damage, DamageKind, SegmentId
from holdfast.journal.frame import FOOTER, HEADER_SIZE, decode_header
from holdfast.journal.segment import Footer, parse_name
from holdfast.run.core.codec import decode
from holdfast.run.core.records import SessionEndRecord, SessionRecord, TrialRecord


class TrueFrame(msgspec.Struct):
    """A frame as it was written, and whether its bytes still are."""

    start: int
    end: int
    lines: list[bytes]
    successor: bool = False
    intact: bool = True


class TrueSegment(msgspec.Struct):
    """A segment as it was written, and whether its file is still there."""

    frames: list[TrueFrame]
    lost: bool = False
    touched: bool = False


class Truth:
    """All segments of a journal."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.segments: dict[SegmentId, TrueSegment] = {}
        self.attempted: set[str] = set()
        self._forgotten: set[bytes] = set()

    def learn(self) -> None:
        """Takes in what was written since; segments that were touched are known already."""
        for path in self._directory.iterdir():
            if (parsed := parse_name(path.name)) and not self._segment(parsed[0]).touched:
                self.segments[parsed[0]] = TrueSegment(parse(path.read_bytes()))

    def _segment(self, ident: SegmentId) -> TrueSegment:
        return self.segments.setdefault(ident, TrueSegment([]))

    def begin(self, session: int) -> None:
        """A session has opened. Its number is a new one, or that of a session of which nothing is left."""
        for ident in [ident for ident in self.segments if ident.session == session]:
            self._forgotten |= {line for frame in self.segments[ident].frames for line in frame.lines}
            expect(self.segments.pop(ident).lost, f"session {session} is opened a second time")

    def flipped(self, path: Path, offset: int) -> bool:
        """Whether a byte may be flipped: not in a frame that is destroyed already, which that might restore."""
        for frame in self._touch(path).frames:
            if frame.start <= offset < frame.end:
                found, frame.intact = frame.intact, False
                return found
        return True

    def lost(self, path: Path) -> None:
        self._touch(path).lost = True

    def _touch(self, path: Path) -> TrueSegment:
        ident, _ = parse_name(path.name) or (None, False)
        segment = self.segments[ident]
        segment.touched = True
        return segment

    # What must be so.

    def written(self) -> set[str]:
        """The trials that ever stood in a whole frame."""
        lines = {line for segment in self.segments.values() for frame in segment.frames for line in frame.lines}
        return self.names(lines | self._forgotten)

    def intact_lines(self) -> set[bytes]:
        """The records that stand in a frame which is still as it was written."""
        return {line for frame in self._intact() for line in frame.lines}

    def _intact(self) -> Iterable[TrueFrame]:
        for segment in self.segments.values():
            if not segment.lost:
                yield from (frame for frame in segment.frames if frame.intact)

    def holds_anything(self) -> bool:
        return any(True for _ in self._intact())

    def names(self, lines: Iterable[bytes]) -> set[str]:
        records = (decode(line) for line in lines)
        return {record.trial for record in records if isinstance(record, TrialRecord) and record.status.is_kept}

    def check_reported(self, losses: list[Damage]) -> None:
        """Holds what a reader calls lost against what was destroyed.

        Raises:
            Broken: something destroyed is not reported, or something is reported and nothing was destroyed.
        """
        told = {parsed[0] for item in losses if (parsed := parse_name(Path(item.where).name))}
        for ident, segment in self.segments.items():
            if not segment.lost and not all(frame.intact for frame in segment.frames):
                expect(ident in told, f"{ident} was damaged, and that is not told: {losses}")
            if segment.lost and self._is_vouched_for(ident):
                missed = {item.where for item in losses if item.kind is DamageKind.MISSING}
                expect(f"journal/{ident.filename(sealed=True)}" in missed, f"{ident} is gone, and that is not told")
        if not any(segment.touched for segment in self.segments.values()) and not self._forgotten:
            expect(not losses, f"nothing was destroyed, and a loss is told: {losses}")

    def has_lost_unseen(self) -> bool:
        """Whether a segment is gone that nothing else speaks of; the count of a session's end may still miss it."""
        return any(segment.lost and not self._is_vouched_for(ident) for ident, segment in self.segments.items())

    def _is_vouched_for(self, ident: SegmentId) -> bool:
        """Whether something that is intact says that the segment was there."""
        same = [(other, segment) for other, segment in self.segments.items() if other[:2] == ident[:2]]
        if any(other.number > ident.number and not segment.lost for other, segment in same):
            return True
        before = self.segments.get(ident._replace(number=ident.number - 1))
        if before and not before.lost and any(frame.intact and frame.successor for frame in before.frames):
            return True
        return any(tuple(pin[:3]) == ident for pin in self._pins())

    def _pins(self) -> Iterable[tuple]:
        for line in self.intact_lines():
            record = decode(line)
            if isinstance(record, SessionRecord | SessionEndRecord):
                yield from record.pins


def parse(data: bytes) -> list[TrueFrame]:
    """The whole frames of a sound segment."""
    frames: list[TrueFrame] = []
    offset = 0
    while (header := decode_header(data, offset)) is not None and offset + header.size <= len(data):
        end = offset + header.size
        raw = zstandard.ZstdDecompressor().decompress(data[offset + HEADER_SIZE : end])
        if header.kind == FOOTER:
            footer = msgspec.json.decode(raw, type=Footer)
            frames.append(TrueFrame(offset, end, [], successor=footer.successor))
        else:
            frames.append(TrueFrame(offset, end, raw.removesuffix(b"\n").split(b"\n")))
        offset = end
    return frames
