"""Building an index from the journal, and keeping it true.

Its rows count only while the bytes they were read from are unchanged: every `refresh` hashes all indexed bytes again
(without decompressing them) and reads what is new. If indexed bytes have changed or are missing, the rows that depend
on them cannot be separated from the rest, so everything is folded again from the existing frames.

The index does not know what records mean. A `Fold` gets the records of every frame once, in any order of the segments,
and keeps its results in its own tables, in the same file and the same transactions.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from holdfast.journal.damage import Damage
from holdfast.journal.frame import COPY, Frame, Origin
from holdfast.journal.index.database import INDEX_ERRORS, STATE_COLUMNS, IndexDatabase, state_from_row
from holdfast.journal.reader import Journal, SeenFrames, SegmentFile, SegmentWalk, hash_parts
from holdfast.journal.segment import SegmentId
from holdfast.journal.segment_scan import SegmentScan
from holdfast.journal.segment_state import SegmentState, scanned_state
from holdfast.storage import crashpoints

_damage_encoder = msgspec.json.Encoder()
damage_decoder = msgspec.json.Decoder(list[Damage])


class RecordPlace(NamedTuple):
    """Where the records of a key lie: the number of a segment in the index, the key, and the offset of a frame."""

    segment: int
    key: str
    offset: int


class Fold(Protocol):
    """What the caller makes of the records of a journal, in tables of its own."""

    schema: str

    def begin(self, db: sqlite3.Connection) -> None:
        """From now on the tables are those of this connection; what was not flushed is forgotten."""

    def prepared(self, frame: Origin) -> Sequence[Any] | None:
        """The records of a frame, where they are known already and the frame need not be decoded."""

    def decode(self, lines: list[bytes]) -> Sequence[Any]:
        """The records of a frame, for `add`."""

    def add(self, frame: Origin, segment: int, offset: int, records: Sequence[Any]) -> None:
        """Takes in the records of a frame; each frame once."""

    def flush(self) -> None:
        """Writes what was taken in to the tables."""

    def forget_prepared(self, seen: SeenFrames) -> None:
        """Drops prepared frames that were taken in already."""

    def clear(self) -> None:
        """Empties the tables."""

    def remember_places(self) -> None:
        """Keeps where every record was read from, until `missed_places` is asked."""

    def missed_places(self) -> Iterator[RecordPlace]:
        """Where records were read from then, and are not any more."""

    def keys(self, lines: list[bytes]) -> list[str]:
        """The keys that records belong to, without taking them in."""


class _IndexedSegment(NamedTuple):
    """How much of a segment the index already holds."""

    number: int
    length: int
    """How many of its bytes were looked at."""
    hash: bytes
    """The hash of those."""
    read_to: int
    """Just behind the last whole frame among them."""
    named_sealed: bool
    sealed: bool
    lost: bool
    next_seq: int


class _SegmentChangedError(Exception):
    """Bytes that were indexed are no longer what they were."""


class IndexBuilder:
    """Writes the rows of one index."""

    def __init__(self, database: IndexDatabase, journal: Journal, fold: Fold) -> None:
        self._database, self._journal, self._fold = database, journal, fold
        self._hashed: dict[SegmentId, int] = {}
        """How many bytes of each segment this object has found as they were indexed."""
        self._seen = SeenFrames()
        fold.begin(self._db)

    @property
    def _db(self) -> sqlite3.Connection:
        # Not kept: the database has another connection after it was rebuilt.
        return self._database.connection

    def refresh(self, *, settle: bool = True, again: bool = True) -> None:
        """Brings the rows up to the journal as it is now; reads only what is new, unless something has changed.

        Without `again`, bytes that this object has found unchanged before are not looked at another time.
        """
        if again:
            self._hashed.clear()
        try:
            self._refresh(settle=settle)
        except INDEX_ERRORS as error:
            # The index is only a cache: whatever is wrong with it, it is rebuilt from the journal.
            self._database.begin_anew(error)
            try:
                self._refresh(settle=settle)
            except INDEX_ERRORS as once_more:
                # For example a full disk: a new index would not fit either.
                self._database.begin_anew(once_more, in_temporary_file=True)
                self._refresh(settle=settle)

    def is_current(self) -> bool:
        """Whether the rows are those of the journal as it is now: nothing was added, changed or taken away."""
        self._hashed.clear()
        segments = self._journal.segments()
        query = "SELECT session, writer, number FROM segments WHERE NOT gone"
        if {SegmentId(*row) for row in self._db.execute(query)} != {segment.ident for segment in segments}:
            return False
        return all(self._is_unchanged(segment) for segment in segments)

    def _is_unchanged(self, segment: SegmentFile) -> bool:
        known = self._find_indexed(segment.ident)
        if known is None or known.named_sealed != segment.named_sealed:
            return False
        size, unchanged = self._compare_indexed_bytes(segment, known)
        return unchanged and size == known.length

    def _refresh(self, *, settle: bool) -> None:
        # Whatever an earlier transaction that was taken back had taken in is forgotten.
        self._fold.begin(self._db)
        self._db.execute("BEGIN IMMEDIATE")
        # Commits, or takes back all of it.
        with self._db:
            try:
                self._read_new(settle=settle)
            except _SegmentChangedError:
                self._read_everything(settle=settle)
            crashpoints.reach("index.rows-written")
        crashpoints.reach("index.committed")

    def _read_new(self, *, settle: bool) -> None:
        self._load_seen()
        walk = SegmentWalk(self._journal)
        for segment in walk:
            self._refresh_segment(segment, walk, settle=settle)
        if self._gone_with_rows(walk.found):
            raise _SegmentChangedError
        self._note_gone(walk.found)
        self._fold.flush()
        self._save_seen()

    def _read_everything(self, *, settle: bool) -> None:
        """Folds everything again, and remembers which keys had records in segments that no longer have them."""
        self._fold.remember_places()
        self._fold.clear()
        self._db.execute("DELETE FROM frames")
        self._db.execute("DELETE FROM copies")
        self._db.execute(
            "UPDATE segments SET length = 0, read_to = 0, newer_format = 0, last_offset = NULL, last_origin = NULL"
        )
        self._hashed.clear()
        walk = SegmentWalk(self._journal)
        self._load_seen()
        for segment in walk:
            self._refresh_segment(segment, walk, settle=settle)
        self._note_gone(walk.found)
        self._fold.flush()
        self._save_seen()
        self._note_missed(self._fold.missed_places())

    def _load_seen(self) -> None:
        self._seen = SeenFrames(self._db.execute("SELECT session, writer, first, last FROM frames"))

    def _save_seen(self) -> None:
        self._fold.forget_prepared(self._seen)
        ranges = self._seen.ranges()
        if ranges != set(self._db.execute("SELECT session, writer, first, last FROM frames")):
            self._db.execute("DELETE FROM frames")
            self._db.executemany("INSERT INTO frames VALUES (?,?,?,?)", sorted(ranges))

    def _gone_with_rows(self, found: set[SegmentId]) -> bool:
        query = "SELECT session, writer, number FROM segments WHERE NOT gone AND frames"
        return any(SegmentId(*ident) not in found for ident in self._db.execute(query))

    def _note_gone(self, found: set[SegmentId]) -> None:
        for number, *ident in self._db.execute("SELECT id, session, writer, number FROM segments").fetchall():
            gone = SegmentId(*ident) not in found
            # A statement that changes nothing leaves the file, and the disk, alone.
            self._db.execute("UPDATE segments SET gone = ? WHERE id = ? AND gone != ?", (gone, number, gone))

    def _note_missed(self, places: Iterator[RecordPlace]) -> None:
        """Remembers the keys of records that were here once."""
        by_segment: dict[int, set[str]] = {}
        for place in places:
            by_segment.setdefault(place.segment, set()).add(place.key)
        for number, keys in by_segment.items():
            (before,) = self._db.execute("SELECT missed FROM segments WHERE id = ?", (number,)).fetchone()
            missed = msgspec.json.encode(sorted({*msgspec.json.decode(before), *keys}))
            self._db.execute("UPDATE segments SET missed = ? WHERE id = ?", (missed, number))

    def _refresh_segment(self, segment: SegmentFile, walk: SegmentWalk, *, settle: bool) -> None:
        known = self._indexed_segment(segment.ident)
        size, unchanged = self._compare_indexed_bytes(segment, known)
        if unchanged and size == known.length and (known.named_sealed == segment.named_sealed or known.sealed):
            self._note_name(segment, known)
            return
        # A footer speaks of the whole segment, so what is beside one, or beside damage, is only understood from
        # the beginning.
        if known.length and (not unchanged or known.sealed or known.lost):
            raise _SegmentChangedError
        with self._journal.scan(segment, start=known.read_to, next_seq=known.next_seq, settle=settle) as scan:
            self._read_frames(known.number, scan)
            # Of the very file that was read: another may have taken its name by now.
            before, hash_ = hash_parts(scan.file, min(known.length, scan.size) if known.read_to else 0, scan.size)
        if known.read_to and scan.size >= known.length and before != known.hash:
            raise _SegmentChangedError
        walk.follow(segment, scan)
        self._save(known, segment, scan, hash_)
        if hash_:
            self._hashed[segment.ident] = scan.size

    def _note_name(self, segment: SegmentFile, known: _IndexedSegment) -> None:
        """A sealed segment has been given the name of one since it was read."""
        if known.named_sealed != segment.named_sealed:
            values = (segment.where, segment.named_sealed, known.number)
            self._db.execute("UPDATE segments SET where_ = ?, named_sealed = ? WHERE id = ?", values)

    def _compare_indexed_bytes(self, segment: SegmentFile, known: _IndexedSegment) -> tuple[int, bool]:
        """The size of a segment's file, and whether the bytes that were indexed are as they were."""
        was_hashed = known.length > 0 and self._hashed.get(segment.ident) == known.length
        size, hash_ = self._journal.hash_prefix(segment, 0 if was_hashed else known.length)
        unchanged = known.length > 0 and (size >= known.length if was_hashed else hash_ != b"" and hash_ == known.hash)
        if unchanged:
            self._hashed[segment.ident] = known.length
        return size, unchanged

    def _indexed_segment(self, ident: SegmentId) -> _IndexedSegment:
        if known := self._find_indexed(ident):
            return known
        cursor = self._db.execute("INSERT INTO segments (session, writer, number) VALUES (?, ?, ?)", ident)
        return _IndexedSegment(cursor.lastrowid or 0, 0, b"", 0, False, False, False, 0)

    def _find_indexed(self, ident: SegmentId) -> _IndexedSegment | None:
        query = (
            "SELECT id, length, hash, read_to, named_sealed, sealed, lost, last_seq + 1 FROM segments"
            " WHERE (session, writer, number) = (?, ?, ?)"
        )
        if not (row := self._db.execute(query, ident).fetchone()):
            return None
        number, length, hash_, read_to, named_sealed, sealed, lost, next_seq = row
        flags = bool(named_sealed), bool(sealed), bool(lost)
        return _IndexedSegment(number, length, hash_, read_to, *flags, next_seq if read_to else 0)

    def _read_frames(self, number: int, scan: SegmentScan) -> None:
        for frame in scan.frames():
            if frame.header.kind == COPY:
                self._note_copy(number, frame)
            if not self._seen.add(frame.origin):
                continue
            records = self._fold.prepared(frame.origin)
            if records is None:
                records = self._fold.decode(scan.lines(frame))
            self._fold.add(frame.origin, number, frame.offset, records)

    def _note_copy(self, number: int, frame: Frame) -> None:
        values = (*frame.origin, frame.header.session, number)
        self._db.execute("INSERT OR REPLACE INTO copies VALUES (?,?,?,?,?)", values)

    def _save(self, known: _IndexedSegment, segment: SegmentFile, scan: SegmentScan, hash_: bytes) -> None:
        """Notes what was read."""
        state = scanned_state(segment, scan)
        damage = list(scan.damage)
        if known.read_to:
            before, old_damage = self._saved_state(known.number)
            # What lay behind the bytes that were indexed has just been read again.
            damage = [item for item in old_damage if item.offset < known.read_to] + damage
            state = before.followed_by(state)
            if scan.footer is not None and (state.frames, state.first_seq) != (
                scan.footer.frames,
                scan.footer.first_seq,
            ):
                raise _SegmentChangedError
        last = (scan.last_frame.offset, ",".join(map(str, scan.last_frame.origin))) if scan.last_frame else (None, None)
        encoded = _damage_encoder.encode(damage)
        self._db.execute(
            "UPDATE segments SET where_=?, named_sealed=?, sealed=?, successor=?, frames=?, records=?,"
            " first_seq=?, last_seq=?, last_digest=?, lost=?, length=?, hash=?, read_to=?,"
            " last_offset=coalesce(?, last_offset), last_origin=coalesce(?, last_origin),"
            " newer_format=max(coalesce(newer_format, 0), ?), damage=?"
            " WHERE id=?",
            (*state[1:], scan.size, hash_, scan.end, *last, scan.newer_format, encoded, known.number),
        )

    def _saved_state(self, number: int) -> tuple[SegmentState, list[Damage]]:
        row = self._db.execute(f"SELECT {STATE_COLUMNS}, damage FROM segments WHERE id = ?", (number,)).fetchone()  # noqa: S608
        return state_from_row(row), damage_decoder.decode(row[13])
