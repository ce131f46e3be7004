"""The journal of a run as it lies on disk: its segments, in order, and what they say of one another.

The order of a run is (session, writer, sequence number, index), never a clock. Segments vouch for one another: a footer
for the successor its writer had created, numbers and sequence numbers for what stands between, pins for
everything that a later session saw. What is vouched for and not there is damage, not an ordinary crash.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import zstandard

from holdfast.journal.damage import Damage, Kind
from holdfast.journal.frame import HEADER_SIZE, Origin, RecordId, decode_header, digest_of
from holdfast.journal.scan import Frame, SegmentScan, where_of
from holdfast.journal.segment import SegmentId, parse_name
from holdfast.journal.writer import SegmentPin
from holdfast.storage.filesystem import FileSystem, ReadFile

_MISSING_NAMED = 1000


class SegmentFile(NamedTuple):
    """A segment's file, and whether its name says that it is sealed."""

    ident: SegmentId
    named_sealed: bool
    path: Path

    @property
    def where(self) -> str:
        return where_of(self.path)


class SegmentState(NamedTuple):
    """What one segment was found to hold."""

    ident: SegmentId
    where: str
    named_sealed: bool
    sealed: bool
    successor: bool
    frames: int
    records: int
    first_seq: int
    last_seq: int
    last_digest: bytes
    lost: bool

    def pin(self) -> SegmentPin:
        return SegmentPin(*self.ident, self.frames, self.last_digest.hex(), self.sealed)


class Seen:
    """Frames that were met, as ranges of sequence numbers: a few numbers for each writer of a session."""

    def __init__(self) -> None:
        self._ranges: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def add(self, origin: Origin) -> bool:
        """Whether the frame is met for the first time."""
        ranges = self._ranges.setdefault(origin[:2], [])
        if any(first <= origin.seq <= last for first, last in ranges):
            return False
        if ranges and ranges[-1][1] + 1 == origin.seq:
            ranges[-1] = (ranges[-1][0], origin.seq)
        else:
            ranges.append((origin.seq, origin.seq))
        return True


