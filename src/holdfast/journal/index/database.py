"""The SQLite file of an index: a cache that is used only if it is intact, of this run and of this version.

It is trusted only if it is byte for byte as an index left it: its hash is in a file beside it. Anything else, and a
file that cannot be read or written, is replaced by an empty index: in its place or, where that cannot be written, in a
temporary file of this process. The reason is in `note`. A published index is never changed, only replaced by another
file of its name, so any number of processes may read it in place.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from holdfast.errors import StorageFailure
from holdfast.journal.segment import SegmentId
from holdfast.journal.segment_state import SegmentState
from holdfast.storage.tolerated_failures import ToleratedFailures

INDEX_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises where a file cannot be used: what it says of a damaged one may quote bytes that are no text."""
BrokenIndex = sqlite3.Error | UnicodeDecodeError

INDEX = "index.sqlite"
"""Under this name the ledger of a session counts what could not be written here."""
_SCHEMA_VERSION = 6
_GROWTH = 1.25
_PIECE_BYTES = 1 << 20
_BUSY_SECONDS = 60.0
_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE segments (
  id INTEGER PRIMARY KEY, session INTEGER, writer INTEGER, number INTEGER, where_ TEXT,
  named_sealed INTEGER, sealed INTEGER, successor INTEGER, frames INTEGER, records INTEGER,
  first_seq INTEGER, last_seq INTEGER, last_digest BLOB, lost INTEGER,
  length INTEGER DEFAULT 0, hash BLOB, read_to INTEGER DEFAULT 0, last_offset INTEGER, last_origin TEXT,
  newer_format INTEGER, damage BLOB, missed BLOB DEFAULT '[]', gone INTEGER DEFAULT 0,
  UNIQUE (session, writer, number));
CREATE TABLE frames (session INTEGER, writer INTEGER, first INTEGER, last INTEGER);
CREATE TABLE copies (session INTEGER, writer INTEGER, seq INTEGER, by_session INTEGER, segment INTEGER,
  PRIMARY KEY (session, writer, seq, segment)) WITHOUT ROWID;
"""
STATE_COLUMNS = (
    "session, writer, number, where_, named_sealed, sealed, successor,"
    " frames, records, first_seq, last_seq, last_digest, lost"
)
"""The columns of `segments` that `state_from_row` makes a segment's state of."""


