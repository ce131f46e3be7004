"""How the attempts of a run ended, by its journal: what result files are compared with.

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

_COMPARED = ("status", "scores", "task", "model", "sample", "epoch", "axes", "usage", "cost")
"""What a result file and the journal must agree in."""
_SCHEMA = """
CREATE TABLE ends (key TEXT, session INTEGER, writer INTEGER, seq INTEGER, place INTEGER, attempt TEXT, content BLOB,
  PRIMARY KEY (key, session, writer, seq, place)) WITHOUT ROWID;
CREATE TABLE kept (key TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE queued (line BLOB);
"""


class EndMatch(enum.Enum):
    """How the end that a result file gives compares with the journal."""

    NEW = "new"
    """The journal knows nothing of this end."""
    KNOWN = "known"
    """It is on record, or a later attempt is."""
    OPEN = "open"
    """It is not the end of an attempt."""
    CONFLICT = "conflict"
    """The journal says otherwise."""


class EndComparison(NamedTuple):
    """How an end compares with the journal, and in what it contradicts it."""

    match: EndMatch
    detail: str = ""


class AttemptEnds:
    """The ends of attempts: the `trial` records of a journal."""

    def __init__(self) -> None:
        # Without a name, SQLite keeps it in a file of its own as soon as it outgrows a small cache.
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript(f"PRAGMA cache_size = -4000; BEGIN;{_SCHEMA}")

    def close(self) -> None:
        self._db.close()

    def add(self, trial: TrialRecord, ident: RecordId) -> bool:
        """Adds a record; whether it is the first end of this trial that is kept."""
        values = (trial.trial, *ident, str(trial.attempt), _encode_compared(trial))
        self._db.execute("INSERT OR REPLACE INTO ends VALUES (?,?,?,?,?,?,?)", values)
        if not trial.status.is_kept:
            return False
        return self._db.execute("INSERT OR IGNORE INTO kept VALUES (?)", (trial.trial,)).rowcount == 1

    def queue(self, trial: TrialRecord) -> None:
        """Keeps a record that is still to be written to the journal."""
        self._db.execute("INSERT INTO queued VALUES (?)", (msgspec.json.encode(trial),))

    def queued(self) -> Iterator[TrialRecord]:
        """The records that are still to be written, in the order they came."""
        lines = self._db.execute("SELECT line FROM queued ORDER BY rowid")
        return (msgspec.json.decode(line, type=TrialRecord) for (line,) in lines)

    @property
    def kept(self) -> int:
        """How many trials have an end that is kept."""
        return int(self._db.execute("SELECT count(*) FROM kept").fetchone()[0])

    def kept_keys(self) -> Iterator[str]:
        """Their keys, sorted."""
        return (key for (key,) in self._db.execute("SELECT key FROM kept ORDER BY key"))

    def compare(self, trial: TrialRecord) -> EndComparison:
        """Compares the end that a result file gives with those on record."""
        if trial.status is Status.UNFINISHED:
            return EndComparison(EndMatch.OPEN)
        # Of several that are kept, the first of the newest session counts.
        query = "SELECT attempt, content FROM ends WHERE key = ? ORDER BY session DESC, writer, seq, place"
        rows = self._db.execute(query, (trial.trial,))
        ends = [(int(attempt), msgspec.json.decode(content)) for attempt, content in rows]
        final = [(attempt, end) for attempt, end in ends if end["status"] != Status.UNFINISHED.value]
        if same := [end for attempt, end in final if attempt == trial.attempt]:
            return _compare_contents(min(same, key=lambda end: not _has_kept_status(end)), trial)
        kept = next((attempt for attempt, end in final if _has_kept_status(end)), None)
        if kept is None:
            return EndComparison(EndMatch.NEW)
        if not trial.status.is_kept and trial.attempt < kept:
            return EndComparison(EndMatch.KNOWN)
        detail = f"attempt {trial.attempt} ended {trial.status.value}; by the journal attempt {kept} was the last"
        return EndComparison(EndMatch.CONFLICT, detail)


def _encode_compared(trial: TrialRecord) -> bytes:
    return msgspec.json.encode({name: getattr(trial, name) for name in _COMPARED})


def _has_kept_status(end: dict[str, Any]) -> bool:
    return Status(end["status"]).is_kept


def _compare_contents(journal: dict[str, Any], trial: TrialRecord) -> EndComparison:
    file = msgspec.json.decode(_encode_compared(trial))
    parts = [
        f"{name} is {_short_json(file[name])}, by the journal {_short_json(journal[name])}"
        for name in _differing(journal, file)
    ]
    return EndComparison(EndMatch.CONFLICT, "; ".join(parts)) if parts else EndComparison(EndMatch.KNOWN)


def _differing(journal: dict[str, Any], file: dict[str, Any]) -> list[str]:
    return [name for name in _COMPARED if journal[name] != file[name]]


def _short_json(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else f"{text[:79]}…"
