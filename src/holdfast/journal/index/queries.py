"""What an index can be asked: which segments, records and keys a run holds, and what is wrong with its journal.

The answers are those of the last refresh. Each record counts once, wherever it was written again, and everything
comes in the order of the run.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from holdfast.errors import StorageFailure
from holdfast.journal.damage import Damage
from holdfast.journal.frame import RecordId
from holdfast.journal.index.database import IndexFile
from holdfast.journal.segment import SegmentId, SegmentPin
from holdfast.journal.segment_state import SegmentState, cross_check

_PAGE_KEYS = 10_000
STATE = (
    "session, writer, number, where_, named_sealed, sealed, successor,"
    " frames, records, first_seq, last_seq, last_digest, lost"
)
"""The columns that `state_from` makes a segment's state of."""
damage_decoder = msgspec.json.Decoder(list[Damage])


class IndexRow(NamedTuple):
    """One record in the index: its identity, and where to read it."""

    kind: str
    key: str
    ident: RecordId
    segment: SegmentId
    offset: int
    flag: int
    data: bytes | None


class Answers(IndexFile):
    """An index, to be asked."""

    def _ask(self, query: str, values: Iterable[object] = ()) -> Iterator[tuple[Any, ...]]:
        """What the tables say.

        Raises:
            StorageFailure: the file was spoilt since it was opened; whoever opens it next builds it anew.
        """
        try:
            yield from self._db.execute(query, tuple(values))
        except sqlite3.DatabaseError as error:
            raise StorageFailure(
                f"The index {self._path or 'in a temporary file'} broke while it was in use: {error}.",
                hint="The journal is intact; do it again, and the index is built anew.",
            ) from error

    # Asking.

    def states(self) -> list[SegmentState]:
        """Every segment that is there, in order."""
        query = f"SELECT {STATE} FROM segments WHERE NOT gone ORDER BY session, writer, number"  # noqa: S608
        return [state_from(row) for row in self._ask(query)]

    def gone(self) -> list[SegmentPin]:
        """Segments that were indexed once and are there no more.

        Not the empty ones: the name of a segment that nothing was written to yet may vanish with the power.
        """
        query = (
            "SELECT session, writer, number, frames, lower(hex(last_digest)), sealed FROM segments"
            " WHERE gone AND (frames OR lost)"
        )
        return [SegmentPin._make((*row[:5], bool(row[5]))) for row in self._ask(query)]

    def damage(self, pins: Iterable[SegmentPin], lost: Iterable[SegmentId] = ()) -> list[Damage]:
        """Everything that is wrong with the journal, given the pins and the losses that its records hold."""
        found: list[Damage] = []
        for (blob,) in self._ask("SELECT damage FROM segments WHERE NOT gone ORDER BY session, writer, number"):
            found += damage_decoder.decode(blob)
        return self.name_missed(found + cross_check(self.states(), [*pins, *self.gone()], lost))

    def name_missed(self, damage: Iterable[Damage]) -> list[Damage]:
        """The same findings; one that names no key names those whose records were there at an earlier look."""
        query = "SELECT session, writer, number, missed FROM segments WHERE missed != '[]'"
        missed: dict[str, tuple[str, ...]] = {}
        for *ident, keys in self._ask(query):
            for sealed in (True, False):
                missed[f"journal/{SegmentId(*ident).filename(sealed=sealed)}"] = tuple(msgspec.json.decode(keys))
        return [
            msgspec.structs.replace(item, keys=missed[item.where])
            if item.is_loss and not item.keys and item.where in missed
            else item
            for item in damage
        ]

    def newer_format(self) -> int:
        """The newest format met that this version cannot read; 0 if it can read all."""
        return int(next(self._ask("SELECT coalesce(max(newer_format), 0) FROM segments"))[0])

    def rows(self, kind: str, key: str | None = None) -> Iterator[IndexRow]:
        """The records of a kind (and key) in the order of the run; each record once, wherever it was written again."""
        where, values = ("kind = ?", [kind]) if key is None else ("kind = ? AND key = ?", [kind, key])
        order = "r.session, r.writer, r.seq, r.idx" if key is not None else "r.key, r.session, r.writer, r.seq, r.idx"
        query = (
            "SELECT r.kind, r.key, r.session, r.writer, r.seq, r.idx,"  # noqa: S608 - no value is put into the text
            " s.session, s.writer, s.number, r.offset, r.flag, r.data"
            f" FROM records r JOIN segments s ON s.id = r.segment WHERE {where} ORDER BY {order}"
        )
        last: RecordId | None = None
        for row in self._ask(query, values):
            ident = RecordId(*row[2:6])
            if ident != last:
                yield IndexRow(row[0], row[1], ident, SegmentId(*row[6:9]), *row[9:])
            last = ident

    def keys(self, kind: str, flag: int) -> Iterator[str]:
        """The keys that have a record of this kind with this flag, sorted; each once."""
        last, beyond = "", ">="
        while page := self._page_of_keys(kind, flag, last, beyond):
            yield from page
            last, beyond = page[-1], ">"

    def _page_of_keys(self, kind: str, flag: int, last: str, beyond: str) -> list[str]:
        keys = f"SELECT DISTINCT key FROM records WHERE kind = ? AND flag = ? AND key {beyond} ? ORDER BY key LIMIT ?"  # noqa: S608
        values = (kind, flag, last, _PAGE_KEYS)
        # One long text is handed over far sooner than many short ones.
        joined = f"SELECT count(*), group_concat(key, char(10)) FROM ({keys})"  # noqa: S608
        count, text = next(self._ask(joined, values))
        page: list[str] = text.split("\n") if count else []
        # A key may be anything, also a text of several lines.
        return page if len(page) == count else [key for (key,) in self._ask(keys, values)]

    def count_keys(self, kind: str, flag: int) -> int:
        """How many keys have a record of this kind with this flag."""
        query = "SELECT count(DISTINCT key) FROM records WHERE kind = ? AND flag = ?"
        return int(next(self._ask(query, (kind, flag)))[0])

    def open_keys(self) -> Iterator[str]:
        """The keys that have records, but none that closes them."""
        return (key for (key,) in self._ask("SELECT key FROM open"))

    def counts(self) -> dict[str, int]:
        """How many records of each kind, each counted once."""
        query = (
            "SELECT kind, count(*) FROM (SELECT DISTINCT kind, session, writer, seq, idx FROM records) GROUP BY kind"
        )
        return dict(self._ask(query))

    def counts_by_session(self, kind: str, flag: int) -> dict[int, int]:
        """How many records of this kind and flag each session wrote first."""
        query = (
            "SELECT session, count(*) FROM (SELECT DISTINCT session, writer, seq, idx FROM records"
            " WHERE kind = ? AND flag = ?) GROUP BY session"
        )
        return dict(self._ask(query, (kind, flag)))


def state_from(row: tuple[object, ...]) -> SegmentState:
    """The state of a segment, given its columns."""
    values = list(row[3:13])
    for place in (1, 2, 3, 9):
        values[place] = bool(values[place])
    return SegmentState(SegmentId(*row[:3]), *values)  # type: ignore[arg-type]
