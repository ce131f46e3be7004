"""The SQLite file of an index: a cache that is used only if it is sound, of this run and of this version.

It is believed only while it is, byte for byte, as an index left it: beside it lies its hash, written after every
change. Whatever else is there, or cannot be read or written, is replaced by an empty index: in its place, or, where
that cannot be written, in a temporary file of this process. Why is kept in `note`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from hashlib import file_digest
from pathlib import Path
from typing import NamedTuple

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


class Closing(NamedTuple):
    """The kind and flag of the records that close their key: whatever has one is no longer open."""

    kind: str
    flag: int


class IndexFile:
    """The file, open."""

    def __init__(self, path: Path | None, run: bytes, closing: Closing) -> None:
        self._path = path
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
        self._db = self._open()

    def close(self) -> None:
        """Closes the index; doing so again does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._db.close()

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
        return about == self._about

    def _is_as_left(self, db: sqlite3.Connection) -> bool:
        # Nobody writes to the file as long as somebody reads from it.
        db.execute("BEGIN")
        db.execute("SELECT 1 FROM sqlite_master").fetchone()
        try:
            return self._path is not None and has_its_sum(self._path)
        finally:
            db.execute("ROLLBACK")

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
            for name in (self._path, _journal_path(self._path), sum_path(self._path)):
                name.unlink(missing_ok=True)
        db = self._connect()
        db.executescript("BEGIN;" + _SCHEMA)
        db.executemany("INSERT INTO about VALUES (?, ?)", self._about.items())
        db.execute("COMMIT")
        return db

    def _vouch(self) -> None:
        """Writes the hash of the file beside it, where something was changed: without it nobody believes the file."""
        if self._path is None or self._db.total_changes == self._changes:
            return
        self._changes = self._db.total_changes
        try:
            sum_path(self._path).write_bytes(_hash_file(self._path))
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


def sum_path(path: Path) -> Path:
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
        return sum_path(path).read_bytes() == _hash_file(path)
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
        shutil.copyfile(sum_path(source), sum_path(target))


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
