"""How the attempts of a run ended, by its journal: what a result file is held against.

Kept in a temporary database, so that memory does not grow with the number of trials.
"""

from __future__ import annotations

import enum
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from holdfast.journal import RecordId
from holdfast.run.core.records import Status, TrialRecord

_TOLD = ("status", "scores", "task", "model", "sample", "epoch", "axes", "usage", "cost")
"""What a result file and the journal must agree in."""
_SCHEMA = """
CREATE TABLE ends (key TEXT, session INTEGER, writer INTEGER, seq INTEGER, place INTEGER, attempt TEXT, told BLOB,
  PRIMARY KEY (key, session, writer, seq, place)) WITHOUT ROWID;
CREATE TABLE kept (key TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE added (line BLOB);
"""


class Standing(enum.Enum):
    """How a result stands to the journal."""

    NEW = "new"
    """The journal knows nothing of this end."""
    KNOWN = "known"
    """It is on record, or a later attempt is."""
    OPEN = "open"
    """It is not the end of an attempt."""
    CONFLICT = "conflict"
    """The journal says otherwise."""


class Comparison(NamedTuple):
    """The standing of a result, and in what it contradicts the journal."""

    standing: Standing
    detail: str = ""


class Ends:
    """The `trial` records of a journal."""

    def __init__(self) -> None:
        # Without a name, SQLite keeps it in a file of its own as soon as it outgrows a small cache.
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript(f"PRAGMA cache_size = -4000; BEGIN;{_SCHEMA}")

    def close(self) -> None:
        self._db.close()

    def take(self, trial: TrialRecord, ident: RecordId) -> bool:
        """Takes in a record; whether it is the first end of this trial that is kept."""
        values = (trial.trial, *ident, str(trial.attempt), _told(trial))
        self._db.execute("INSERT OR REPLACE INTO ends VALUES (?,?,?,?,?,?,?)", values)
        if not trial.status.is_kept:
            return False
        return self._db.execute("INSERT OR IGNORE INTO kept VALUES (?)", (trial.trial,)).rowcount == 1

    def add(self, trial: TrialRecord) -> None:
        """Puts a record aside that is to be written."""
        self._db.execute("INSERT INTO added VALUES (?)", (msgspec.json.encode(trial),))

    def added(self) -> Iterator[TrialRecord]:
        """The records that were put aside, in that order."""
        lines = self._db.execute("SELECT line FROM added ORDER BY rowid")
        return (msgspec.json.decode(line, type=TrialRecord) for (line,) in lines)

    @property
    def kept(self) -> int:
        """How many trials have an end that is kept."""
        return int(self._db.execute("SELECT count(*) FROM kept").fetchone()[0])

    def kept_keys(self) -> Iterator[str]:
        """Their keys, sorted."""
        return (key for (key,) in self._db.execute("SELECT key FROM kept ORDER BY key"))

    def compare(self, trial: TrialRecord) -> Comparison:
        """How the end that a result file tells of stands to those on record."""
        if trial.status is Status.UNFINISHED:
            return Comparison(Standing.OPEN)
        # Of several that are kept, the first of the newest session counts.
        query = "SELECT attempt, told FROM ends WHERE key = ? ORDER BY session DESC, writer, seq, place"
        ends = [(int(attempt), msgspec.json.decode(told)) for attempt, told in self._db.execute(query, (trial.trial,))]
        final = [(attempt, told) for attempt, told in ends if told["status"] != Status.UNFINISHED.value]
        if same := [told for attempt, told in final if attempt == trial.attempt]:
            return _compared(min(same, key=lambda told: not _is_kept(told)), trial)
        kept = next((attempt for attempt, told in final if _is_kept(told)), None)
        if kept is None:
            return Comparison(Standing.NEW)
        if not trial.status.is_kept and trial.attempt < kept:
            return Comparison(Standing.KNOWN)
        told = f"attempt {trial.attempt} ended {trial.status.value}; by the journal attempt {kept} was the last"
        return Comparison(Standing.CONFLICT, told)


def _told(trial: TrialRecord) -> bytes:
    return msgspec.json.encode({name: getattr(trial, name) for name in _TOLD})


def _is_kept(told: dict[str, Any]) -> bool:
    return Status(told["status"]).is_kept


def _compared(journal: dict[str, Any], trial: TrialRecord) -> Comparison:
    file = msgspec.json.decode(_told(trial))
    parts = [
        f"{name} is {_shown(file[name])}, by the journal {_shown(journal[name])}" for name in _differing(journal, file)
    ]
    return Comparison(Standing.CONFLICT, "; ".join(parts)) if parts else Comparison(Standing.KNOWN)


def _differing(journal: dict[str, Any], file: dict[str, Any]) -> list[str]:
    return [name for name in _TOLD if journal[name] != file[name]]


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else f"{text[:79]}…"
