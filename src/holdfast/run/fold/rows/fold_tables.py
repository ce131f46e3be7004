"""The tables of the fold, and how a trial is packed into them."""

import sqlite3
import struct
from itertools import chain

import msgspec

from holdfast.run.fold.rows.trial_row import TrialRow


class SampleOfRow(msgspec.Struct, array_like=True, gc=False):
    """The first fields of a `TrialRow`, as far as its sample and epoch; the rest is skipped, at a third of the time."""

    attempt: int
    session: int
    seq: int
    end: msgspec.Raw
    answered: msgspec.Raw
    steps: int
    sample: str
    epoch: int


SCHEMA = """
CREATE TABLE groups (id INTEGER PRIMARY KEY, task TEXT, model TEXT, axes TEXT, UNIQUE (task, model, axes));
CREATE TABLE scorers (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
CREATE TABLE standings (id INTEGER PRIMARY KEY, group_ INTEGER, status TEXT, reason TEXT, scorers TEXT, failed TEXT,
  hollow INTEGER, trials INTEGER DEFAULT 0, UNIQUE (group_, status, reason, scorers, failed, hollow));
CREATE TABLE trials (key PRIMARY KEY, standing INTEGER, counted INTEGER, answer INTEGER, moment INTEGER, row BLOB,
  places BLOB)
  WITHOUT ROWID;
CREATE TABLE slots (key, scorer INTEGER, attempt INTEGER, value REAL, cached INTEGER,
  session INTEGER, writer INTEGER, seq INTEGER, place INTEGER, state INTEGER, slot_attempt INTEGER,
  PRIMARY KEY (key, scorer, attempt)) WITHOUT ROWID;
CREATE TABLE spent (group_ INTEGER, model TEXT, reused INTEGER, figures TEXT, PRIMARY KEY (group_, model, reused))
  WITHOUT ROWID;
CREATE TABLE sampled (group_ INTEGER, kind TEXT, name TEXT, figure INTEGER, PRIMARY KEY (group_, kind, name))
  WITHOUT ROWID;
CREATE TABLE written (session INTEGER, kind TEXT, records INTEGER, PRIMARY KEY (session, kind)) WITHOUT ROWID;
CREATE TABLE ledger (session INTEGER, group_ INTEGER, kind TEXT, calls INTEGER, PRIMARY KEY (session, group_, kind))
  WITHOUT ROWID;
CREATE TABLE landmarks (kind TEXT, session INTEGER, writer INTEGER, seq INTEGER, place INTEGER,
  segment INTEGER, offset INTEGER, PRIMARY KEY (kind, session, writer, seq, place)) WITHOUT ROWID;
"""
"""`counted` is the attempt whose end counts, below zero if it ended without all of its scores, `answer` the one whose
answer it has, `moment` orders trials as they were written, `places` are where their records lie: for every frame the
number of its segment and its offset. `cached` marks a score that only the end of a trial gives, `state` is one of a
slot. `scorers` have filled their slots, `failed` have used up the attempts of theirs. `figures` are `SpentFigures`,
whole numbers of any size. `sampled` adds up `SamplingFigures`. `written` counts records by session, and of steps and
ends those that are replies, calls without one, and kept; and the requests of calls. `ledger` counts the calls of trials
that repeat others, recorded replies that were not used, replies of other runs, calls that another model answered, and
calls that were given up in flight.
"""
TABLES = ("groups", "scorers", "standings", "trials", "slots", "spent", "sampled", "written", "ledger", "landmarks")
REPLY, UNANSWERED, REQUEST, KEPT = "reply", "unanswered", "request", "kept"
"""What `written` counts beside the types of records."""
_ROWS_AT_A_TIME = 64
_row_encoder = msgspec.msgpack.Encoder()
_row_decoder = msgspec.msgpack.Decoder(TrialRow)
_sample_decoder = msgspec.msgpack.Decoder(SampleOfRow)
_PLACE = struct.Struct(">Q")
_OFFSET_BITS = 40
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1
"""A place is the number of a segment and an offset: 16 million segments, each of a terabyte."""
_KEY_DIGITS = 20


def pack_key(key: str) -> bytes | str:
    """A trial's key as it is stored: as ten bytes, if it is the digest that it usually is."""
    if len(key) != _KEY_DIGITS:
        return key
    try:
        packed = bytes.fromhex(key)
    except ValueError:
        return key
    return packed if packed.hex() == key else key


def unpack_key(stored: bytes | str) -> str:
    return stored.hex() if isinstance(stored, bytes) else stored


def pack_row(row: TrialRow | tuple[object, ...]) -> bytes:
    """The row of a trial, or its fields in their order, to be stored."""
    return _row_encoder.encode(row)


def unpack_row(data: bytes) -> TrialRow:
    """The row of a trial, as it is stored."""
    return _row_decoder.decode(data)


def unpack_sample(data: bytes) -> tuple[str, int]:
    """The sample and the epoch in the row of a trial."""
    row = _sample_decoder.decode(data)
    return row.sample, row.epoch


def pack_place(segment: int, offset: int) -> bytes:
    """Where a frame lies, as it is stored."""
    return _PLACE.pack(segment << _OFFSET_BITS | offset)


def unpack_places(data: bytes) -> list[tuple[int, int]]:
    """Where the records of a trial lie, as it is stored."""
    return [(number >> _OFFSET_BITS, number & _OFFSET_MASK) for (number,) in _PLACE.iter_unpack(data)]


def insert_rows(db: sqlite3.Connection, table: str, rows: list[tuple[object, ...]]) -> None:
    """Writes rows of one length, a good number with each statement.

    After every statement another thread may have its turn: with one a row the threads of a session would do little
    else than take turns.
    """
    if not rows:
        return
    row = f"({','.join('?' * len(rows[0]))})"
    whole = len(rows) // _ROWS_AT_A_TIME * _ROWS_AT_A_TIME
    groups = (rows[first : first + _ROWS_AT_A_TIME] for first in range(0, whole, _ROWS_AT_A_TIME))
    statement = f"INSERT OR REPLACE INTO {table} VALUES "  # noqa: S608 - no value is put into the text
    db.executemany(statement + ",".join([row] * _ROWS_AT_A_TIME), (list(chain(*group)) for group in groups))
    db.executemany(statement + row, rows[whole:])
