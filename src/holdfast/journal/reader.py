"""The journal of a run on disk: its segments, in order, read while a writer may still be appending.

The order of a run is (session, writer, sequence number, index), never a clock. Each record is given once, wherever it
was rewritten.
"""

import contextlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import zstandard

from holdfast.journal.damage import Damage
from holdfast.journal.frame import HEADER_SIZE, Frame, Origin, RecordId, decode_header, payload_digest
from holdfast.journal.segment import SegmentId, parse_name, segment_location
from holdfast.journal.segment_scan import SegmentScan
from holdfast.storage.filesystem import FileSystem, ReadFile

_CHUNK = 1 << 20


class SegmentFile(NamedTuple):
    """A segment's file, and whether its name says that it is sealed."""

    ident: SegmentId
    named_sealed: bool
    path: Path

    @property
    def where(self) -> str:
        return segment_location(self.path)


class _SeenNumbers:
    """Sequence numbers of one writer, as ranges in order: a few, however many numbers."""

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.lasts: list[int] = []

    def add(self, number: int) -> bool:
        """Whether the number is a new one."""
        firsts, lasts = self.firsts, self.lasts
        place = bisect_right(firsts, number)
        if place and number <= lasts[place - 1]:
            return False
        if place and lasts[place - 1] + 1 == number:
            lasts[place - 1] = number
            self._join(place)
        elif place < len(firsts) and firsts[place] == number + 1:
            firsts[place] = number
        else:
            firsts.insert(place, number)
            lasts.insert(place, number)
        return True

    def _join(self, place: int) -> None:
        """Makes one of two ranges that have come to touch."""
        if place < len(self.firsts) and self.lasts[place - 1] + 1 == self.firsts[place]:
            self.lasts[place - 1] = self.lasts.pop(place)
            self.firsts.pop(place)


class SeenFrames:
    """Frames that were met, as ranges of sequence numbers: a few numbers for each writer of a session."""

    def __init__(self, ranges: Iterable[tuple[int, int, int, int]] = ()) -> None:
        self._numbers: dict[tuple[int, int], _SeenNumbers] = {}
        for session, writer, first, last in sorted(ranges):
            seen = self._numbers.setdefault((session, writer), _SeenNumbers())
            seen.firsts.append(first)
            seen.lasts.append(last)

    def add(self, origin: Origin) -> bool:
        """Whether the frame is met for the first time."""
        if (seen := self._numbers.get(origin[:2])) is None:
            seen = self._numbers[origin[:2]] = _SeenNumbers()
        return seen.add(origin.seq)

    def __contains__(self, origin: tuple[int, ...]) -> bool:
        session, writer, seq = origin
        seen = self._numbers.get((session, writer))
        place = bisect_right(seen.firsts, seq) if seen is not None else 0
        return seen is not None and place > 0 and seq <= seen.lasts[place - 1]

    def ranges(self) -> set[tuple[int, int, int, int]]:
        """What was met, for another object of this class."""
        return {
            (*writer, first, last)
            for writer, seen in self._numbers.items()
            for first, last in zip(seen.firsts, seen.lasts, strict=True)
        }


class SegmentWalk:
    """Every segment of a journal once, while its writer may still be appending.

    The newest come first: whatever a segment says of earlier ones is then true when those are read. A footer may
    still vouch for a successor that was started since; `follow` adds that.
    """

    def __init__(self, journal: "Journal") -> None:
        self._journal, self._left = journal, journal.segments()
        self.found = {segment.ident for segment in self._left}

    def __iter__(self) -> Iterator[SegmentFile]:
        while self._left:
            yield self._left.pop()

    def follow(self, segment: SegmentFile, scan: SegmentScan) -> None:
        """To be called with every finished scan."""
        after = segment.ident.next
        successor = scan.footer is not None and scan.footer.successor
        if successor and after not in self.found and (file := self._journal.find(after)):
            self.found.add(after)
            self._left.append(file)


