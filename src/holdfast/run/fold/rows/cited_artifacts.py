"""The files in `artifacts` that the ends of trials cite, each with the digest of its content.

Only the end that counts speaks for a trial: a later attempt may have replaced a file that an earlier one has cited.
Which end that is, the fold says. Memory does not grow with the run.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from holdfast.journal import RecordId
from holdfast.run.core.codec import decode
from holdfast.run.core.records import TrialRecord
from holdfast.run.fold.rows.fold_tables import pack_key, unpack_key
from holdfast.run.fold.rows.trial_row import DecidingEnd

CITED_SCHEMA = """CREATE TABLE cited (key, session INTEGER, writer INTEGER, seq INTEGER, place INTEGER, name TEXT,
  digest TEXT, PRIMARY KEY (key, session, writer, seq, place, name)) WITHOUT ROWID;
"""
_ARTIFACTS = b'"artifacts":{'
_ROWS = "SELECT key, session, writer, seq, place, name, digest FROM cited ORDER BY key"


class CitedArtifacts:
    """The citations in one database."""

    def __init__(self, db: sqlite3.Connection) -> None:
        """`db` has the table of `CITED_SCHEMA`."""
        self._db = db

    def add(self, line: bytes, ident: RecordId) -> None:
        """Takes note of what a record cites, if it is the end of an attempt."""
        if _ARTIFACTS not in line or not isinstance(record := decode(line), TrialRecord):
            return
        rows = [(pack_key(record.trial), *ident, name, digest) for name, digest in record.artifacts.items()]
        self._db.executemany("INSERT OR REPLACE INTO cited VALUES (?,?,?,?,?,?,?)", rows)

    def every(self) -> Iterator[tuple[str, str]]:
        """What any end cites, also that of an attempt which does not count; a name may have several digests."""
        for packed, name, digest in self._db.execute("SELECT DISTINCT key, name, digest FROM cited ORDER BY key"):
            yield f"{unpack_key(packed)}/{name}", digest

    def counting(self, end_of: Callable[[str], DecidingEnd | None]) -> Iterator[tuple[str, str]]:
        """What the ends that count cite: names relative to `artifacts`, with their digests; `end_of` knows those."""
        rows: Iterable[tuple[Any, ...]] = self._db.execute(_ROWS)
        for packed, cited in groupby(rows, itemgetter(0)):
            key = unpack_key(packed)
            end = end_of(key)
            place = RecordId(end.session, *end.order) if end is not None else None
            yield from ((f"{key}/{name}", digest) for _, *ident, name, digest in cited if tuple(ident) == place)
