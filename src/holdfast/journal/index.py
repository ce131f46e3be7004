"""The index: which records a run holds and where, so that nobody has to read them all to find one.

It is a fold over the journal kept in SQLite, and nothing but a cache: it may be deleted, cut or come from another run
at any time, and is then built again with the same answers. Its rows count only while the bytes they were read from
are unchanged: every `refresh` hashes all indexed bytes again (without decompressing them), reads what is new, and
throws away and reads again whatever does not match. The file itself is believed only while it is, byte for byte, as
an index left it: beside it lies its hash, written after every change.

The index knows nothing of what records mean. `classify` tells it, for one encoded record, the kind, the key it
belongs to, and a flag and a few bytes of the caller's own to keep beside the place.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from hashlib import file_digest, sha256
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holdfast.errors import StorageFailure
from holdfast.journal.damage import Damage
from holdfast.journal.directory import Journal, SegmentFile, SegmentState, Walk, cross_check, state_of
from holdfast.journal.frame import COPY, RecordId
from holdfast.journal.scan import Frame, SegmentScan
from holdfast.journal.segment import SegmentId
from holdfast.journal.writer import SegmentPin
from holdfast.storage import crashpoints
from holdfast.storage.failures import Failures
from holdfast.storage.filesystem import ReadFile

INDEX = "index.sqlite"
"""Under this name the ledger of a session counts what could not be written here."""
_SCHEMA_VERSION = 3
_CHUNK = 1 << 20
_BATCH_ROWS = 20_000
_PAGE_KEYS = 10_000
_SCHEMA = """ CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID; CREATE TABLE segments (
  id INTEGER PRIMARY KEY, session INTEGER, writer INTEGER, number INTEGER, where_ TEXT,
  named_sealed INTEGER, sealed INTEGER, successor INTEGER, frames INTEGER, records INTEGER,
  first_seq INTEGER, last_seq INTEGER, last_digest BLOB, lost INTEGER,
  length INTEGER DEFAULT 0, hash BLOB, read_to INTEGER DEFAULT 0, last_offset INTEGER, last_origin TEXT,
  newer_format INTEGER, damage BLOB, missed BLOB DEFAULT '[]', gone INTEGER DEFAULT 0,
  UNIQUE (session, writer, number));
CREATE TABLE records (
  kind TEXT, key TEXT, session INTEGER, writer INTEGER, seq INTEGER, idx INTEGER,
  segment INTEGER, offset INTEGER, flag INTEGER, data BLOB,
  PRIMARY KEY (kind, key, session, writer, seq, idx, segment)) WITHOUT ROWID;
CREATE TABLE copies (session INTEGER, writer INTEGER, seq INTEGER, by_session INTEGER, segment INTEGER,
  PRIMARY KEY (session, writer, seq, segment)) WITHOUT ROWID;