class Journal:
    """The directory `journal` of a run, for reading."""

    def __init__(self, fs: FileSystem, directory: Path, run: bytes) -> None:
        self.fs, self.directory, self.run = fs, directory, run
        self._decompressor = zstandard.ZstdDecompressor()

    def segments(self) -> list[SegmentFile]:
        """All segment files, in the order of the run.

        Listed twice: a file that is renamed during one listing may be skipped by it, and is sealed only once.
        """
        found: dict[SegmentId, SegmentFile] = {}
        for name in (*self.fs.list(self.directory), *self.fs.list(self.directory)):
            if parsed := parse_name(name):
                ident, sealed = parsed
                if sealed or ident not in found:
                    found[ident] = SegmentFile(ident, sealed, self.directory / name)
        return [found[ident] for ident in sorted(found)]

    def find(self, ident: SegmentId) -> SegmentFile | None:
        """The file of one segment, under the name it has now."""
        # The open name is looked for between two looks for the sealed one, because a writer may rename it.
        for sealed in (True, False, True):
            path = self.directory / ident.filename(sealed=sealed)
            if path.exists():
                return SegmentFile(ident, sealed, path)
        return None

    def open(self, segment: SegmentFile) -> ReadFile:
        """The segment's file, also where its writer has sealed it since it was listed."""
        return open_segment(self.fs, segment.path)

    @contextlib.contextmanager
    def scan(
        self, segment: SegmentFile, *, start: int = 0, next_seq: int = 0, settle: bool = False
    ) -> Iterator[SegmentScan]:
        """A scan of one segment.

        With `settle`, the file is synced first, and only bytes that were there before are read: what the scan then
        gives is on stable storage. Where that sync fails, the last frame is left out, because nobody can vouch for
        it.
        """
        file = self.open(segment)
        try:
            size = file.size()
            if settle and not segment.named_sealed and not _is_synced(file):
                size = last_frame_offset(SegmentScan(file, self.run, segment.ident, segment.where, size=size))
            yield SegmentScan(file, self.run, segment.ident, segment.where, start=start, next_seq=next_seq, size=size)
        finally:
            file.close()

    def records(self, frame: Frame) -> list[bytes]:
        """The lines of a frame; none if it cannot be decoded."""
        return frame.lines(self._decompressor) or []

    def stream(self, found: list[Damage], heads: tuple[bytes, ...] = ()) -> Iterator[tuple[RecordId, bytes]]:
        """Every record once, in the order of the run; what is wrong on the way is added to `found`.

        With `heads`, only the records that begin with one of them.
        """
        seen = SeenFrames()
        for segment in self.segments():
            with self.scan(segment, settle=True) as scan:
                for frame in scan.frames():
                    if seen.add(frame.origin):
                        lines = scan.picked(frame, heads) if heads else enumerate(scan.lines(frame))
                        yield from ((frame.record_id(place), line) for place, line in lines)
            found += scan.damage

    def read_frame(self, segment: SegmentFile, offset: int) -> Frame | None:
        """The frame at `offset`, or None if there is no intact one."""
        file = self.open(segment)
        try:
            header = decode_header(file.read_at(offset, HEADER_SIZE))
            if header is None or header.run != self.run or header[3:6] != segment.ident:
                return None
            payload = file.read_at(offset + HEADER_SIZE, min(header.stored, file.size()))
        except OSError:
            return None
        finally:
            file.close()
        return Frame(header, offset, payload) if payload_digest(payload) == header.digest else None

    def hash_prefix(self, segment: SegmentFile, length: int) -> tuple[int, bytes]:
        """The size of a segment's file, and the hash of its first `length` bytes."""
        file = self.open(segment)
        try:
            return file.size(), hash_parts(file, 0, length)[1]
        finally:
            file.close()


def hash_parts(file: ReadFile, part: int, length: int) -> tuple[bytes, bytes]:
    """The hashes of the first `part` and the first `length` bytes of a file; empty where those cannot be read."""
    hash_, found, offset = sha256(), [], 0
    for end in (part, length):
        try:
            while offset < end and (piece := file.read_at(offset, min(_CHUNK, end - offset))):
                hash_.update(piece)
                offset += len(piece)
        except OSError:
            return b"", b""
        found.append(hash_.digest() if offset == end else b"")
    return found[0], found[1]


def _is_synced(file: ReadFile) -> bool:
    """Syncs a file; whether that went well."""
    try:
        file.sync()
    except OSError:
        return False
    return True


def open_segment(fs: FileSystem, path: Path) -> ReadFile:
    """Opens a segment by the name it was listed under; a writer may have given it its sealed name meanwhile."""
    try:
        return fs.open(path)
    except FileNotFoundError:
        parsed = parse_name(path.name)
        if parsed is None or parsed[1]:
            raise
        return fs.open(path.with_name(parsed[0].filename(sealed=True)))


def last_frame_offset(scan: SegmentScan) -> int:
    """Where the last whole frame of a segment begins; its end if absent."""
    for _ in scan.frames():
        pass
    return scan.last_frame.offset if scan.last_frame else scan.end
