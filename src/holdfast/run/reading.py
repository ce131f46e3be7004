"""A run open for reading: beside its writer, after a crash, from whatever bytes are left.

Opening is recovery. Nothing in the run is changed; the reader's index lies in the reader's own cache. What is given as
finished has been synced: the reader syncs the tail of an unsealed segment itself before it counts it.
"""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import NewerFormat, NotARun
from holdfast.journal import FORMAT, BlobStore, Closing, Damage, Index, Journal, RecordId, Row, SegmentPin
from holdfast.journal.directory import never_brought, open_segment
from holdfast.journal.frame import HEADER_SIZE, MAGIC, decode_header
from holdfast.journal.index import copy_index, extent, has_its_sum
from holdfast.journal.segment import SegmentId, parse_name
from holdfast.run.layout import Layout, reader_cache
from holdfast.run.records import KEPT, AnyRecord, Session, SessionEnd, Trial, citation, cited_blob, classify, decode
from holdfast.storage.filesystem import FileSystem, RealFileSystem, read_bytes

_FINISHED = Closing("trial", KEPT)
_FIRST_BYTES = 1 << 20
_PIECE_BYTES = 1 << 20
_LOOKED_AT = 100
"""How many finished trials without files are asked whether they should have any, when a run is opened."""
_LOST = "Bring its journal back from a copy; `holdfast repair` takes what result files still tell."


class Large(NamedTuple):
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
        self.index = Index(self.journal, classify, index or _own_cache(self.layout, self.run), _FINISHED)
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            self.refresh()
            undo.pop_all()

    def refresh(self, *, again: bool = True) -> None:
        """Takes in what was written since the last look; with `again`, what was read before is checked again too.

        Raises:
            NewerFormat: a newer version wrote some of it.
        """
        self.index.refresh(again=again)
        refuse_newer(self.layout, self.index.newer_format())
        for name in ("sessions", "ends", "finished_count"):
            self.__dict__.pop(name, None)

    def close(self) -> None:
        self.index.close()

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

    def read(self, row: Row) -> AnyRecord | None:
        """The record that an index row stands for, or None if its bytes are gone or of an unknown type."""
        line = self.read_line(row)
        return decode(line) if line is not None else None

    def read_line(self, row: Row) -> bytes | None:
        """The bytes of that record."""
        line = self._line(row)
        cited = cited_blob(line) if line is not None else None
        if cited is None:
            return line
        return self.read_blob(cited[0]) if self.blobs.check(*cited) is None else None

    def read_or_open(self, row: Row) -> AnyRecord | Large | None:
        """As `read`, except that a record which is stored as a blob is given in pieces."""
        line = self._line(row)
        if line is None or (cited := citation(line)) is None:
            return decode(line) if line is not None else None
        if self.blobs.check(cited.blob, cited.size) is not None:
            return None
        return Large(cited.type, cited.size, self._blob_pieces(cited.blob))

    def _line(self, row: Row) -> bytes | None:
        """What stands in the journal of a record."""
        segment = self.journal.find(row.segment)
        frame = self.journal.read_frame(segment, row.offset) if segment else None
        # Another segment may have taken the name of the one that was indexed.
        lines = self.journal.records(frame) if frame is not None and frame.origin == row.ident[:3] else []
        return lines[row.ident.place] if row.ident.place < len(lines) else None

    # State.

    @cached_property
    def sessions(self) -> list[Session]:
        """Every session's record, in order."""
        records = (self.read(row) for row in self.index.rows("session", ""))
        return [record for record in records if isinstance(record, Session)]

    @cached_property
    def ends(self) -> list[SessionEnd]:
        """The records of the sessions that ended in an orderly way."""
        records = (self.read(row) for row in self.index.rows("session_end", ""))
        return [record for record in records if isinstance(record, SessionEnd)]

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

    def never_brought(self) -> list[SegmentId]:
        """In a run that was brought home since its last session: the segments that never reached the store."""
        if not self.layout.recovered.exists():
            return []
        pins = [*self.pins(), *self.index.gone()]
        return [ident for ident in never_brought(self.index.states(), pins) if ident not in self.lost()]

    @property
    def place(self) -> str:
        """How a person names the run: by its URL if it is in a store."""
        return self.url or str(self.layout.root)

    @cached_property
    def url(self) -> str:
        """Where the run is in an object store; empty for any other."""
        try:
            return self.layout.remote.read_text(encoding="utf-8").strip()
        except OSError:
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
        last: Row | None = None
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

    def notes(self) -> list[str]:
        """What was found to differ between the index, the journal, the artifacts and the plan, and what was done
        about it.
        """
        notes = [f"The index was built anew from the journal: {self.index.note}."] if self.index.note else []
        losses = [damage for damage in self.damage() if damage.is_loss]
        if losses:
            kinds = Counter(damage.kind.value for damage in losses)
            told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
            notes.append(f"The journal is damaged ({told}); what was lost is owed again. `holdfast verify` names it.")
        return notes + self._lost_notes() + self._plan_notes() + self._artifact_notes()

    def _lost_notes(self) -> list[str]:
        present = {segment.ident for segment in self.journal.segments()}
        return [
            f"Segment {ident} was lost with its machine, noted by session {session}; its trials were owed again."
            for ident, session in sorted(self.lost().items())
            if ident not in present
        ]

    def _artifact_notes(self) -> list[str]:
        """A quick comparison, by directories; `verify` goes by files."""
        directory = self.layout.artifacts
        present = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
        known = {*self.finished(), *self.index.open_keys()} if present else set()
        notes = [
            f"artifacts/{name} is left alone: no record of such a trial is in the journal."
            for name in sorted(present - known)
        ]
        without = itertools.islice((key for key in self.finished() if key not in present), _LOOKED_AT)
        if lacking := [key for key in without if self._names_artifacts(key)]:
            told = f"{', '.join(lacking[:3])}{' and others' if len(lacking) > 3 else ''}"
            notes.append(f"The artifacts of finished trials are gone ({told}); their records stand.")
        return notes

    def _names_artifacts(self, key: str) -> bool:
        records = (self.read(row) for row in self.index.rows("trial", key))
        return any(isinstance(record, Trial) and record.artifacts for record in records)

    def _plan_notes(self) -> list[str]:
        finished = self.finished_count
        planned = self.sessions[-1].planned if self.sessions else 0
        if planned and finished > planned:
            return [
                f"{finished} trials are finished, {planned} are planned; those beyond the plan are kept, not reported."
            ]
        return []