CREATE TABLE open (key TEXT PRIMARY KEY) WITHOUT ROWID;
"""
_OPEN = "SELECT DISTINCT key FROM records WHERE key != '' EXCEPT SELECT key FROM records WHERE kind = ? AND flag = ?"
_STATE = (
    "session, writer, number, where_, named_sealed, sealed, successor,"
    " frames, records, first_seq, last_seq, last_digest, lost"
)
_damage_encoder, _damage_decoder = msgspec.json.Encoder(), msgspec.json.Decoder(list[Damage])


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


class Closing(NamedTuple):
    """The kind and flag of the records that close their key: whatever has one is no longer open."""

    kind: str
    flag: int


class Entry(NamedTuple):
    """What is kept of one record."""

    kind: str
    key: str
    flag: int
    data: bytes | None


class Row(NamedTuple):
    """One record in the index: its identity, and where to read it."""

    kind: str
    key: str
    ident: RecordId
    segment: SegmentId
    offset: int
    flag: int
    data: bytes | None


class Doubtful(NamedTuple):
    """The last whole frame of an unsealed segment: written, perhaps never synced, and not yet written again."""

    segment: SegmentFile
    frame: Frame
    keys: list[str]


Classify = Callable[[bytes], Entry | None]
_Place = tuple[str, int, int, int, int]
_Values = tuple[object, ...]


class Index:
    """The index of one run. Not for use from two threads at once."""

    def __init__(self, journal: Journal, classify: Classify, path: Path | None, closing: Closing) -> None:
        """Opens the index at `path`, or begins a new one there; None keeps it in a temporary file of this process."""
        self._journal, self._classify, self._path, self._closing = journal, classify, path, closing
        self._is_closed, self._is_open_known = False, True
        self._hashed: dict[SegmentId, int] = {}
        """How many bytes of each segment this object has found as they were indexed."""
        self.note = ""
        """Why the index was built anew, if it was."""
        self.failures = Failures()
        self._changes = 0
        self._db = self._open()

    def close(self) -> None:
        """Closes the index; doing so again does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._db.close()

    # Opening.

    def _open(self) -> sqlite3.Connection:
        existed = self._path is not None and self._path.exists()
        try:
            db = self._connect()
            if not self._is_ours(db):
                self.note = "it belonged to another run or version" if existed else ""
            elif not self._is_as_left(db):
                # Found now: no check of a database finds a changed key or flag, and every answer rests on those.
                self.note = "it was damaged, or its writer was killed"
            else:
                return db
            db.close()
        except sqlite3.DatabaseError as error:
            self.note = f"it could not be read ({error})"
            self._leave_to_others(error)
        return self._begin()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path or "", isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA cache_size = -16000")
        db.execute("PRAGMA cell_size_check = ON")
        return db

    def _is_ours(self, db: sqlite3.Connection) -> bool:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone():
            return False
        about = dict(db.execute("SELECT name, value FROM about"))
        return about == self._about()

    def _is_as_left(self, db: sqlite3.Connection) -> bool:
        # Nobody writes to the file as long as somebody reads from it.
        db.execute("BEGIN")
        db.execute("SELECT 1 FROM sqlite_master").fetchone()
        try:
            return self._path is not None and has_its_sum(self._path)
        finally:
            db.execute("ROLLBACK")

    def _about(self) -> dict[str, str]:
        closing = f"{self._closing.kind} {self._closing.flag}"
        return {"run": self._journal.run.hex(), "schema": str(_SCHEMA_VERSION), "closing": closing}

    def _begin(self) -> sqlite3.Connection:
        """An empty index; in a temporary file where its own place cannot be written."""
        try:
            return self._create()
        except (sqlite3.Error, OSError) as error:
            self.note = f"it cannot be written ({error})"
            self.failures.note(INDEX, str(error))
            self._path = None
            return self._create()

    def _create(self) -> sqlite3.Connection:
        if self._path is not None:
            for name in (self._path, _journal_path(self._path), _sum_path(self._path)):
                name.unlink(missing_ok=True)
        db = self._connect()
        db.executescript("BEGIN;" + _SCHEMA)
        db.executemany("INSERT INTO about VALUES (?, ?)", self._about().items())
        db.execute("COMMIT")
        return db

    # Keeping up with the journal.

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

    def _vouch(self) -> None:
        """Writes the hash of the file beside it, where something was changed: without it nobody believes the file."""
        if self._path is None or self._db.total_changes == self._changes:
            return
        self._changes = self._db.total_changes
        try:
            _sum_path(self._path).write_bytes(_hash_file(self._path))
        except OSError as error:
            self.failures.note(INDEX, error)

    def _begin_anew(self, error: sqlite3.DatabaseError) -> None:
        self._db.close()
        self._leave_to_others(error)
        self.note = f"it could not be used ({error})"
        if isinstance(error, sqlite3.OperationalError):
            # Not what was in the file is wrong, but the disk it is on.
            self.failures.note(INDEX, str(error))
        self._db, self._changes = self._begin(), 0

    def _leave_to_others(self, error: sqlite3.DatabaseError) -> None:
        """Another reader may be at work on the file, or have put its own in its place; it must not lose that."""
        if _is_busy(error) or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_DBMOVED:
            self._path = None

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
        size, hash_ = hash_prefix(self._journal, segment, 0 if was_hashed else known.length)
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
            state = _joined(before, state)
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
        row = self._db.execute(f"SELECT {_STATE}, damage FROM segments WHERE id = ?", (number,)).fetchone()  # noqa: S608
        return _state_from(row), _damage_decoder.decode(row[13])

    # Asking.

    def _ask(self, query: str, values: Iterable[object] = ()) -> Iterator[tuple[Any, ...]]:
        """What the tables say.

        Raises:
            StorageFailure: the file was spoilt since it was opened; whoever opens it next builds it anew.
        """
        try:
            yield from self._db.execute(query, tuple(values))
        except sqlite3.DatabaseError as error:
            raise StorageFailure(
                f"The index {self._path or 'in a temporary file'} broke while it was in use: {error}.",
                hint="The journal is intact; do it again, and the index is built anew.",
            ) from error

    def states(self) -> list[SegmentState]:
        """Every segment that is there, in order."""
        query = f"SELECT {_STATE} FROM segments WHERE NOT gone ORDER BY session, writer, number"  # noqa: S608
        return [_state_from(row) for row in self._ask(query)]

    def gone(self) -> list[SegmentPin]:
        """Segments that were indexed once and are there no more.

        Not the empty ones: the name of a segment that nothing was written to yet may vanish with the power.
        """
        query = (
            "SELECT session, writer, number, frames, lower(hex(last_digest)), sealed FROM segments"
            " WHERE gone AND (frames OR lost)"
        )
        return [SegmentPin._make((*row[:5], bool(row[5]))) for row in self._ask(query)]

    def damage(self, pins: Iterable[SegmentPin], lost: Iterable[SegmentId] = ()) -> list[Damage]:
        """Everything that is wrong with the journal, given the pins and the losses that its records hold."""
        found: list[Damage] = []
        for (blob,) in self._ask("SELECT damage FROM segments WHERE NOT gone ORDER BY session, writer, number"):
            found += _damage_decoder.decode(blob)
        return self.name_missed(found + cross_check(self.states(), [*pins, *self.gone()], lost))

    def name_missed(self, damage: Iterable[Damage]) -> list[Damage]:
        """The same findings; one that names no key names those whose records were there at an earlier look."""
        query = "SELECT session, writer, number, missed FROM segments WHERE missed != '[]'"
        missed: dict[str, tuple[str, ...]] = {}
        for *ident, keys in self._ask(query):
            for sealed in (True, False):
                missed[f"journal/{SegmentId(*ident).filename(sealed=sealed)}"] = tuple(msgspec.json.decode(keys))
        return [
            msgspec.structs.replace(item, keys=missed[item.where])
            if item.is_loss and not item.keys and item.where in missed
            else item
            for item in damage
        ]

    def newer_format(self) -> int:
        """The newest format met that this version cannot read; 0 if it can read all."""
        return int(next(self._ask("SELECT coalesce(max(newer_format), 0) FROM segments"))[0])

    def rows(self, kind: str, key: str | None = None) -> Iterator[Row]:
        """The records of a kind (and key) in the order of the run; each record once, wherever it was written again."""
        where, values = ("kind = ?", [kind]) if key is None else ("kind = ? AND key = ?", [kind, key])
        order = "r.session, r.writer, r.seq, r.idx" if key is not None else "r.key, r.session, r.writer, r.seq, r.idx"
        query = (
            "SELECT r.kind, r.key, r.session, r.writer, r.seq, r.idx,"  # noqa: S608 - no value is put into the text
            " s.session, s.writer, s.number, r.offset, r.flag, r.data"
            f" FROM records r JOIN segments s ON s.id = r.segment WHERE {where} ORDER BY {order}"
        )
        last: RecordId | None = None
        for row in self._ask(query, values):
            ident = RecordId(*row[2:6])
            if ident != last:
                yield Row(row[0], row[1], ident, SegmentId(*row[6:9]), *row[9:])
            last = ident

    def keys(self, kind: str, flag: int) -> Iterator[str]:
        """The keys that have a record of this kind with this flag, sorted; each once."""
        last, beyond = "", ">="
        while page := self._page_of_keys(kind, flag, last, beyond):
            yield from page
            last, beyond = page[-1], ">"

    def _page_of_keys(self, kind: str, flag: int, last: str, beyond: str) -> list[str]:
        keys = f"SELECT DISTINCT key FROM records WHERE kind = ? AND flag = ? AND key {beyond} ? ORDER BY key LIMIT ?"  # noqa: S608
        values = (kind, flag, last, _PAGE_KEYS)
        # One long text is handed over far sooner than many short ones.
        joined = f"SELECT count(*), group_concat(key, char(10)) FROM ({keys})"  # noqa: S608
        count, text = next(self._ask(joined, values))
        page: list[str] = text.split("\n") if count else []
        # A key may be anything, also a text of several lines.
        return page if len(page) == count else [key for (key,) in self._ask(keys, values)]

    def count_keys(self, kind: str, flag: int) -> int:
        """How many keys have a record of this kind with this flag."""
        query = "SELECT count(DISTINCT key) FROM records WHERE kind = ? AND flag = ?"
        return int(next(self._ask(query, (kind, flag)))[0])

    def open_keys(self) -> Iterator[str]:
        """The keys that have records, but none that closes them."""
        return (key for (key,) in self._ask("SELECT key FROM open"))

    def counts(self) -> dict[str, int]:
        """How many records of each kind, each counted once."""
        query = (
            "SELECT kind, count(*) FROM (SELECT DISTINCT kind, session, writer, seq, idx FROM records) GROUP BY kind"
        )
        return dict(self._ask(query))

    def counts_by_session(self, kind: str, flag: int) -> dict[int, int]:
        """How many records of this kind and flag each session wrote first."""
        query = (
            "SELECT session, count(*) FROM (SELECT DISTINCT session, writer, seq, idx FROM records"
            " WHERE kind = ? AND flag = ?) GROUP BY session"
        )
        return dict(self._ask(query, (kind, flag)))

    def keys_in(self, session: int, writer: int, seq: int) -> list[str]:
        """The keys that have records in one frame."""
        query = "SELECT DISTINCT key FROM records WHERE (session, writer, seq) = (?, ?, ?) AND key != ''"
        return [key for (key,) in self._ask(query, (session, writer, seq))]

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


