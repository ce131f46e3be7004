"""The index: which records a run holds and where, so that nobody has to read them all to find one.

It is a fold over the journal kept in SQLite, and nothing but a cache: it may be deleted, cut or come from another run
at any time, and is then built again with the same answers. Its rows count only while the bytes they were read from
are unchanged: every `refresh` hashes all indexed bytes again (without decompressing them), reads what is new, and
throws away and reads again whatever does not match.

The index knows nothing of what records mean. `classify` tells it, for one encoded record, the kind, the key it
belongs to, and a flag and a few bytes of the caller's own to keep beside the place.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.journal.damage import Damage
from holdfast.journal.frame import COPY, Frame
from holdfast.journal.index.database import Closing
from holdfast.journal.index.queries import STATE, Answers, damage_decoder, state_from
from holdfast.journal.reader import Journal, SegmentFile, Walk, hash_parts
from holdfast.journal.segment import SegmentId
from holdfast.journal.segment_scan import SegmentScan
from holdfast.journal.segment_state import SegmentState, state_of
from holdfast.storage import crashpoints

_BATCH_ROWS = 20_000
_OPEN = "SELECT DISTINCT key FROM records WHERE key != '' EXCEPT SELECT key FROM records WHERE kind = ? AND flag = ?"
_damage_encoder = msgspec.json.Encoder()


class _Known(NamedTuple):
    """What the index already holds of a segment."""

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


class Doubtful(NamedTuple):
    """The last whole frame of an unsealed segment: written, perhaps never synced, and not yet written again."""

    segment: SegmentFile
    frame: Frame
    keys: list[str]


Classify = Callable[[bytes], IndexEntry | None]
_Place = tuple[str, int, int, int, int]
_Values = tuple[object, ...]


class Index(Answers):
    """The index of one run. Not for use from two threads at once."""

    def __init__(self, journal: Journal, classify: Classify, path: Path | None, closing: Closing) -> None:
        """Opens the index at `path`, or begins a new one there; None keeps it in a temporary file of this process."""
        super().__init__(path, journal.run, closing)
        self._journal, self._classify, self._closing = journal, classify, closing
        self._is_open_known = True
        self._hashed: dict[SegmentId, int] = {}
        """How many bytes of each segment this object has found as they were indexed."""

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
            self._begin_anew(error)
            try:
                self._refresh(settle=settle)
            except sqlite3.DatabaseError as once_more:
                # The disk is full, say: a new index fits there no better than the old.
                self._path = None
                self._begin_anew(once_more)
                self._refresh(settle=settle)
        self._vouch()

    def _refresh(self, *, settle: bool) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        # Commits, or takes back all of it.
        with self._db:
            walk = Walk(self._journal)
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

    def _refresh_segment(self, segment: SegmentFile, walk: Walk, *, settle: bool) -> None:
        known = self._known(segment.ident)
        number, start, next_seq = known.number, known.read_to, known.next_seq
        size, unchanged = self._compare(segment, known)
        if unchanged and size == known.length and known.named_sealed == segment.named_sealed:
            return
        dropped: set[_Place] = set()
        # A footer speaks of the whole segment, so what stands beside one, or beside damage, is only understood from
        # the beginning.
        if known.length and (not unchanged or known.sealed or known.lost):
            dropped = self._drop_rows(number)
            start = next_seq = 0
        if not self._take(segment, walk, known, start=start, next_seq=next_seq, settle=settle):
            dropped = self._drop_rows(number)
            self._take(segment, walk, known, start=0, next_seq=0, settle=settle)
        if dropped:
            self._note_missed(number, dropped - self._places(number))

    def _take(
        self, segment: SegmentFile, walk: Walk, known: _Known, *, start: int, next_seq: int, settle: bool
    ) -> bool:
        """Reads a segment from `start`; False if that does not go with what is known of the bytes before it."""
        with self._journal.scan(segment, start=start, next_seq=next_seq, settle=settle) as scan:
            self._read(known.number, scan)
            # Of the very file that was read: another may have taken its name by now.
            before, hash_ = hash_parts(scan.file, min(known.length, scan.size) if start else 0, scan.size)
        if start and scan.size >= known.length and before != known.hash:
            return False
        walk.follow(segment, scan)
        return self._save(known.number, segment, scan, hash_, start=start)

    def _compare(self, segment: SegmentFile, known: _Known) -> tuple[int, bool]:
        """The size of a segment's file, and whether the bytes that were indexed are as they were."""
        was_hashed = known.length > 0 and self._hashed.get(segment.ident) == known.length
        size, hash_ = self._journal.hash_prefix(segment, 0 if was_hashed else known.length)
        unchanged = known.length > 0 and (size >= known.length if was_hashed else hash_ != b"" and hash_ == known.hash)
        if unchanged:
            self._hashed[segment.ident] = known.length
        return size, unchanged

    def _known(self, ident: SegmentId) -> _Known:
        query = (
            "SELECT id, length, hash, read_to, named_sealed, sealed, lost, last_seq + 1 FROM segments"
            " WHERE (session, writer, number) = (?, ?, ?)"
        )
        if row := self._db.execute(query, ident).fetchone():
            number, length, hash_, read_to, named_sealed, sealed, lost, next_seq = row
            flags = bool(named_sealed), bool(sealed), bool(lost)
            return _Known(number, length, hash_, read_to, *flags, next_seq if read_to else 0)
        cursor = self._db.execute("INSERT INTO segments (session, writer, number) VALUES (?, ?, ?)", ident)
        return _Known(cursor.lastrowid or 0, 0, b"", 0, False, False, False, 0)

    def _read(self, number: int, scan: SegmentScan) -> None:
        rows: list[_Values] = []
        for frame in scan.frames():
            rows += self._rows(number, frame, scan.lines(frame))
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

    def _rows(self, number: int, frame: Frame, lines: list[bytes]) -> Iterator[_Values]:
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
        state = state_of(segment, scan)
        damage = list(scan.damage)
        if start:
            before, old_damage = self._state(number)
            # What lay behind the bytes that were indexed has just been read again.
            damage = [item for item in old_damage if item.offset < start] + damage
            state = before.joined(state)
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

    def _state(self, number: int) -> tuple[SegmentState, list[Damage]]:
        row = self._db.execute(f"SELECT {STATE}, damage FROM segments WHERE id = ?", (number,)).fetchone()  # noqa: S608
        return state_from(row), damage_decoder.decode(row[13])

    def doubtful(self) -> list[Doubtful]:
        """The frames that an executing session must write again before it may count them."""
        files = {segment.ident: segment for segment in self._journal.segments()}
        query = (
            "SELECT session, writer, number, last_offset, last_origin FROM segments"
            " WHERE NOT gone AND NOT sealed AND last_offset IS NOT NULL ORDER BY session, writer, number"
        )
        found: list[Doubtful] = []
        for *ident, offset, origin in list(self._ask(query)):
            key = tuple(int(part) for part in origin.split(","))
            if self._is_copied(key, ident[0]):
                continue
            segment = files[SegmentId(*ident)]
            if frame := self._journal.read_frame(segment, offset):
                found.append(Doubtful(segment, frame, self._frame_keys(frame)))
        return found

    def _is_copied(self, origin: tuple[int, ...], session: int) -> bool:
        query = "SELECT 1 FROM copies WHERE (session, writer, seq) = (?, ?, ?) AND by_session > ?"
        return next(self._ask(query, (*origin, session)), None) is not None

    def _frame_keys(self, frame: Frame) -> list[str]:
        entries = (self._classify(line) for line in self._journal.records(frame))
        return [entry.key for entry in entries if entry and entry.key]


def _closes(row: _Values, closing: Closing) -> bool:
    return row[0] == closing.kind and row[8] == closing.flag