class IndexDatabase:
    """The file, open: what `connection` gives is intact, of this run and of this version."""

    def __init__(self, path: Path | None, run: bytes, schema: str, published: sqlite3.Connection | None = None) -> None:
        """`schema` are the tables of the fold; a `published` index is open already, and is only read."""
        self.path = path
        """None while the index is in a temporary file of this process."""
        self._schema = _SCHEMA + schema
        self._about = {"run": run.hex(), "schema": schema_id(schema)}
        self.note = ""
        """Why the index was rebuilt, if it was."""
        self.failures = ToleratedFailures()
        self._changes = self._published_size = 0
        self._use(published or self._open_or_begin())

    def _use(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        """Another one after `begin_anew`."""
        # A `Run` is often left to the interpreter, which complains about open connections from Python 3.13 on. No
        # __del__: of objects that refer to each other, the connection may be found first.
        self._closing = weakref.finalize(self, connection.close)
        self._closing.atexit = False

    def close(self) -> None:
        """Closes the index; doing so again does nothing."""
        self._closing()

    def query(self, query: str, values: Iterable[object] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows that the tables give.

        Raises:
            StorageFailure: the file was damaged since it was opened; the next process that opens it rebuilds it.
        """
        try:
            # Not `yield from`: that closes the cursor with the generator, also where the database is closed already.
            for row in self.connection.execute(query, tuple(values)):  # noqa: UP028 - as above
                yield row
        except INDEX_ERRORS as error:
            name = self.path.name if self.path else "in a temporary file"
            raise StorageFailure(
                f"The index {name} failed while it was in use: {error}.",
                hint="The journal is intact; run the command again, and the index is rebuilt.",
            ) from error

    def _open_or_begin(self) -> sqlite3.Connection:
        existed = self.path is not None and self.path.exists()
        try:
            with contextlib.ExitStack() as unless_used:
                db = self._connect()
                unless_used.callback(db.close)
                if not self.is_of_run_and_version(db):
                    self.note = "it belonged to another run or version" if existed else ""
                elif not self._is_as_left(db):
                    # By the hash, because SQLite's own check does not find a changed key or flag.
                    self.note = "it was damaged, or its writer was killed"
                else:
                    unless_used.pop_all()
                    return db
        except INDEX_ERRORS as error:
            self.note = f"it could not be read ({error})"
            self._leave_to_others(error)
        return self._begin_empty()

    def _connect(self) -> sqlite3.Connection:
        # The process that fills an index commits several times a second; a reader waits for that.
        db = sqlite3.connect(self.path or "", isolation_level=None, check_same_thread=False, timeout=_BUSY_SECONDS)
        # No syncs: a cache that is torn by a power loss is detected by its hash.
        return _with_settings(db, "cache_size = -16000", "cell_size_check = ON", "synchronous = OFF")

    def is_of_run_and_version(self, db: sqlite3.Connection) -> bool:
        """Whether a file is an index of this run, with these tables."""
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone():
            return False
        return dict(db.execute("SELECT name, value FROM about")) == self._about

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
        except (*INDEX_ERRORS, OSError) as error:
            self.note = f"it cannot be written ({error})"
            self.failures.note(INDEX, str(error))
            self.path = None
            return self._create_tables()

    def _create_tables(self) -> sqlite3.Connection:
        if self.path is not None:
            remove_index(self.path)
        with contextlib.ExitStack() as unless_used:
            db = self._connect()
            unless_used.callback(db.close)
            db.executescript("BEGIN;" + self._schema)
            db.executemany("INSERT INTO about VALUES (?, ?)", self._about.items())
            db.execute("COMMIT")
            unless_used.pop_all()
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

    def publish_copy(self, published: Path) -> None:
        """Publishes a copy of a file that is still growing, if it has become a good deal larger since the last time.

        The file itself changes in place, so that after a kill no hash is right for it; the copy is as it was left.
        A quarter larger each time: the work of copying stays in proportion to the size.
        """
        if self.path is None or (size := self.path.stat().st_size) < self._published_size * _GROWTH:
            return
        self._published_size = size
        temporary = published.with_name(f".{published.name}.new")
        try:
            sum_path(temporary).write_bytes(_copied_hash(self.path, temporary))
            _rename_index(temporary, published)
        except OSError as error:
            self.failures.note(INDEX, error)
            remove_index(temporary)

    def begin_anew(self, error: BrokenIndex, *, in_temporary_file: bool = False) -> None:
        """Puts an empty index in the place of one that an error has made useless."""
        self.close()
        if in_temporary_file:
            self.path = None
        self._leave_to_others(error)
        self.note = f"it could not be used ({error})"
        if isinstance(error, sqlite3.OperationalError):
            # The disk is the problem, not the content of the file.
            self.failures.note(INDEX, str(error))
        self._changes = self._published_size = 0
        self._use(self._begin_empty())

    def _leave_to_others(self, error: BrokenIndex) -> None:
        """Another reader may be at work on the file, or have put its own in its place; it must not lose that."""
        if _is_in_use(error) or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_DBMOVED:
            self.path = None


def open_published(path: Path, run: bytes, schema: str) -> IndexDatabase | None:
    """The index at `path` as it is, for reading in place; None unless it is intact and of this run and version."""
    try:
        before = path.stat()
        with contextlib.ExitStack() as unless_used:
            connection = _connect_immutable(path)
            unless_used.callback(connection.close)
            # Of the very file that was opened: another may have taken its name since.
            is_sound = has_its_sum(path) and path.stat().st_ino == before.st_ino
            database = IndexDatabase(path, run, schema, connection)
            if is_sound and database.is_of_run_and_version(connection):
                unless_used.pop_all()
                return database
    except (OSError, *INDEX_ERRORS):
        # Whatever is wrong with it, it is not used.
        return None
    return None


def is_sound(path: Path, run: bytes, schema: str) -> bool:
    """Whether an index of this run and version is as it was left."""
    database = open_published(path, run, schema)
    if database is not None:
        database.close()
    return database is not None


def schema_id(schema: str) -> str:
    """What an index must say of itself to be one of this version, with these tables of a fold."""
    return f"{_SCHEMA_VERSION} {hashlib.sha256(schema.encode()).hexdigest()[:16]}"


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
    """Where SQLite keeps what it needs to undo a change of the index that was interrupted."""
    return path.with_name(path.name + "-journal")


def _file_hash(path: Path) -> bytes:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def _copied_hash(source: Path, target: Path) -> bytes:
    """Copies a file; the hash of what was copied."""
    total = hashlib.sha256()
    with source.open("rb") as stream, target.open("wb") as copy:
        while part := stream.read(_PIECE_BYTES):
            total.update(part)
            copy.write(part)
    return total.digest()


def has_its_sum(path: Path) -> bool:
    """Whether an index is byte for byte as it was left."""
    try:
        return sum_path(path).read_bytes() == _file_hash(path)
    except OSError:
        return False


def _is_in_use(error: BrokenIndex) -> bool:
    """Whether another is writing to the file; the lower bits of a code say what kind of error it is."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def indexed_bytes(path: Path, schema: str) -> int:
    """How many bytes of a journal the index at `path` knows; 0 if nothing can be learned from it.

    Raises:
        sqlite3.OperationalError: another is writing to it.
    """
    try:
        with contextlib.closing(_connect_read_only(path)) as db:
            (found,) = db.execute("SELECT value FROM about WHERE name = 'schema'").fetchone() or ("",)
            if found != schema_id(schema):
                return 0
            return int(db.execute("SELECT coalesce(sum(length), 0) FROM segments").fetchone()[0])
    except INDEX_ERRORS as error:
        if _is_in_use(error):
            raise
        return 0


def copy_index(source: Path, target: Path) -> None:
    """Puts a copy of an index at `target`.

    Raises:
        OSError: it could not be copied; `target` is as it was.
        sqlite3.Error: there is no index at `source`.
    """
    import shutil  # noqa: PLC0415 - a reader of a published index copies none

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


def publish_index(writing: Path, published: Path) -> None:
    """Puts an index that nobody changes any more in the place that readers look at.

    Raises:
        OSError: it could not be renamed; the one that was published before is unchanged.
    """
    if has_its_sum(writing):
        _rename_index(writing, published)


def _rename_index(path: Path, target: Path) -> None:
    # Between the two steps the hash is that of another file, and such an index is not believed.
    path.replace(target)
    sum_path(path).replace(sum_path(target))


def remove_index(path: Path) -> None:
    """Removes an index, and whatever lies beside it."""
    for name in (path, _journal_path(path), sum_path(path)):
        name.unlink(missing_ok=True)


def _connect_immutable(path: Path) -> sqlite3.Connection:
    uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    return _with_settings(db, "cell_size_check = ON")


def _with_settings(db: sqlite3.Connection, *settings: str) -> sqlite3.Connection:
    """The connection with these settings; it is closed if the file is so damaged that they cannot be made."""
    with contextlib.ExitStack() as unless_used:
        unless_used.callback(db.close)
        for setting in settings:
            db.execute(f"PRAGMA {setting}")
        unless_used.pop_all()
    return db


def _connect_read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