def _state_from(row: tuple[object, ...]) -> SegmentState:
    values = list(row[3:13])
    for place in (1, 2, 3, 9):
        values[place] = bool(values[place])
    return SegmentState(SegmentId(*row[:3]), *values)  # type: ignore[arg-type]


def _joined(before: SegmentState, after: SegmentState) -> SegmentState:
    """The state of a segment read in two parts."""
    return after._replace(
        frames=before.frames + after.frames,
        records=before.records + after.records,
        first_seq=before.first_seq or after.first_seq,
        last_seq=after.last_seq or before.last_seq,
        last_digest=after.last_digest or before.last_digest,
        lost=before.lost or after.lost,
    )


def _sum_path(path: Path) -> Path:
    """Beside an index: the hash of its file, as it was after its last change."""
    return path.with_name(path.name + ".sum")


def _journal_path(path: Path) -> Path:
    """Where SQLite keeps what it needs to undo a change of the index that was cut short."""
    return path.with_name(path.name + "-journal")


def _hash_file(path: Path) -> bytes:
    with path.open("rb") as stream:
        return file_digest(stream, "sha256").digest()


def has_its_sum(path: Path) -> bool:
    """Whether an index is byte for byte as it was left."""
    try:
        return _sum_path(path).read_bytes() == _hash_file(path)
    except OSError:
        return False


