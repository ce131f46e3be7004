"""The records of a run for cross-checking, as tables of a temporary database, so that memory stays bounded.

Filled in one pass over the journal, in any order of its segments.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from holdfast.journal import RecordId
from holdfast.run.core.codec import Envelope
from holdfast.run.core.records import AnyRecord, ScoreRecord, StepRecord, TrialRecord
from holdfast.run.fold.reader import RunReader
from holdfast.storage.filesystem import FileSystem

_HEAD_BYTES = 1 << 16
_BATCH_ROWS = 2000
_BODIES = (b',"request":', b',"result":', b',"text":', b',"value":', b',"model":')
"""Where the large part of a record begins; no text inside it can look like this, for its quotes are escaped."""
_SCHEMA = """
CREATE TABLE steps (trial TEXT, attempt TEXT, step TEXT, PRIMARY KEY (trial, attempt, step)) WITHOUT ROWID;
CREATE TABLE parents (trial TEXT, attempt TEXT, parent TEXT);
CREATE TABLE scores (trial TEXT, scorer TEXT, value REAL);
CREATE INDEX scores_by_trial ON scores (trial);
CREATE TABLE ends (trial TEXT, session INTEGER, writer INTEGER, seq INTEGER, place INTEGER, source TEXT, scores BLOB,
  PRIMARY KEY (trial, session, writer, seq, place)) WITHOUT ROWID;
"""
_INSERTS = {
    "steps": "INSERT OR IGNORE INTO steps VALUES (?,?,?)",
    "parents": "INSERT INTO parents VALUES (?,?,?)",
    "scores": "INSERT INTO scores VALUES (?,?,?)",
    "ends": "INSERT OR REPLACE INTO ends VALUES (?,?,?,?,?,?,?)",
}


class StepHead(msgspec.Struct):
    """The beginning of a record that is stored as a blob."""

    trial: str = ""
    attempt: int = 0
    step: str = ""
    parent: str = ""


class RecordDatabase:
    """Steps, scores and ends of a run's trials, each in a row."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript(f"PRAGMA cache_size = -8000; BEGIN;{_SCHEMA}")
        self._waiting: dict[str, list[tuple[object, ...]]] = {name: [] for name in _INSERTS}

    def clear(self) -> None:
        """Forgets what was added."""
        for table, waiting in self._waiting.items():
            waiting.clear()
            self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - no value is put into the text

    def close(self) -> None:
        self._db.close()

    def select(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Rows of the tables, once everything has been added."""
        self._flush()
        return iter(self._db.execute(query, values))

    def add(self, record: AnyRecord | Envelope | None, ident: RecordId) -> None:
        """Adds a record, or what is in the journal of one that is stored as a blob."""
        if isinstance(record, Envelope):
            self._add_blob(record)
        elif isinstance(record, StepRecord):
            self._add_step(record)
        elif isinstance(record, ScoreRecord) and record.error is None:
            self._put("scores", record.trial, record.scorer, record.value)
        elif isinstance(record, TrialRecord) and record.status.is_kept:
            self._put("ends", record.trial, *ident, record.source, msgspec.json.encode(record.scores))

    def _put(self, table: str, *values: object) -> None:
        waiting = self._waiting[table]
        waiting.append(values)
        if len(waiting) >= _BATCH_ROWS:
            self._flush(table)

    def _flush(self, *tables: str) -> None:
        for table in tables or _INSERTS:
            if waiting := self._waiting[table]:
                self._db.executemany(_INSERTS[table], waiting)
                waiting.clear()

    def _add_blob(self, cited: Envelope) -> None:
        if cited.type == "step" and (head := read_step_head(self._reader.fs, self._reader.blobs.path(cited.blob))):
            self._add_step(head)
        elif cited.type == "score":
            self._put("scores", cited.trial, cited.scorer, None)

    def _add_step(self, step: StepRecord | StepHead) -> None:
        self._put("steps", step.trial, str(step.attempt), step.step)
        if step.parent:
            self._put("parents", step.trial, str(step.attempt), step.parent)


def read_step_head(fs: FileSystem, path: Path) -> StepHead | None:
    """The first fields of a step that is stored as a blob, however long it is; None if it cannot be read."""
    try:
        file = fs.open(path)
    except OSError:
        return None
    try:
        head = file.read_at(0, _HEAD_BYTES)
        end = min((place for body in _BODIES if (place := head.find(body)) >= 0), default=len(head))
        return msgspec.json.decode(head[:end].rstrip(b"}") + b"}", type=StepHead)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    finally:
        file.close()
