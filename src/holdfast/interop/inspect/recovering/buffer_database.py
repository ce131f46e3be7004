"""The database in which Inspect keeps the samples of a running eval until a flush writes them to the log.

It is in the user's data directory, named after the log and the process. It is read and never changed.
"""

import hashlib
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from holdfast.interop.inspect.eval_archive import key_of
from holdfast.interop.inspect.json_text import InvalidJson, decode_json
from holdfast.interop.inspect.recovering.buffer_rows import BufferedSample, SampleRows, newest_versions, pooled
from holdfast.storage.operating_system import started_after

DATABASE = "database"
_FOLDER = Path("inspect_ai", "samplebuffer")


def buffer_directory() -> Path:
    """Where Inspect keeps its databases on this machine."""
    if given := os.environ.get("XDG_DATA_HOME", "").strip():
        return Path(given) / _FOLDER
    home = Path.home()
    return (home / "Library/Application Support" if sys.platform == "darwin" else home / ".local/share") / _FOLDER


def find_databases(log: Path, place: Path | None = None) -> list[Path]:
    """The databases of a log, the newest first; also of one that was moved since."""
    place = place or buffer_directory()
    of_directory = place / hashlib.sha256(f"file://{log.absolute().parent}".encode()).hexdigest()
    found = _databases_in(of_directory, log.name)
    if not found and place.is_dir():
        # The name of a log has a time and an id in it: it is the same one wherever it lies.
        found = [path for folder in sorted(place.iterdir()) for path in _databases_in(folder, log.name)]
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)


def _databases_in(folder: Path, name: str) -> list[Path]:
    if not folder.is_dir():
        return []
    return [
        path
        for path in folder.iterdir()
        if path.name.startswith(f"{name}.") and path.suffix == ".db" and _process_of(path) is not None
    ]


def _process_of(database: Path) -> int | None:
    number = database.name.rsplit(".", 2)[-2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else None


def living_process(database: Path) -> int | None:
    """The process that writes to a database, if it is alive."""
    process = _process_of(database)
    if process is None:
        return None
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    try:
        changed = database.stat().st_mtime
    except OSError:
        return process
    # A number is given again: a process that is younger than the database's last change is another one.
    return None if started_after(process, changed + 1) else process


class BufferDatabase:
    """An open database."""

    def __init__(self, path: Path) -> None:
        """Opens it for reading.

        Raises:
            sqlite3.Error: it cannot be read.
            OSError: it cannot be copied.
        """
        self.path = path
        self.losses: list[str] = []
        """Which samples cannot be used, known when all were read."""
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._connection = self._open()
        self._connection.row_factory = sqlite3.Row

    def _open(self) -> sqlite3.Connection:
        for ending in ("", "-wal", "-shm", "-journal"):
            found = Path(f"{self.path}{ending}")
            if found.exists() and not found.is_file():
                # SQLite would wait for a pipe without a writer.
                raise sqlite3.OperationalError(f"{found.name} is not a regular file")
        connection = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            connection.execute("SELECT 1 FROM samples LIMIT 1").fetchone()
        except sqlite3.OperationalError:
            connection.close()
        except sqlite3.Error:
            connection.close()
            raise
        else:
            return connection
        # The log of changes cannot be read where nothing may be written beside it: a copy can.
        self._copy = tempfile.TemporaryDirectory(prefix="holdfast-")
        try:
            self._copy_to(Path(self._copy.name))
        except OSError:
            self._copy.cleanup()
            raise
        return sqlite3.connect(Path(self._copy.name) / "copy.db")

    def _copy_to(self, folder: Path) -> None:
        for ending in ("", "-wal"):
            if (found := Path(f"{self.path}{ending}")).exists():
                shutil.copyfile(found, folder / f"copy.db{ending}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        if self._copy is not None:
            self._copy.cleanup()

    def samples(self) -> Iterator[BufferedSample]:
        """The samples in it, complete or not.

        Raises:
            sqlite3.Error: the database is damaged.
        """
        for row in self._rows("SELECT * FROM samples ORDER BY rowid"):
            summary = _json_or_none(row["data"])
            if (key := key_of(summary)) is None:
                self.losses.append(f"{self.path}: sample {row['id']} has no valid summary")
            else:
                ident, epoch = row["id"], row["epoch"]
                metadata = row["sample_metadata"] if "sample_metadata" in row.keys() else None  # noqa: SIM118 - a Row
                yield BufferedSample(
                    key,
                    summary,
                    DATABASE,
                    lambda ident=ident, epoch=epoch, metadata=metadata: self._rows_of(ident, epoch, metadata),  # type: ignore[misc]
                )

    def _rows_of(self, ident: Any, epoch: Any, metadata: Any) -> SampleRows:
        losses: list[str] = []
        found = {table: self._sample_rows(table, ident, epoch, losses) for table in _TABLES}
        extra = _json_or_none(metadata)
        return SampleRows(
            newest_versions(((row["event_id"], _json_or_none(row["data"])) for row in found["events"]), losses),
            {row["hash"]: row["content"] for row in found["attachments"]},
            [pooled(row["data"], losses) for row in found["message_pool"]],
            [pooled(row["data"], losses) for row in found["call_pool"]],
            extra if isinstance(extra, dict) else None,
            losses,
        )

    def _sample_rows(self, table: str, ident: Any, epoch: Any, losses: list[str]) -> list[sqlite3.Row]:
        query = f"SELECT * FROM {table} WHERE sample_id = ? AND sample_epoch = ? ORDER BY id"  # noqa: S608 - a name of ours
        try:
            found = list(self._rows(query, ident, epoch))
        except sqlite3.Error as error:
            losses.append(f"{table} in {self.path.name} cannot be read: {error}")
            return []
        return found

    def _rows(self, query: str, *values: Any) -> Iterator[sqlite3.Row]:
        with closing(self._connection.execute(query, values)) as cursor:
            yield from cursor


_TABLES = ("events", "attachments", "message_pool", "call_pool")


def _json_or_none(text: Any) -> Any:
    try:
        return decode_json(text) if isinstance(text, str | bytes) else None
    except InvalidJson:
        return None
