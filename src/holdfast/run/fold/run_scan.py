"""One scan of a run without an index: what is finished and what is damaged, from one pass over its segments.

Every frame is checked and expanded once, and only the ends of trials and sessions are taken out of it; segments may
be added from several threads, in any order. Memory does not grow with the run.
"""

from __future__ import annotations

import sqlite3
import threading

from holdfast.journal import (
    BlobStore,
    Damage,
    Journal,
    SegmentFile,
    SegmentId,
    SegmentPin,
    SegmentState,
    cross_check,
    scanned_state,
)
from holdfast.journal.frame import Frame, RecordId
from holdfast.journal.segment_scan import SegmentScan
from holdfast.journal.segment_state import unseen_successors
from holdfast.run.core.codec import cited_blob, classify, decode
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import KEPT, SessionEndRecord, SessionRecord
from holdfast.run.core.run_id import refuse_newer
from holdfast.storage.filesystem import FileSystem, RealFileSystem, read_bytes

_TRIAL, _SESSION = b'{"type":"trial"', b'{"type":"session'


class RunScan:
    """What is known of a run so far."""

    def __init__(self, layout: Layout, run: bytes, fs: FileSystem | None = None) -> None:
        self.layout, self.run, self.fs = layout, run, fs or RealFileSystem()
        self._lock = threading.Lock()
        self._states: dict[SegmentId, SegmentState] = {}
        self._damage: dict[SegmentId, list[Damage]] = {}
        self._lines: dict[RecordId, bytes] = {}
        """The records of sessions, which are few; what they cite may not be there yet."""
        self._newer = 0
        self.sessions: list[SessionRecord] = []
        self.ends: list[SessionEndRecord] = []
        self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._db.execute("CREATE TABLE finished (key TEXT PRIMARY KEY) WITHOUT ROWID")
        self._db.execute("BEGIN")

    def close(self) -> None:
        self._db.close()

    def add_segment(self, segment: SegmentFile, scan: SegmentScan) -> None:
        """Carries out the scan of a segment, and keeps what it finds."""
        finished: list[tuple[str]] = []
        lines: dict[RecordId, bytes] = {}
        for frame in scan.frames():
            self._pick(scan, frame, finished, lines)
        with self._lock:
            self._states[segment.ident], self._damage[segment.ident] = scanned_state(segment, scan), scan.damage
            self._newer = max(self._newer, scan.newer_format)
            self._lines |= lines
            self._db.executemany("INSERT OR IGNORE INTO finished VALUES (?)", sorted(finished))

    def _pick(self, scan: SegmentScan, frame: Frame, finished: list[tuple[str]], lines: dict[RecordId, bytes]) -> None:
        for place, line in scan.picked(frame, (_TRIAL, _SESSION)):
            if line.startswith(_SESSION):
                lines[frame.record_id(place)] = line
            elif (entry := classify(line)) and entry.kind == "trial" and entry.flag == KEPT:
                finished.append((entry.key,))

    def scan_rest(self) -> None:
        """Adds the segments on disk that were not added yet; after that the questions below have answers.

        Raises:
            NewerFormat: a newer version wrote some of the run.
        """
        journal = Journal(self.fs, self.layout.journal, self.run)
        for segment in journal.segments():
            if segment.ident not in self._states:
                with journal.scan(segment, settle=True) as scan:
                    self.add_segment(segment, scan)
        refuse_newer(self.layout, self._newer)
        self.sessions, self.ends = self._session_records()

    def _session_records(self) -> tuple[list[SessionRecord], list[SessionEndRecord]]:
        found = [decode(self.resolve_blob(line)) for _, line in sorted(self._lines.items())]
        return [one for one in found if isinstance(one, SessionRecord)], [
            one for one in found if isinstance(one, SessionEndRecord)
        ]

    def resolve_blob(self, line: bytes) -> bytes:
        """A record's line, or the blob that it cites; a citation of a damaged blob is given as it is."""
        cited, blobs = cited_blob(line), BlobStore(self.fs, self.layout.blobs)
        return read_bytes(self.fs, blobs.path(cited[0])) if cited and blobs.check(*cited) is None else line

    # Questions, once everything is scanned.

    def finished_count(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM finished").fetchone()[0])

    def is_finished(self, key: str) -> bool:
        return self._db.execute("SELECT 1 FROM finished WHERE key = ?", (key,)).fetchone() is not None

    def planned(self) -> int:
        return self.sessions[-1].planned if self.sessions else 0

    def losses(self) -> list[str]:
        """Everything that is not as it was written, in words."""
        pins = [pin for record in self.sessions for pin in record.pins]
        pins += [pin for record in self.ends for pin in record.pins]
        lost = {ident for record in self.sessions for ident in record.lost}
        damage = [item for ident in sorted(self._damage) for item in self._damage[ident]]
        damage += cross_check(self._states.values(), pins, lost)
        never = {f"journal/{ident.filename(sealed=True)}" for ident in self._never_uploaded(pins) if ident not in lost}
        return [
            f"{item.where} was lost with its machine, before it was uploaded; its trials are owed."
            if item.where in never
            else str(item)
            for item in damage
            if item.is_loss
        ]

    def _never_uploaded(self, pins: list[SegmentPin]) -> list[SegmentId]:
        return unseen_successors(self._states.values(), pins) if self.layout.recovered.exists() else []
