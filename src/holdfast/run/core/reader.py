"""A run open for reading: beside its writer, after a crash, from whatever bytes are left.

Opening is recovery. Nothing in the run is changed; the reader's index is in the reader's own cache. What is given as
finished has been synced: the reader syncs the tail of an unsealed segment itself before it counts it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from holdfast.journal import BlobStore, ClosingRule, Damage, Index, IndexRow, Journal, RecordId, SegmentPin
from holdfast.journal.segment import SegmentId
from holdfast.journal.segment_state import unseen_successors
from holdfast.run.core.codec import citation, cited_blob, classify, decode
from holdfast.run.core.layout import Layout
from holdfast.run.core.reader_index import ReaderIndex
from holdfast.run.core.records import KEPT, AnyRecord, SessionEndRecord, SessionRecord
from holdfast.run.core.run_id import find_run_id, refuse_newer
from holdfast.storage.filesystem import FileSystem, RealFileSystem, read_bytes

_FINISHED = ClosingRule("trial", KEPT)
_PIECE_BYTES = 1 << 20


class LargeRecord(NamedTuple):
    """A record that is too large to be held: its line, a piece at a time."""

    type: str
    size: int
    pieces: Iterator[bytes]


class RunReader:
    """The state of a run, folded from its journal."""

    def __init__(self, root: Path, fs: FileSystem | None = None, *, index: Path | None = None) -> None:
        """Opens the run in `root`.

        Raises:
            NotARun: there is no run, or nothing was recorded in it.
            NewerFormat: a newer version wrote it.
        """
        self.layout = Layout(root)
        self.fs = fs or RealFileSystem()
        self.run = find_run_id(self.fs, self.layout)
        self.journal = Journal(self.fs, self.layout.journal, self.run)
        self.blobs = BlobStore(self.fs, self.layout.blobs)
        self.inputs = BlobStore(self.fs, self.layout.inputs)
        with contextlib.ExitStack() as undo:
            self._reader_index = ReaderIndex(self.layout, self.run) if index is None else None
            undo.callback(self._close_reader_index)
            self.index = Index(
                self.journal, classify, self._reader_index.path if self._reader_index else index, _FINISHED
            )
            undo.callback(self.index.close)
            self.refresh()
            undo.pop_all()

    def refresh(self, *, again: bool = True) -> None:
        """Reads what was written since the last time; with `again`, what was read before is checked again too.

        Raises:
            NewerFormat: a newer version wrote some of it.
        """
        self.index.refresh(again=again)
        refuse_newer(self.layout, self.index.newer_format())
        for name in ("sessions", "ends", "finished_count"):
            self.__dict__.pop(name, None)

    def close(self) -> None:
        self.index.close()
        self._close_reader_index()

    def _close_reader_index(self) -> None:
        if self._reader_index is not None:
            self._reader_index.close()

    # Records.

    def stream(self, found: list[Damage], *types: str) -> Iterator[tuple[RecordId, bytes]]:
        """Every record, or those of some types, as its line, in order, blobs put in; damage is added to `found`."""
        for ident, line in self.journal.stream(found, tuple(f'{{"type":"{name}"'.encode() for name in types)):
            if cited := cited_blob(line):
                damage = self.blobs.check(*cited)
                if damage is not None:
                    found.append(damage)
                else:
                    yield ident, self.read_blob(cited[0])
            else:
                yield ident, line

    def pieces(self, found: list[Damage]) -> Iterator[tuple[RecordId, Iterator[bytes]]]:
        """As `stream`, each line in pieces: however long a record is, little of it is in memory."""
        for ident, line in self.journal.stream(found):
            if (cited := cited_blob(line)) is None:
                yield ident, iter((line,))
            elif (damage := self.blobs.check(*cited)) is not None:
                found.append(damage)
            else:
                yield ident, self._blob_pieces(cited[0])

    def _blob_pieces(self, digest: str) -> Iterator[bytes]:
        file = self.fs.open(self.blobs.path(digest))
        try:
            offset = 0
            while part := file.read_at(offset, _PIECE_BYTES):
                yield part
                offset += len(part)
        finally:
            file.close()

    def read_blob(self, digest: str) -> bytes:
        return read_bytes(self.fs, self.blobs.path(digest))

    def read(self, row: IndexRow) -> AnyRecord | None:
        """The record that an index row points to, or None if its bytes are gone or of an unknown type."""
        line = self.read_line(row)
        return decode(line) if line is not None else None

    def read_line(self, row: IndexRow) -> bytes | None:
        """The bytes of that record."""
        line = self._journal_line(row)
        cited = cited_blob(line) if line is not None else None
        if cited is None:
            return line
        return self.read_blob(cited[0]) if self.blobs.check(*cited) is None else None

    def read_or_open(self, row: IndexRow) -> AnyRecord | LargeRecord | None:
        """As `read`, except that a record which is stored as a blob is given in pieces."""
        line = self._journal_line(row)
        if line is None or (cited := citation(line)) is None:
            return decode(line) if line is not None else None
        if self.blobs.check(cited.blob, cited.size) is not None:
            return None
        return LargeRecord(cited.type, cited.size, self._blob_pieces(cited.blob))

    def _journal_line(self, row: IndexRow) -> bytes | None:
        """The line that the journal has of a record: itself, or the citation of a blob."""
        segment = self.journal.find(row.segment)
        frame = self.journal.read_frame(segment, row.offset) if segment else None
        # Another segment may have taken the name of the one that was indexed.
        lines = self.journal.records(frame) if frame is not None and frame.origin == row.ident[:3] else []
        return lines[row.ident.place] if row.ident.place < len(lines) else None

    # State.

    @cached_property
    def sessions(self) -> list[SessionRecord]:
        """Every session's record, in order."""
        records = (self.read(row) for row in self.index.rows("session", ""))
        return [record for record in records if isinstance(record, SessionRecord)]

    @cached_property
    def ends(self) -> list[SessionEndRecord]:
        """The records of the sessions that ended in an orderly way."""
        records = (self.read(row) for row in self.index.rows("session_end", ""))
        return [record for record in records if isinstance(record, SessionEndRecord)]

    def pins(self) -> list[SegmentPin]:
        """What later records saw of earlier segments."""
        return [pin for record in self.sessions for pin in record.pins] + [
            pin for record in self.ends for pin in record.pins
        ]

    def damage(self) -> list[Damage]:
        """Everything that is not as it was written, torn tails included."""
        return self.index.damage(self.pins(), self.lost())

    def lost(self) -> dict[SegmentId, int]:
        """Segments that were lost with their machine, and the session that noted it."""
        return {ident: record.number for record in reversed(self.sessions) for ident in record.lost}

    def never_uploaded(self) -> list[SegmentId]:
        """In a run that was downloaded since its last session: the segments that never reached the store."""
        if not self.layout.recovered.exists():
            return []
        pins = [*self.pins(), *self.index.gone()]
        return [ident for ident in unseen_successors(self.index.states(), pins) if ident not in self.lost()]

    @property
    def place(self) -> str:
        """How a person names the run: by its URL if it is in a store."""
        return self.url or str(self.layout.root)

    @cached_property
    def url(self) -> str:
        """Where the run is in an object store; empty for any other."""
        try:
            return self.layout.read_url()
        except OSError:
            # A reader needs the URL only to name the run.
            return ""

    @cached_property
    def finished_count(self) -> int:
        """How many trials have a final record which is kept."""
        return self.index.count_keys(*_FINISHED)

    def finished(self) -> Iterator[str]:
        """The keys of the trials that have a final record which is kept, sorted."""
        return self.index.keys("trial", KEPT)

    def kept_more_than_once(self) -> dict[str, RecordId]:
        """Trials with more than one final record, and the one that counts; there are hardly ever any.

        It is the first of the newest session: what a late holder of the run adds never takes its place.
        """
        repeated: dict[str, RecordId] = {}
        last: IndexRow | None = None
        for row in self.index.rows("trial"):
            if row.flag != KEPT:
                continue
            if last is not None and row.key == last.key:
                best = repeated.setdefault(row.key, last.ident)
                repeated[row.key] = row.ident if row.ident.session > best.session else best
            last = row
        return repeated

    def last_written_at(self) -> str:
        """When the journal last grew, by the clock of its filesystem; for people."""
        times = [segment.path.stat().st_mtime for segment in self.journal.segments() if segment.path.exists()]
        return datetime.fromtimestamp(max(times), UTC).isoformat(timespec="seconds") if times else ""