def _is_busy(error: sqlite3.Error) -> bool:
    """Whether another is writing to the file; the lower bits of a code say what kind of error it is."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def extent(path: Path) -> int:
    """How many bytes of a journal the index at `path` knows; 0 if nothing can be learned from it.

    Raises:
        sqlite3.OperationalError: another is writing to it.
    """
    try:
        with contextlib.closing(_read_only(path)) as db:
            (schema,) = db.execute("SELECT value FROM about WHERE name = 'schema'").fetchone() or ("",)
            total = db.execute("SELECT coalesce(sum(length), 0) FROM segments").fetchone()[0]
            return int(total) if schema == str(_SCHEMA_VERSION) else 0
    except sqlite3.Error as error:
        if _is_busy(error):
            raise
        return 0


def copy_index(source: Path, target: Path) -> None:
    """Puts a copy of an index at `target`.

    Raises:
        OSError: it could not be copied; `target` is as it was.
        sqlite3.Error: there is no index at `source`.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}.new")
    with contextlib.closing(_read_only(source)) as db:
        # Nobody writes to the file as long as somebody reads from it.
        db.execute("BEGIN")
        db.execute("SELECT 1 FROM sqlite_master").fetchone()
        try:
            shutil.copyfile(source, temporary)
            # What would undo a change of the old file would spoil the new one.
            _journal_path(target).unlink(missing_ok=True)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(_sum_path(source), _sum_path(target))


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)


def hash_prefix(journal: Journal, segment: SegmentFile, length: int) -> tuple[int, bytes]:
    """The size of a segment's file, and the hash of its first `length` bytes."""
    file = journal.open(segment)
    try:
        return file.size(), hash_parts(file, 0, length)[1]
    finally:
        file.close()


def hash_parts(file: ReadFile, part: int, length: int) -> tuple[bytes, bytes]:
    """The hashes of the first `part` and the first `length` bytes of a file; empty where those cannot be read."""
    hash_, found, offset = sha256(), [], 0
    for end in (part, length):
        try:
            while offset < end and (piece := file.read_at(offset, min(_CHUNK, end - offset))):
                hash_.update(piece)
                offset += len(piece)
        except OSError:
            return b"", b""
        found.append(hash_.digest() if offset == end else b"")
    return found[0], found[1]
