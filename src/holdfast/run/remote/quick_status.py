"""The quick status of a run in a store: its state and its counts from a few small reads, however large the run is.

The end of its last session is in the last bytes of a segment and counts what was finished. Of a run that was
interrupted, only what its machine last published is known so cheaply, and the note says so; a download counts what is
there.
"""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import zstandard

from holdfast.journal import SegmentFile, SegmentId
from holdfast.journal.segment import parse_name
from holdfast.journal.segment_scan import SegmentScan
from holdfast.run.core.codec import decode
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import SessionEndRecord, SessionRecord
from holdfast.run.fold.run_scan import RunScan
from holdfast.run.fold.states import FINISHED
from holdfast.run.remote.run_objects import run_id_in_store
from holdfast.run.remote.upload_lag import segments_text
from holdfast.storage.leases.remote import PublishedLease, find_published_lease
from holdfast.storage.object_store import ObjectReadFile, ObjectStore, StoredObject

_TAIL, _LARGE_TAIL = 64 << 10, 4 << 20
"""How many of a segment's last bytes are read to find its last frame, and how many at most if it does not fit there."""
_FIRST_FRAMES = 3
_READ_BYTES = 16 << 20
"""A run without a published count is read, to count its trials, if it is not larger than this."""
_FINISHED_CODES = (0, 1)
"""Exit codes of sessions that left nothing undone that they could do."""


class QuickStatus(NamedTuple):
    """What is known of a run without reading it; None is unknown."""

    state: str
    finished: int | None
    planned: int | None
    age_seconds: float
    """Since something was last stored, by the store's clock and this machine's."""
    note: str = ""
    states: dict[str, int] | None = None


def quick_status(store: ObjectStore, segments: list[StoredObject]) -> QuickStatus:
    """The status of the run whose segments these are.

    Raises:
        NotARun: nothing in them is readable.
        StorageFailure: the store does not answer.
    """
    newest = _NewestSession(store, segments)
    published = find_published_lease(store)
    age = max(time.time() - max(entry.at for entry in segments), 0.0)
    is_held = published is not None and published.is_current()
    if published is not None and not published.planned:
        # Whoever held the run did not execute it, or was killed before it could count.
        published = None
    if is_held and published is not None:
        return QuickStatus("running", published.finished, published.planned, age)
    end = newest.end()
    if not is_held and end is not None and (published is None or _decides(end, published)):
        return _status_after_end(end, newest.idents, age)
    if published is not None:
        return QuickStatus("incomplete", published.finished, published.planned, age, _published_note(published))
    return _counted_status("running" if is_held else "incomplete", newest, segments, age)


def _decides(end: SessionEndRecord, published: PublishedLease) -> bool:
    """Whether the end of the last session tells more than what was published: a later holder may only have uploaded."""
    is_no_more = published.planned == end.planned and published.finished <= (_finished_at(end) or 0)
    return published.session <= end.number or is_no_more


def _counted_status(state: str, newest: _NewestSession, segments: list[StoredObject], age: float) -> QuickStatus:
    """The status of a run that nothing but its records counts: a small one is read."""
    if sum(entry.size for entry in segments) > _READ_BYTES:
        note = "The number of finished trials is unknown until the run is downloaded."
        return QuickStatus(state, None, newest.planned(), age, note)
    with tempfile.TemporaryDirectory(prefix="holdfast-") as directory:
        Layout(Path(directory)).journal.mkdir()
        with closing(RunScan(Layout(Path(directory)), newest.run)) as scan:
            for segment, object_scan in newest.scans():
                scan.add_segment(segment, object_scan)
            scan.scan_rest()
            counts = scan.fold.counts
    return QuickStatus(state, counts.finished, counts.planned or None, age, "Counted by what is in the store.")


