"""Writing a journal again without some of its records, segment by segment, and verifying that nothing else is missing.

Every segment has its counterpart of the same name, so whatever refers to a segment finds it; the pins
of sessions are those of the new segments. All are sealed: nothing in them is in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import RunDamaged
from holdfast.journal import (
    Damage,
    Journal,
    SegmentFile,
    SegmentId,
    SegmentPin,
    SegmentState,
    cross_check,
    scanned_state,
)
from holdfast.journal.reader import SeenFrames
from holdfast.journal.segment import SegmentWriter
from holdfast.journal.segment_scan import SegmentScan
from holdfast.run.core.codec import decode, head_of
from holdfast.run.core.records import SessionEndRecord, SessionRecord
from holdfast.storage import crashpoints

_NEW_FRAME_BYTES = 1 << 20
_SESSION = b'{"type":"session'
_PINS = {"pins", "damaged"}
"""The fields of a session's record that say how segments were: in the new journal they are others."""
DropRecord = Callable[[bytes], bool]


class JournalRewriter:
    """Writes the journal of a run again into another directory."""

    def __init__(self, journal: Journal, directory: Path, drop: DropRecord, format_: int) -> None:
        """What is written has the run's own format: its records are as they were."""
        self._journal, self._directory, self._drop, self._format = journal, directory, drop, format_
        self._seen = SeenFrames()
        self._pins: dict[SegmentId, SegmentPin] = {}
        self._next_seq: dict[tuple[int, int], int] = {}

    def write(self) -> None:
        """Writes every segment.

        Raises:
            OSError: the disk failed.
        """
        segments = self._journal.segments()
        idents = {segment.ident for segment in segments}
        # The first writer of a session comes last: it holds the session's end, which pins the segments of the others.
        for segment in sorted(segments, key=lambda item: (item.ident.session, -item.ident.writer, item.ident.number)):
            after = segment.ident._replace(number=segment.ident.number + 1)
            self._write(segment, successor=after in idents)
            crashpoints.reach("clean.segment-written")

    def _write(self, segment: SegmentFile, *, successor: bool) -> None:
        ident = segment.ident
        journal, first_seq = self._journal, self._next_seq.get(ident[:2], 1)
        writer = SegmentWriter(journal.fs, self._directory, journal.run, ident, first_seq, self._format)
        try:
            with journal.scan(segment, settle=True) as scan:
                self._copy(scan, writer)
            writer.seal(successor=successor)
        finally:
            writer.close()
        self._next_seq[ident[:2]] = writer.next_seq
        self._pins[ident] = SegmentPin(*ident, writer.frames, writer.last_digest.hex(), sealed=True)

    def _copy(self, scan: SegmentScan, writer: SegmentWriter) -> None:
        lines: list[bytes] = []
        size = 0
        for line in self._kept(scan):
            if lines and size + len(line) > _NEW_FRAME_BYTES:
                writer.append(lines, _trial_keys(lines))
                lines, size = [], 0
            lines.append(line)
            size += len(line)
        if lines:
            writer.append(lines, _trial_keys(lines))

    def _kept(self, scan: SegmentScan) -> Iterator[bytes]:
        for frame in scan.frames():
            for line in scan.lines(frame) if self._seen.add(frame.origin) else ():
                if not self._drop(line):
                    yield self._with_new_pins(line)

    def _with_new_pins(self, line: bytes) -> bytes:
        """A session's record with the pins of the new segments; any other line as it is."""
        if not line.startswith(_SESSION) or not isinstance(decode(line), SessionRecord | SessionEndRecord):
            return line
        # As plain data, so that fields which this version does not know are kept.
        record = msgspec.json.decode(line)
        for name in _PINS & record.keys():
            known = (self._pins.get(SegmentId(*pin[:3])) for pin in record[name])
            record[name] = [pin for pin in known if pin is not None]
        return msgspec.json.encode(record)


def _trial_keys(lines: list[bytes]) -> list[str]:
    return [key for _, key in map(head_of, lines) if key]


def verify_rewrite(old: Journal, new: Journal, drop: DropRecord, noted: Collection[str] = ()) -> None:
    """Compares a rewritten journal with the one it was made from, in which `noted` files have lost something before.

    Raises:
        RunDamaged: they differ in more than the records that were to be dropped, or the new one is damaged.
    """
    damage: list[Damage] = []
    before: list[Damage] = []
    states: list[SegmentState] = []
    pins: list[SegmentPin] = []
    lost: list[SegmentId] = []
    expected = (line for _, line in old.stream(before) if not drop(line))
    for mine, theirs in zip_longest(_read_lines(new, states, damage), expected):
        if mine != theirs and (mine is None or theirs is None or _without_pins(mine) != _without_pins(theirs)):
            raise _rewrite_failed(new)
        if mine.startswith(_SESSION) and isinstance(record := decode(mine), SessionRecord | SessionEndRecord):
            pins += record.pins
            lost += record.lost if isinstance(record, SessionRecord) else []
    damage += [item for item in before if item.where not in noted]
    if any(item.is_loss for item in [*damage, *cross_check(states, pins, lost)]):
        raise _rewrite_failed(new)


def _read_lines(journal: Journal, states: list[SegmentState], damage: list[Damage]) -> Iterator[bytes]:
    for segment in journal.segments():
        with journal.scan(segment) as scan:
            for frame in scan.frames():
                yield from scan.lines(frame)
        states.append(scanned_state(segment, scan))
        damage += scan.damage


def _without_pins(line: bytes) -> Any:
    """The content of a session's record without its pins; of any other line the line itself."""
    if not line.startswith(_SESSION):
        return line
    record = msgspec.json.decode(line)
    return {name: value for name, value in record.items() if name not in _PINS}


def _rewrite_failed(new: Journal) -> RunDamaged:
    return RunDamaged(
        f"The new journal in {new.directory} does not match the old one; nothing was deleted.",
        hint="Check the disk, then try again.",
    )
