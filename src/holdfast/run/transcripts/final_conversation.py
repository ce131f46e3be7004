"""The final conversation of a finished trial: the calls of its solver that lead to its answer.

A call names the call whose conversation it continues. So the final conversation is the last call whose reply is the
answer, or the last call of all if no reply is, with everything that it continues. Other branches, candidates that were
not chosen, tools and judges are not part of it. The calls are kept in a temporary database, so that memory does not
grow with the number of trials.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec

from holdfast.journal import BlobStore
from holdfast.models.role import ModelRole
from holdfast.run.core.codec import citation
from holdfast.run.fold.record_database import read_step_head
from holdfast.storage.filesystem import FileSystem

HEADS = (b'{"type":"step"', b'{"type":"answer"')
"""How the records begin that `add` has to see."""
_STEP, _ANSWER = HEADS
_BATCH_ROWS = 2000
_SCHEMA = """
CREATE TABLE calls (place INTEGER PRIMARY KEY, trial TEXT, attempt INTEGER, step TEXT, parent TEXT, said BLOB);
CREATE TABLE answers (trial TEXT, attempt INTEGER, said BLOB, PRIMARY KEY (trial, attempt)) WITHOUT ROWID;
"""
_INDEX = "CREATE INDEX IF NOT EXISTS calls_by_step ON calls (trial, attempt, step, place)"
_LAST = """
CREATE TABLE kept (trial TEXT, attempt INTEGER, step TEXT, PRIMARY KEY (trial, attempt, step)) WITHOUT ROWID;
WITH RECURSIVE
  last (trial, attempt, place) AS (
    SELECT c.trial, c.attempt, COALESCE(MAX(CASE WHEN c.said = a.said THEN c.place END), MAX(c.place))
    FROM calls c LEFT JOIN answers a ON (a.trial, a.attempt) = (c.trial, c.attempt) GROUP BY c.trial, c.attempt),
  chain (trial, attempt, step, parent) AS (
    SELECT c.trial, c.attempt, c.step, c.parent FROM last l JOIN calls c ON c.place = l.place
    UNION
    SELECT c.trial, c.attempt, c.step, c.parent FROM chain n JOIN calls c
      ON (c.trial, c.attempt, c.step) = (n.trial, n.attempt, n.parent) WHERE n.parent <> '')
INSERT OR IGNORE INTO kept SELECT trial, attempt, step FROM chain;
"""


class _ReplyText(msgspec.Struct):
    text: Any = None


class _SolverCall(msgspec.Struct):
    """What a step says of itself, without what was asked."""

    trial: str = ""
    attempt: int = 0
    step: str = ""
    parent: str = ""
    model: str = ""
    role: ModelRole = ModelRole.UNDER_TEST
    error: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()

    @property
    def is_of_solver(self) -> bool:
        """Whether it is a reply of a model to the solver."""
        return bool(self.model) and self.role is ModelRole.UNDER_TEST and not bytes(self.error)


class _AnswerText(msgspec.Struct):
    trial: str = ""
    attempt: int = 0
    text: str = ""


_UNKNOWN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_call_decoder, _answer_decoder = msgspec.json.Decoder(_SolverCall), msgspec.json.Decoder(_AnswerText)
_said_decoder = msgspec.json.Decoder(_ReplyText)


class FinalConversations:
    """The final conversations of some trials; complete once every step and answer of the run was added."""

    def __init__(self, fs: FileSystem, blobs: BlobStore, counted: Callable[[str], int]) -> None:
        """`counted` gives the attempt of a trial whose conversation is wanted, and 0 where none is."""
        self._fs, self._blobs, self._counted = fs, blobs, counted
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript(f"PRAGMA cache_size = -4000; BEGIN;{_SCHEMA}")
        self._waiting: list[tuple[object, ...]] = []
        self._is_complete = False

    def close(self) -> None:
        self._db.close()

    def add(self, line: bytes) -> None:
        """Adds a record, as its line in the journal; only those that begin with one of HEADS matter."""
        if line.startswith(_STEP):
            call = self._call(line)
            if call is not None and call.is_of_solver and self._counted(call.trial) == call.attempt:
                self._put(call.trial, call.attempt, call.step, call.parent, _digest_of_result(call.result))
        elif line.startswith(_ANSWER):
            self._add_answer(line)

    def _call(self, line: bytes) -> _SolverCall | None:
        try:
            if (cited := citation(line)) is None:
                return _call_decoder.decode(line)
        except _UNKNOWN:
            return None
        head = read_step_head(self._fs, self._blobs.path(cited.blob))
        if head is None or cited.error is not None:
            return None
        return _SolverCall(cited.trial, cited.attempt, head.step, head.parent, cited.model, cited.role)

    def _put(self, *values: object) -> None:
        self._waiting.append(values)
        if len(self._waiting) >= _BATCH_ROWS:
            self._flush()

    def _flush(self) -> None:
        self._db.executemany("INSERT INTO calls (trial, attempt, step, parent, said) VALUES (?,?,?,?,?)", self._waiting)
        self._waiting.clear()

    def _add_answer(self, line: bytes) -> None:
        try:
            answer = _answer_decoder.decode(line)
        except _UNKNOWN:
            return
        if self._counted(answer.trial) == answer.attempt:
            row = answer.trial, answer.attempt, _digest(answer.text)
            self._db.execute("INSERT OR REPLACE INTO answers VALUES (?,?,?)", row)

    def __contains__(self, line: bytes) -> bool:
        """Whether a step, as its line in the journal, is part of a final conversation."""
        self._complete()
        call = self._call(line) if line.startswith(_STEP) else None
        if call is None or not call.is_of_solver:
            return False
        query = "SELECT 1 FROM kept WHERE (trial, attempt, step) = (?,?,?)"
        return self._db.execute(query, (call.trial, call.attempt, call.step)).fetchone() is not None

    def _complete(self) -> None:
        if not self._is_complete:
            self._is_complete = True
            self._flush()
            self._db.execute(_INDEX)
            for statement in _LAST.split(";\n"):
                self._db.execute(statement)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _digest_of_result(result: msgspec.Raw) -> bytes | None:
    """Of the text of a reply; None where it has none."""
    try:
        said = _said_decoder.decode(result)
    except _UNKNOWN:
        return None
    return _digest(said.text) if isinstance(said.text, str) else None