def _status_after_end(end: SessionEndRecord, present: set[SegmentId], age: float) -> QuickStatus:
    missing = [pin for pin in end.pins if SegmentId(*pin[:3]) not in present]
    if missing:
        note = f"Missing: {segments_text(len(missing))} of its last session. Not checked."
        return QuickStatus("incomplete", _finished_at(end), end.planned, age, note)
    finished = _finished_at(end)
    is_complete = 0 < end.planned <= (finished or 0) and end.exit_code in _FINISHED_CODES
    state = "complete" if is_complete else "incomplete"
    gaps = _gaps(present)
    note = f"Missing: {segments_text(gaps)} of earlier work. " if gaps else ""
    return QuickStatus(state, finished, end.planned, age, f"{note}Ended {state}, not checked.", end.states)


def _gaps(present: set[SegmentId]) -> int:
    """How many segments are missing before others of the same writer."""
    last: dict[tuple[int, int], int] = {}
    for ident in present:
        last[ident[:2]] = max(last.get(ident[:2], 0), ident.number)
    return sum(last.values()) - len(present)


def _finished_at(end: SessionEndRecord) -> int | None:
    """How many trials were finished; an earlier version counted those that only lacked a score among them."""
    if end.states:
        return sum(end.states.get(state.value, 0) for state in FINISHED)
    return end.finished if end.finished >= 0 else None


def _published_note(published: PublishedLease) -> str:
    late = f", with {published.behind} segments not uploaded" if published.behind else ""
    return f"The count is the last one that its machine reported{late}."


class _NewestSession:
    """The newest session of a run, read at its two ends only."""

    def __init__(self, store: ObjectStore, segments: list[StoredObject]) -> None:
        named = ((parse_name(entry.key.rpartition("/")[2]), entry) for entry in segments)
        known = {parsed[0]: entry for parsed, entry in named if parsed}
        self._store, self.run, self.idents = store, run_id_in_store(store, segments), set(known)
        self._known = known
        newest = max(ident.session for ident in known)
        # The first writer of a session begins it and ends it.
        writer = min(ident.writer for ident in known if ident.session == newest)
        self._newest = {ident: entry for ident, entry in sorted(known.items()) if ident[:2] == (newest, writer)}

    def end(self) -> SessionEndRecord | None:
        """How the newest session ended, if it came to that."""
        ident, entry = list(self._newest.items())[-1]
        scan = self._scan_tail(ident, entry, max(entry.size - _TAIL, 0))
        if scan.last_frame is None and scan.footer is not None:
            scan = self._scan_tail(ident, entry, scan.footer.offsets[-1] if scan.footer.offsets else entry.size)
        elif scan.last_frame is None:
            scan = self._scan_tail(ident, entry, max(entry.size - _LARGE_TAIL, 0))
        lines = scan.last_frame.lines(zstandard.ZstdDecompressor()) if scan.last_frame else None
        record = decode(lines[-1]) if lines else None
        return record if isinstance(record, SessionEndRecord) else None

    def _scan_tail(self, ident: SegmentId, entry: StoredObject, start: int) -> SegmentScan:
        """A scan of the last bytes of a segment; of none if they are many."""
        scan = self._scan(ident, entry, start=start if start >= entry.size - _LARGE_TAIL else entry.size)
        deque(scan.frames(), maxlen=0)
        return scan

    def scans(self) -> Iterator[tuple[SegmentFile, SegmentScan]]:
        """Every segment of the run, to be read."""
        for ident, entry in sorted(self._known.items()):
            parsed = parse_name(entry.key.rpartition("/")[2])
            yield SegmentFile(ident, bool(parsed and parsed[1]), Path(entry.key)), self._scan(ident, entry)

    def planned(self) -> int | None:
        """How many trials the newest session planned, by its record, which is at its start."""
        ident, entry = next(iter(self._newest.items()))
        for frame in islice(self._scan(ident, entry).frames(), _FIRST_FRAMES):
            for line in frame.lines(zstandard.ZstdDecompressor()) or []:
                if isinstance(record := decode(line), SessionRecord) and record.number == ident.session:
                    return record.planned
        return None

    def _scan(self, ident: SegmentId, entry: StoredObject, *, start: int = 0) -> SegmentScan:
        return SegmentScan(ObjectReadFile(self._store, entry), self.run, ident, entry.key, start=start)
