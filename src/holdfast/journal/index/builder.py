"""Building an index from the journal, and keeping it true.

Its rows count only while the bytes they were read from are unchanged: every `refresh` hashes all indexed bytes again
(without decompressing them), reads what is new, and throws away and reads again whatever does not match.

The index knows nothing of what records mean. `classify` tells it, for one encoded record, the kind, the key it
belongs to, and a flag and a few bytes of the caller's own to keep beside the place.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import NamedTuple

import msgspec

from holdfast.journal.damage import Damage
from holdfast.journal.frame import COPY, Frame
from holdfast.journal.index.database import STATE_COLUMNS, ClosingRule, IndexDatabase, state_from_row
from holdfast.journal.reader import Journal, SegmentFile, SegmentWalk, hash_parts
from holdfast.journal.segment import SegmentId
from holdfast.journal.segment_scan import SegmentScan
from holdfast.journal.segment_state import SegmentState, scanned_state
from holdfast.storage import crashpoints

_BATCH_ROWS = 20_000
_OPEN = "SELECT DISTINCT key FROM records WHERE key != '' EXCEPT SELECT key FROM records WHERE kind = ? AND flag = ?"
_damage_encoder = msgspec.json.Encoder()
damage_decoder = msgspec.json.Decoder(list[Damage])


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


class IndexEntry(NamedTuple):
    """What is kept of one record."""

    kind: str
    key: str
    flag: int
    data: bytes | None


Classify = Callable[[bytes], IndexEntry | None]
_Place = tuple[str, int, int, int, int]
_Values = tuple[object, ...]


class IndexBuilder:
    """Writes the rows of one index."""

    def __init__(self, database: IndexDatabase, journal: Journal, classify: Classify, closing: ClosingRule) -> None:
        self._database, self._journal, self._classify, self._closing = database, journal, classify, closing
        self._is_open_known = True
        self._hashed: dict[SegmentId, int] = {}
        """How many bytes of each segment this object has found as they were indexed."""

    @property
    def _db(self) -> sqlite3.Connection:
        # Not kept: the database has another connection after it was begun anew.
        return self._database.connection

    def refresh(self, *, settle: bool = True, again: bool = True) -> None:
        """Brings the rows up to the journal as it is now; reads only what is new, and anew what has changed.

        Without `again`, bytes that this object has found unchanged before are not looked at another time.
        """
        if again:
            self._hashed.clear()
        try:
            self._refresh(settle=settle)
        except sqlite3.DatabaseError as error:
            # Whatever is wrong with a cache, the journal has the answer.
            self._database.begin_anew(error)
            try:
                self._refresh(settle=settle)
            except sqlite3.DatabaseError as once_more:
                # The disk is full, say: a new index fits there no better than the old.
                self._database.begin_anew(once_more, in_temporary_file=True)
                self._refresh(settle=settle)
        self._database.vouch()

    def _refresh(self, *, settle: bool) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        # Commits, or takes back all of it.
        with self._db:
            walk = SegmentWalk(self._journal)
            for segment in walk:
                self._refresh_segment(segment, walk, settle=settle)
            self._note_gone(walk.found)
            self._know_open()
            crashpoints.reach("index.rows-written")
        crashpoints.reach("index.committed")

    def _know_open(self) -> None:
        """Finds the open keys from the beginning, where records have gone."""
        if not self._is_open_known:
            self._db.execute("DELETE FROM open")
            self._db.execute(f"INSERT INTO open {_OPEN}", self._closing)
            self._is_open_known = True

    def _note_gone(self, found: set[SegmentId]) -> None:
        query = "SELECT id, gone, session, writer, number FROM segments"
        for number, was_gone, *ident in self._db.execute(query).fetchall():
            gone = SegmentId(*ident) not in found
            if gone and not was_gone:
                self._note_missed(number, self._drop_rows(number))
            # A statement that changes nothing leaves the file, and the disk, alone.
            self._db.execute("UPDATE segments SET gone = ? WHERE id = ? AND gone != ?", (gone, number, gone))

    def _drop_rows(self, number: int) -> set[_Place]:
        """Forgets what was read from a segment; what that was."""
        dropped = self._places(number)
        self._is_open_known = False
        self._db.execute("DELETE FROM records WHERE segment = ?", (number,))
        self._db.execute("DELETE FROM copies WHERE segment = ?", (number,))
        self._db.execute(
            "UPDATE segments SET length = 0, read_to = 0, newer_format = 0, last_offset = NULL, last_origin = NULL"
            " WHERE id = ?",
            (number,),
        )
        return dropped

    def _places(self, number: int) -> set[_Place]:
        query = "SELECT key, session, writer, seq, idx FROM records WHERE segment = ? AND key != ''"
        return set(self._db.execute(query, (number,)))

    def _note_missed(self, number: int, places: set[_Place]) -> None:
        """Remembers the keys of records that were here once."""
        if not places:
            return
        (before,) = self._db.execute("SELECT missed FROM segments WHERE id = ?", (number,)).fetchone()
        keys = {*msgspec.json.decode(before), *(place[0] for place in places)}
        self._db.execute("UPDATE segments SET missed = ? WHERE id = ?", (msgspec.json.encode(sorted(keys)), number))

    def _refresh_segment(self, segment: SegmentFile, walk: SegmentWalk, *, settle: bool) -> None:
        known = self._indexed_segment(segment.ident)
        number, start, next_seq = known.number, known.read_to, known.next_seq
        size, unchanged = self._compare_indexed_bytes(segment, known)
        if unchanged and size == known.length and known.named_sealed == segment.named_sealed:
            return
        dropped: set[_Place] = set()
        # A footer speaks of the whole segment, so what stands beside one, or beside damage, is only understood from
        # the beginning.
        if known.length and (not unchanged or known.sealed or known.lost):
            dropped = self._drop_rows(number)
            start = next_seq = 0
        if not self._index_segment(segment, walk, known, start=start, next_seq=next_seq, settle=settle):
            dropped = self._drop_rows(number)
            self._index_segment(segment, walk, known, start=0, next_seq=0, settle=settle)
        if dropped:
            self._note_missed(number, dropped - self._places(number))

    def _index_segment(
        self,
        segment: SegmentFile,
        walk: SegmentWalk,
        known: _IndexedSegment,
        *,
        start: int,
        next_seq: int,
        settle: bool,
    ) -> bool:
        """Reads a segment from `start`; False if that does not go with what is known of the bytes before it."""
        with self._journal.scan(segment, start=start, next_seq=next_seq, settle=settle) as scan:
            self._read_frames(known.number, scan)
            # Of the very file that was read: another may have taken its name by now.
            before, hash_ = hash_parts(scan.file, min(known.length, scan.size) if start else 0, scan.size)
        if start and scan.size >= known.length and before != known.hash:
            return False
        walk.follow(segment, scan)
        return self._save(known.number, segment, scan, hash_, start=start)

    def _compare_indexed_bytes(self, segment: SegmentFile, known: _IndexedSegment) -> tuple[int, bool]:
        """The size of a segment's file, and whether the bytes that were indexed are as they were."""
        was_hashed = known.length > 0 and self._hashed.get(segment.ident) == known.length
        size, hash_ = self._journal.hash_prefix(segment, 0 if was_hashed else known.length)
        unchanged = known.length > 0 and (size >= known.length if was_hashed else hash_ != b"" and hash_ == known.hash)
        if unchanged:
            self._hashed[segment.ident] = known.length
        return size, unchanged

    def _indexed_segment(self, ident: SegmentId) -> _IndexedSegment:
        query = (
            "SELECT id, length, hash, read_to, named_sealed, sealed, lost, last_seq + 1 FROM segments"
            " WHERE (session, writer, number) = (?, ?, ?)"
        )
        if row := self._db.execute(query, ident).fetchone():
            number, length, hash_, read_to, named_sealed, sealed, lost, next_seq = row
            flags = bool(named_sealed), bool(sealed), bool(lost)
            return _IndexedSegment(number, length, hash_, read_to, *flags, next_seq if read_to else 0)
        cursor = self._db.execute("INSERT INTO segments (session, writer, number) VALUES (?, ?, ?)", ident)
        return _IndexedSegment(cursor.lastrowid or 0, 0, b"", 0, False, False, False, 0)

    def _read_frames(self, number: int, scan: SegmentScan) -> None:
        rows: list[_Values] = []
        for frame in scan.frames():
            rows += self._record_rows(number, frame, scan.lines(frame))
            if frame.header.kind == COPY:
                self._db.execute(
                    "INSERT OR REPLACE INTO copies VALUES (?,?,?,?,?)",
                    (*frame.origin, frame.header.session, number),
                )
            if len(rows) >= _BATCH_ROWS:
                self._insert(rows)
                rows = []
        self._insert(rows)

    def _insert(self, rows: list[_Values]) -> None:
        # In the table's own order each of its pages is touched once a batch, not once a row.
        rows.sort(key=itemgetter(0, 1))
        self._db.executemany("INSERT OR REPLACE INTO records VALUES (?,?,?,?,?,?,?,?,?,?)", rows)
        if self._is_open_known:
            self._note_open({row[1] for row in rows if row[1]}, {row[1] for row in rows if _closes(row, self._closing)})

    def _note_open(self, keys: set[object], closed: set[object]) -> None:
        self._db.executemany("DELETE FROM open WHERE key = ?", [(key,) for key in closed])
        self._db.executemany(
            "INSERT OR IGNORE INTO open SELECT ?1 WHERE NOT EXISTS"
            " (SELECT 1 FROM records WHERE kind = ?2 AND key = ?1 AND flag = ?3)",
            [(key, *self._closing) for key in keys - closed],
        )

    def _record_rows(self, number: int, frame: Frame, lines: list[bytes]) -> Iterator[_Values]:
        session, writer, seq = frame.origin
        classify, offset = self._classify, frame.offset
        for place, line in enumerate(lines):
            if entry := classify(line):
                yield (
                    entry.kind,
                    entry.key,
                    session,
                    writer,
                    seq,
                    place,
                    number,
                    offset,
                    entry.flag,
                    entry.data,
                )

    def _save(self, number: int, segment: SegmentFile, scan: SegmentScan, hash_: bytes, *, start: int) -> bool:
        """Notes what was read; False, and nothing is noted, if a footer counts other frames than were found."""
        state = scanned_state(segment, scan)
        damage = list(scan.damage)
        if start:
            before, old_damage = self._saved_state(number)
            # What lay behind the bytes that were indexed has just been read again.
            damage = [item for item in old_damage if item.offset < start] + damage
            state = before.followed_by(state)
            if scan.footer is not None and (state.frames, state.first_seq) != (
                scan.footer.frames,
                scan.footer.first_seq,
            ):
                return False
        last = (scan.last_frame.offset, ",".join(map(str, scan.last_frame.origin))) if scan.last_frame else (None, None)
        self._db.execute(
            "UPDATE segments SET where_=?, named_sealed=?, sealed=?, successor=?, frames=?, records=?,"
            " first_seq=?, last_seq=?, last_digest=?, lost=?, length=?, hash=?, read_to=?,"
            " last_offset=coalesce(?, last_offset), last_origin=coalesce(?, last_origin),"
            " newer_format=max(coalesce(newer_format, 0), ?), damage=?"
            " WHERE id=?",
            (*state[1:], scan.size, hash_, scan.end, *last, scan.newer_format, _damage_encoder.encode(damage), number),
        )
        return True

    def _saved_state(self, number: int) -> tuple[SegmentState, list[Damage]]:
        row = self._db.execute(f"SELECT {STATE_COLUMNS}, damage FROM segments WHERE id = ?", (number,)).fetchone()  # noqa: S608
        return state_from_row(row), damage_decoder.decode(row[13])


def _closes(row: _Values, closing: ClosingRule) -> bool:
    return row[0] == closing.kind and row[8] == closing.flag