class Walk:
    """Every segment of a journal once, while its writer may go on.

    The newest come first: whatever a segment says of earlier ones is then true when those are read. A footer may still
    vouch for a successor that was begun since; `follow` adds that.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal, self._left = journal, journal.segments()
        self.found = {segment.ident for segment in self._left}

    def __iter__(self) -> Iterator[SegmentFile]:
        while self._left:
            yield self._left.pop()

    def follow(self, segment: SegmentFile, scan: SegmentScan) -> None:
        """To be called with every finished scan."""
        after = segment.ident._replace(number=segment.ident.number + 1)
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

        Listed twice: a file that is renamed during one listing may be passed over by it, and is sealed only once.
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
            if settle and not segment.named_sealed:
                with contextlib.suppress(OSError):
                    file.sync()
                    settle = False
            else:
                settle = False
            if settle:
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
        seen = Seen()
        for segment in self.segments():
            with self.scan(segment, settle=True) as scan:
                for frame in scan.frames():
                    if seen.add(frame.origin):
                        lines = scan.picked(frame, heads) if heads else enumerate(scan.lines(frame))
                        yield from ((frame.record_id(place), line) for place, line in lines)
            found += scan.damage

    def read_frame(self, segment: SegmentFile, offset: int) -> Frame | None:
        """The frame at `offset`, or None if no sound one stands there."""
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
        return Frame(header, offset, payload) if digest_of(payload) == header.digest else None


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
    """Where the last whole frame of a segment begins; its end if there is none."""
    for _ in scan.frames():
        pass
    return scan.last_frame.offset if scan.last_frame else scan.end


def state_of(segment: SegmentFile, scan: SegmentScan) -> SegmentState:
    """The result of a finished scan."""
    return SegmentState(
        segment.ident,
        segment.where,
        segment.named_sealed,
        scan.sealed,
        scan.footer.successor if scan.footer else False,
        scan.frame_count,
        scan.record_count,
        scan.first_seq,
        scan.last_seq,
        scan.last_digest,
        any(damage.is_loss for damage in scan.damage),
    )


def never_brought(states: Iterable[SegmentState], pins: Iterable[SegmentPin]) -> list[SegmentId]:
    """The segments that only the footer before them vouches for: the newest of a writer that was killed with them."""
    known = {state.ident: state for state in states}
    pinned = {SegmentId(*pin[:3]) for pin in pins}
    after = [_after(state.ident) for state in known.values() if state.successor]
    newest = {ident[:2]: ident for ident in sorted(known)}
    return sorted(ident for ident in after if ident not in known and ident not in pinned and newest[ident[:2]] < ident)


def _after(ident: SegmentId) -> SegmentId:
    return ident._replace(number=ident.number + 1)


def cross_check(
    states: Iterable[SegmentState], pins: Iterable[SegmentPin], lost: Iterable[SegmentId] = ()
) -> list[Damage]:
    """What the segments and the pins say that is not so; what was already noted as `lost` is not said again."""
    known = {state.ident: state for state in sorted(states)}
    damage = [_truncated(state) for state in known.values() if state.named_sealed and not state.sealed]
    missing: dict[SegmentId, str] = {}
    for state in known.values():
        _note_missing(state, known, missing)
    for pin in pins:
        ident = SegmentId(*pin[:3])
        if ident in known:
            damage += _check_pin(known[ident], pin)
        else:
            missing.setdefault(ident, f"a later record saw {pin.frames} frames in it")
    for ident in lost:
        missing.pop(SegmentId(*ident), None)
    damage += [_missing(ident, reason, known) for ident, reason in sorted(missing.items())]
    damage += _sequence_gaps(known.values())
    return list(dict.fromkeys(damage))


def _truncated(state: SegmentState) -> Damage:
    return Damage(Kind.TRUNCATED, state.where, "it was sealed, and its footer is gone")


def _missing(ident: SegmentId, reason: str, known: dict[SegmentId, SegmentState]) -> Damage:
    lost = _frames_between(ident, known)
    frames = f" with frames {lost[0]} to {lost[1]}" if lost[0] else ""
    where = f"journal/{ident.filename(sealed=True)}"
    return Damage(Kind.MISSING, where, f"the segment is gone{frames}; {reason}", lost=lost)


def _frames_between(ident: SegmentId, known: dict[SegmentId, SegmentState]) -> tuple[int, int]:
    """The frames that stood in a segment that is gone, as far as its neighbours tell."""
    same = [state for state in known.values() if state.ident[:2] == ident[:2] and state.frames]
    before = max((state.last_seq for state in same if state.ident < ident), default=0)
    after = min((state.first_seq for state in same if state.ident > ident), default=0)
    return (before + 1, after - 1) if before + 1 < after else (0, 0)


def _note_missing(state: SegmentState, known: dict[SegmentId, SegmentState], missing: dict[SegmentId, str]) -> None:
    # Bounded, because a file may bear any number in its name.
    for number in range(state.ident.number - 1, max(state.ident.number - _MISSING_NAMED, 0), -1):
        before = state.ident._replace(number=number)
        if before in known:
            break
        missing[before] = f"segment {state.ident} came after it"
    after = _after(state.ident)
    if state.successor and after not in known:
        missing[after] = f"the footer of {state.ident} vouches for it"


def _check_pin(state: SegmentState, pin: SegmentPin) -> list[Damage]:
    if pin.sealed and not state.sealed and not state.named_sealed:
        return [Damage(Kind.TRUNCATED, state.where, "a later record saw it sealed, and its footer is gone")]
    if state.frames < pin.frames and not state.lost:
        detail = f"a later record saw {pin.frames} frames, {state.frames} are there"
        lost = (state.last_seq + 1, state.last_seq + pin.frames - state.frames)
        return [Damage(Kind.TRUNCATED, state.where, detail, lost=lost)]
    if state.frames == pin.frames and state.last_digest.hex() != pin.last_digest:
        return [Damage(Kind.CHANGED, state.where, "its last frame is not the one that a later record saw")]
    return []


def _sequence_gaps(states: Iterable[SegmentState]) -> list[Damage]:
    damage: list[Damage] = []
    for before, after in pairwise(states):
        adjacent = before.ident._replace(number=before.ident.number + 1) == after.ident
        if not adjacent or before.lost or after.lost or not before.frames or not after.frames:
            continue
        if after.first_seq > before.last_seq + 1:
            lost = (before.last_seq + 1, after.first_seq - 1)
            detail = f"frames {lost[0]} to {lost[1]} between it and its successor are missing"
            damage.append(Damage(Kind.GAP, before.where, detail, lost=lost))
    return damage
