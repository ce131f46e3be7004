"""One scan of a run without an index: finished trials and damage, from one pass over its segments.

Every frame is checked and decompressed once, and only scores and the ends of trials and sessions are folded; in format
1 also the replies from other runs, which its ends do not name. Segments may be added from several threads, in any
order. Memory does not grow with the run.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from functools import cached_property
from typing import Any

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
from holdfast.journal.damage import group_by_file
from holdfast.journal.frame import Frame, RecordId
from holdfast.journal.reader import SeenFrames
from holdfast.journal.segment_scan import SegmentScan
from holdfast.journal.segment_state import unseen_successors
from holdfast.run.core.codec import citation, cited_blob, decode
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import (
    UNKNOWN_DIGEST,
    AppliedRecord,
    NoteRecord,
    SessionEndRecord,
    SessionRecord,
    with_applied,
)
from holdfast.run.core.run_id import refuse_newer
from holdfast.run.fold.acknowledged_frames import is_noted_damage
from holdfast.run.fold.entries import AnyEntry, StepEntry, entry_of_line
from holdfast.run.fold.fold_writer import FoldWriter
from holdfast.run.fold.rows.cited_artifacts import CITED_SCHEMA, CitedArtifacts
from holdfast.run.fold.rows.fold_tables import SCHEMA
from holdfast.run.fold.run_fold import RunFold
from holdfast.storage.filesystem import FileSystem, RealFileSystem, read_bytes

_OF_SESSIONS = b'{"type":"session', b'{"type":"applied"', b'{"type":"note","kind":"served"'
_TRIAL = b'{"type":"trial"'
_HEADS = (*_OF_SESSIONS, _TRIAL, b'{"type":"score"')
_HEADS_1 = (*_HEADS, b'{"type":"step"')
_CITATION, _HEAD_BYTES = b'"blob":"', 1 << 16
_NO_PLACE = 0


class RunScan:
    """What is known of a run so far."""

    def __init__(self, layout: Layout, run: bytes, fs: FileSystem | None = None) -> None:
        self.layout, self.run, self.fs = layout, run, fs or RealFileSystem()
        self._lock = threading.Lock()
        self._states: dict[SegmentId, SegmentState] = {}
        self._damage: dict[SegmentId, list[Damage]] = {}
        self._lines: dict[RecordId, bytes] = {}
        """The records of sessions and of who has answered, which are few; what they cite may not be there yet."""
        self._newer = 0
        self.sessions: list[SessionRecord] = []
        self.ends: list[SessionEndRecord] = []
        self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._db.executescript(
            f"BEGIN;{SCHEMA}{CITED_SCHEMA}CREATE TABLE blobs (digest TEXT PRIMARY KEY) WITHOUT ROWID;"
        )
        self._artifacts = CitedArtifacts(self._db)
        self._seen, self._writer = SeenFrames(), FoldWriter()
        self._writer.begin(self._db)

    def close(self) -> None:
        self._db.close()

    def add_segment(self, segment: SegmentFile, scan: SegmentScan) -> None:
        """Runs the scan of a segment, and keeps what it finds."""
        for frame in scan.frames():
            self._add_frame(frame, scan)
        with self._lock:
            # By segment: records that wait to be written take memory.
            self._writer.flush()
            self._states[segment.ident], self._damage[segment.ident] = scanned_state(segment, scan), scan.damage
            self._newer = max(self._newer, scan.newer_format)

    def _add_frame(self, frame: Frame, scan: SegmentScan) -> None:
        entries: list[AnyEntry | None] = [None] * frame.header.records
        lines: dict[RecordId, bytes] = {}
        heads = _HEADS if frame.header.format > 1 else _HEADS_1
        for place, line in scan.picked(frame, heads, _CITATION):
            self._note_files(line, frame.record_id(place))
            if line.startswith(_OF_SESSIONS):
                lines[frame.record_id(place)] = line
            elif line.startswith(heads):
                entry = entry_of_line(line)
                entries[place] = entry if not isinstance(entry, StepEntry) or entry.is_reused else None
        with self._lock:
            self._lines |= lines
            if self._seen.add(frame.origin):
                self._writer.add(frame.origin, _NO_PLACE, _NO_PLACE, entries)

    def _note_files(self, line: bytes, ident: RecordId) -> None:
        """Notes which files a record refers to; in the database, because they may be as many as trials."""
        if _CITATION in line[:_HEAD_BYTES] and (cited := citation(line)) is not None:
            with self._lock:
                self._db.execute("INSERT OR REPLACE INTO blobs VALUES (?)", (cited.blob,))
        elif line.startswith(_TRIAL):
            with self._lock:
                self._artifacts.add(line, ident)

    def cited_files(self) -> Iterator[tuple[str, str]]:
        """The files that records refer to, relative to the run, each with the digest of its content."""
        inputs = {item.digest for session in self.sessions for item in session.inputs.values() if item.copied}
        yield from ((f"inputs/{digest}", digest) for digest in sorted(inputs) if digest != UNKNOWN_DIGEST)
        yield from ((f"artifacts/{name}", digest) for name, digest in self._artifacts.counting(self.fold.deciding_end))
        yield from ((f"blobs/{digest}", digest) for (digest,) in self._query("SELECT digest FROM blobs ORDER BY 1"))

    def files_of_attempts(self) -> Iterator[tuple[str, str]]:
        """The artifacts that the ends of all attempts refer to, as above; one may be there with several digests."""
        yield from ((f"artifacts/{name}", digest) for name, digest in self._artifacts.every())

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
        refuse_newer(str(self.layout.root), self._newer)
        self._writer.flush()
        self.sessions, self.ends = self._session_records()

    def _session_records(self) -> tuple[list[SessionRecord], list[SessionEndRecord]]:
        found = [(ident, decode(self.resolve_blob(line))) for ident, line in sorted(self._lines.items())]
        sessions = [one for _, one in found if isinstance(one, SessionRecord)]
        applied = [(ident.session, one) for ident, one in found if isinstance(one, AppliedRecord)]
        return with_applied(sessions, applied), [one for _, one in found if isinstance(one, SessionEndRecord)]

    def resolve_blob(self, line: bytes) -> bytes:
        """A record's line, or the blob that it cites; a citation of a damaged blob is given as it is."""
        cited, blobs = cited_blob(line), BlobStore(self.fs, self.layout.blobs)
        return read_bytes(self.fs, blobs.path(cited[0])) if cited and blobs.check(*cited) is None else line

    # Questions, once everything is scanned.

    @cached_property
    def fold(self) -> RunFold:
        """The states of the trials that have ended; those that were only started are not in it."""
        return RunFold(self._query, self.sessions)

    def _query(self, query: str, values: tuple[object, ...] = ()) -> Iterator[tuple[Any, ...]]:
        return iter(self._db.execute(query, values))

    def spare_attempt(self, key: str) -> int:
        """The attempt that counts of a trial which is finished, and of which all that counts is known without its
        steps; 0 of any other.
        """
        trial = self.fold.find(key)
        is_spare = trial is not None and not self._has_several_names and trial.has_spare_transcript
        return trial.row.answer_of if trial is not None and is_spare else 0

    @cached_property
    def _has_several_names(self) -> bool:
        """Whether a model has answered under several names: the report counts the replies of each."""
        notes = [record for line in self._lines.values() if isinstance(record := decode(line), NoteRecord)]
        names = {(note.data.get("model"), note.data.get("name")) for note in notes if isinstance(note.data, dict)}
        return len(names) > len({model for model, _ in names})

    def losses(self, working: int = 0) -> dict[str, str]:
        """Everything that is not as it was written, in words, by the file that it is in.

        The newest segments of a session that is at work, the one with the number `working`, are not uploaded yet.
        """
        pins = [pin for record in self.sessions for pin in record.pins]
        pins += [pin for record in self.ends for pin in record.pins]
        lost = {ident for record in self.sessions for ident in record.lost}
        scanned = [item for ident in sorted(self._damage) for item in self._damage[ident]]
        damage = group_by_file(scanned, cross_check(self._states.values(), pins, lost))
        unseen = [ident for ident in self._never_uploaded(pins) if ident not in lost]
        never = {f"journal/{ident.filename(sealed=True)}" for ident in unseen if ident.session != working}
        awaited = {f"journal/{ident.filename(sealed=True)}" for ident in unseen if ident.session == working}
        states = list(self._states.values())
        found = [item for item in damage if item.is_loss and not is_noted_damage(item, states, self.sessions)]
        # Whether a trial remains is known by the fold, never by what is damaged.
        remain = "nothing remains because of it" if self.fold.counts.is_complete else "its trials remain"
        return {
            item.where: f"{item.where} was lost with its machine, before it was uploaded; {remain}."
            if item.where in never
            else f"{item}{'' if not self.fold.counts.is_complete else '; nothing remains because of it'}"
            for item in found
            if item.where not in awaited
        }

    def _never_uploaded(self, pins: list[SegmentPin]) -> list[SegmentId]:
        return unseen_successors(self._states.values(), pins) if self.layout.recovered.exists() else []
