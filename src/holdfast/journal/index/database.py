"""The SQLite file of an index: a cache that is used only if it is sound, of this run and of this version.

It is believed only while it is, byte for byte, as an index left it: beside it lies its hash, written after every
change. Whatever else is there, or cannot be read or written, is replaced by an empty index: in its place, or, where
that cannot be written, in a temporary file of this process. Why is kept in `note`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.errors import StorageFailure
from holdfast.journal.segment import SegmentId
from holdfast.journal.segment_state import SegmentState
from holdfast.storage.tolerated_failures import ToleratedFailures

INDEX = "index.sqlite"
"""Under this name the ledger of a session counts what could not be written here."""
_SCHEMA_VERSION = 3
_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE segments (
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
STATE_COLUMNS = (
    "session, writer, number, where_, named_sealed, sealed, successor,"
    " frames, records, first_seq, last_seq, last_digest, lost"
)
"""The columns of `segments` that `state_from_row` makes a segment's state of."""


class ClosingRule(NamedTuple):
    """Which records close their key, by kind and flag: a key that has one is no longer open."""

    kind: str
    flag: int


class IndexDatabase:
    """The file, open: what `connection` gives is sound, of this run and of this version."""

    def __init__(self, path: Path | None, run: bytes, closing: ClosingRule) -> None:
        self.path = path
        """None while the index is in a temporary file of this process."""
        self._about = {
            "run": run.hex(),
            "schema": str(_SCHEMA_VERSION),
            "closing": f"{closing.kind} {closing.flag}",
        }
        self._is_closed = False
        self.note = ""
        """Why the index was built anew, if it was."""
        self.failures = ToleratedFailures()
        self._changes = 0
        self.connection = self._open_or_begin()
        """Another one after `begin_anew`."""

    def close(self) -> None:
        """Closes the index; doing so again does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self.connection.close()

    def query(self, query: str, values: Iterable[object] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows that the tables give.

        Raises:
            StorageFailure: the file was spoilt since it was opened; whoever opens it next builds it anew.
        """
        try:
            # Not `yield from`: that closes the cursor with the generator, also where the database is closed already.
            for row in self.connection.execute(query, tuple(values)):  # noqa: UP028 - as above
                yield row
        except sqlite3.DatabaseError as error:
            raise StorageFailure(
                f"The index {self.path or 'in a temporary file'} broke while it was in use: {error}.",
                hint="The journal is intact; do it again, and the index is built anew.",
            ) from error

    def _open_or_begin(self) -> sqlite3.Connection:
        existed = self.path is not None and self.path.exists()
        try:
            db = self._connect()
            if not self._is_of_run_and_version(db):
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
        return self._begin_empty()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path or "", isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA cache_size = -16000")
        db.execute("PRAGMA cell_size_check = ON")
        return db

    def _is_of_run_and_version(self, db: sqlite3.Connection) -> bool:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone():
            return False
        about = dict(db.execute("SELECT name, value FROM about"))
        return about == self._about

    def _is_as_left(self, db: sqlite3.Connection) -> bool:
        # Nobody writes to the file as long as somebody reads from it.
        db.execute("BEGIN")
        db.execute("SELECT 1 FROM sqlite_master").fetchone()
        try:
            return self.path is not None and has_its_sum(self.path)
        finally:
            db.execute("ROLLBACK")

    def _begin_empty(self) -> sqlite3.Connection:
        """An empty index; in a temporary file where its own place cannot be written."""
        try:
            return self._create_tables()
        except (sqlite3.Error, OSError) as error:
            self.note = f"it cannot be written ({error})"
            self.failures.note(INDEX, str(error))
            self.path = None
            return self._create_tables()

    def _create_tables(self) -> sqlite3.Connection:
        if self.path is not None:
            for name in (self.path, _journal_path(self.path), sum_path(self.path)):
                name.unlink(missing_ok=True)
        db = self._connect()
        db.executescript("BEGIN;" + _SCHEMA)
        db.executemany("INSERT INTO about VALUES (?, ?)", self._about.items())
        db.execute("COMMIT")
        return db

    def vouch(self) -> None:
        """Writes the hash of the file beside it, where something was changed: without it nobody believes the file."""
        if self.path is None or self.connection.total_changes == self._changes:
            return
        self._changes = self.connection.total_changes
        try:
            sum_path(self.path).write_bytes(_file_hash(self.path))
        except OSError as error:
            self.failures.note(INDEX, error)

    def begin_anew(self, error: sqlite3.DatabaseError, *, in_temporary_file: bool = False) -> None:
        """Puts an empty index in the place of one that an error has made useless."""
        self.connection.close()
        if in_temporary_file:
            self.path = None
        self._leave_to_others(error)
        self.note = f"it could not be used ({error})"
        if isinstance(error, sqlite3.OperationalError):
            # Not what was in the file is wrong, but the disk it is on.
            self.failures.note(INDEX, str(error))
        self.connection, self._changes = self._begin_empty(), 0

    def _leave_to_others(self, error: sqlite3.DatabaseError) -> None:
        """Another reader may be at work on the file, or have put its own in its place; it must not lose that."""
        if _is_in_use(error) or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_DBMOVED:
            self.path = None


def state_from_row(row: tuple[object, ...]) -> SegmentState:
    """The state of a segment, given its STATE_COLUMNS."""
    values = list(row[3:13])
    for place in (1, 2, 3, 9):
        values[place] = bool(values[place])
    return SegmentState(SegmentId(*row[:3]), *values)  # type: ignore[arg-type]


def sum_path(path: Path) -> Path:
    """Beside an index: the hash of its file, as it was after its last change."""
    return path.with_name(path.name + ".sum")


def _journal_path(path: Path) -> Path:
    """Where SQLite keeps what it needs to undo a change of the index that was cut short."""
    return path.with_name(path.name + "-journal")


def _file_hash(path: Path) -> bytes:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def has_its_sum(path: Path) -> bool:
    """Whether an index is byte for byte as it was left."""
    try:
        return sum_path(path).read_bytes() == _file_hash(path)
    except OSError:
        return False


def _is_in_use(error: sqlite3.Error) -> bool:
    """Whether another is writing to the file; the lower bits of a code say what kind of error it is."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def indexed_bytes(path: Path) -> int:
    """How many bytes of a journal the index at `path` knows; 0 if nothing can be learned from it.

    Raises:
        sqlite3.OperationalError: another is writing to it.
    """
    try:
        with contextlib.closing(_connect_read_only(path)) as db:
            (schema,) = db.execute("SELECT value FROM about WHERE name = 'schema'").fetchone() or ("",)
            total = db.execute("SELECT coalesce(sum(length), 0) FROM segments").fetchone()[0]
            return int(total) if schema == str(_SCHEMA_VERSION) else 0
    except sqlite3.Error as error:
        if _is_in_use(error):
            raise
        return 0


def copy_index(source: Path, target: Path) -> None:
    """Puts a copy of an index at `target`.

    Raises:
        OSError: it could not be copied; `target` is as it was.
        sqlite3.Error: there is no index at `source`.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}.new")
    with contextlib.closing(_connect_read_only(source)) as db:
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
        shutil.copyfile(sum_path(source), sum_path(target))


def _connect_read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