def check_openable(root: Path, fs: FileSystem) -> None:
    """Looks whether there is a run in `root` that this version can read; changes nothing, and reads no records.

    Raises:
        NotARun: there is no run, or nothing was recorded in it.
        NewerFormat: a newer version wrote it.
    """
    layout = Layout(root)
    journal = Journal(fs, layout.journal, find_run_id(fs, layout))
    for segment in journal.segments():
        with journal.scan(segment) as scan:
            refuse_newer(layout, scan.find_newer_format())


def refuse_newer(layout: Layout, newer: int) -> None:
    """Ends the opening of a run that holds frames of the format `newer`; 0 if it holds none.

    Raises:
        NewerFormat: it does.
    """
    if newer:
        raise NewerFormat(
            f"Resume aborted: {layout.root} was written in format {newer}; this version reads up to {FORMAT}.",
            hint="Install a newer holdfast; the run is intact.",
        )


def _own_cache(layout: Layout, run: bytes) -> Path | None:
    """This reader's index file, begun from the run's own where there is one; None if there is no place for it."""
    cache = reader_cache(layout.root, run)
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    _take_further(cache, layout.index)
    return cache


def take_further(layout: Layout, run: bytes) -> None:
    """Begins the run's own index, which the caller may write, from this user's where that knows more of the journal.

    So what was read to look at the run is not read again to execute it.
    """
    _take_further(layout.index, reader_cache(layout.root, run))


def _take_further(index: Path, other: Path) -> None:
    """Replaces an index by one that knows more, and nothing by whatever there is; either is checked when it is used."""
    with contextlib.suppress(OSError, sqlite3.Error):
        known = extent(index)
        if extent(other) > known and (not known or has_its_sum(other)):
            copy_index(other, index)


def find_run_id(fs: FileSystem, layout: Layout) -> bytes:
    """The id that the run's segments carry.

    Raises:
        NotARun: there is no journal, or not one sound header in it.
    """
    if not layout.root.is_dir():
        state = "is a file" if layout.root.exists() else "does not exist"
        raise NotARun(f"{layout.root} is not a run: it {state}.", hint="Give the directory of a run.")
    if not layout.journal.is_dir():
        raise NotARun(f"{layout.root} is not a run: it has no journal.", hint="Give the directory of a run.")
    votes: Counter[bytes] = Counter()
    names = [name for name in fs.list(layout.journal) if parse_name(name)]
    for name in names:
        votes.update(ids_in(fs, layout.journal / name))
    if not votes:
        state = "its journal is empty" if not names else "nothing legible is in its journal"
        if layout.config.exists():
            raise NotARun(f"{layout.root} has lost its records: {state}.", hint=_LOST)
        raise NotARun(f"Nothing was recorded in {layout.root}: {state}.", hint="`holdfast run` begins a run.")
    return votes.most_common(1)[0][0]


def ids_in(fs: FileSystem, path: Path) -> list[bytes]:
    """The run id of the first header in a segment that checks out; the file name must agree with it."""
    file = open_segment(fs, path)
    try:
        return ids_at(lambda size: file.read_at(0, size))
    except OSError:
        return []
    finally:
        file.close()


def ids_at(read: Callable[[int], bytes]) -> list[bytes]:
    """As `ids_in`, of a segment whose first bytes `read` gives: few of them, and more if those are damaged."""
    if (header := decode_header(read(HEADER_SIZE))) is not None:
        return [header.run]
    data = read(_FIRST_BYTES)
    offset = data.find(MAGIC)
    while offset >= 0:
        if (header := decode_header(data, offset)) is not None:
            return [header.run]
        offset = data.find(MAGIC, offset + 1)
    return []
