"""The index: which records a run holds and where, so that nobody has to read them all to find one.

It is a fold over the journal kept in SQLite, and nothing but a cache: it may be deleted, cut or come from another run
at any time, and is then built again with the same answers. The answers are those of the last refresh. Each record
counts once, wherever it was written again, and everything comes in the order of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.journal.damage import Damage
from holdfast.journal.frame import Frame, RecordId
from holdfast.journal.index.builder import Classify, IndexBuilder, damage_decoder
from holdfast.journal.index.database import STATE_COLUMNS, ClosingRule, IndexDatabase, state_from_row
from holdfast.journal.reader import Journal, SegmentFile
from holdfast.journal.segment import SegmentId, SegmentPin
from holdfast.journal.segment_state import SegmentState, cross_check

_PAGE_KEYS = 10_000


class IndexRow(NamedTuple):
    """One record in the index: its identity, and where to read it."""

    kind: str
    key: str
    ident: RecordId
    segment: SegmentId
    offset: int
    flag: int
    data: bytes | None


class DoubtfulFrame(NamedTuple):
    """The last whole frame of an unsealed segment: written, perhaps never synced, and not yet written again."""

    segment: SegmentFile
    frame: Frame
    keys: list[str]


class Index:
    """The index of one run. Not for use from two threads at once."""

    def __init__(self, journal: Journal, classify: Classify, path: Path | None, closing: ClosingRule) -> None:
        """Opens the index at `path`, or begins a new one there; None keeps it in a temporary file of this process."""
        self._journal, self._classify = journal, classify
        self._database = IndexDatabase(path, journal.run, closing)
        self._builder = IndexBuilder(self._database, journal, classify, closing)
        self.failures = self._database.failures

    @property
    def note(self) -> str:
        """Why the index was built anew, if it was."""
        return self._database.note

    def refresh(self, *, settle: bool = True, again: bool = True) -> None:
        """Brings the answers up to the journal as it is now.

        With `settle`, what is counted is synced first. Without `again`, bytes that were found unchanged before are not
        looked at another time.
        """
        self._builder.refresh(settle=settle, again=again)

    def close(self) -> None:
        """Closes the index; doing so again does nothing."""
        self._database.close()

    def states(self) -> list[SegmentState]:
        """Every segment that is there, in order."""
        query = f"SELECT {STATE_COLUMNS} FROM segments WHERE NOT gone ORDER BY session, writer, number"  # noqa: S608
        return [state_from_row(row) for row in self._database.query(query)]

    def gone(self) -> list[SegmentPin]:
        """Segments that were indexed once and are there no more.

        Not the empty ones: the name of a segment that nothing was written to yet may vanish with the power.
        """
        query = (
            "SELECT session, writer, number, frames, lower(hex(last_digest)), sealed FROM segments"
            " WHERE gone AND (frames OR lost)"
        )
        return [SegmentPin._make((*row[:5], bool(row[5]))) for row in self._database.query(query)]

    def damage(self, pins: Iterable[SegmentPin], lost: Iterable[SegmentId] = ()) -> list[Damage]:
        """Everything that is wrong with the journal, given the pins and the losses that its records hold."""
        found: list[Damage] = []
        for (blob,) in self._database.query(
            "SELECT damage FROM segments WHERE NOT gone ORDER BY session, writer, number"
        ):
            found += damage_decoder.decode(blob)
        return self.name_missed(found + cross_check(self.states(), [*pins, *self.gone()], lost))

    def name_missed(self, damage: Iterable[Damage]) -> list[Damage]:
        """The same findings; one that names no key names those whose records were there at an earlier look."""
        query = "SELECT session, writer, number, missed FROM segments WHERE missed != '[]'"
        missed: dict[str, tuple[str, ...]] = {}
        for *ident, keys in self._database.query(query):
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
        return int(next(self._database.query("SELECT coalesce(max(newer_format), 0) FROM segments"))[0])

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
        for row in self._database.query(query, values):
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
        count, text = next(self._database.query(joined, values))
        page: list[str] = text.split("\n") if count else []
        # A key may be anything, also a text of several lines.
        return page if len(page) == count else [key for (key,) in self._database.query(keys, values)]

    def count_keys(self, kind: str, flag: int) -> int:
        """How many keys have a record of this kind with this flag."""
        query = "SELECT count(DISTINCT key) FROM records WHERE kind = ? AND flag = ?"
        return int(next(self._database.query(query, (kind, flag)))[0])

    def open_keys(self) -> Iterator[str]:
        """The keys that have records, but none that closes them."""
        return (key for (key,) in self._database.query("SELECT key FROM open"))

    def counts(self) -> dict[str, int]:
        """How many records of each kind, each counted once."""
        query = (
            "SELECT kind, count(*) FROM (SELECT DISTINCT kind, session, writer, seq, idx FROM records) GROUP BY kind"
        )
        return dict(self._database.query(query))

    def counts_by_session(self, kind: str, flag: int) -> dict[int, int]:
        """How many records of this kind and flag each session wrote first."""
        query = (
            "SELECT session, count(*) FROM (SELECT DISTINCT session, writer, seq, idx FROM records"
            " WHERE kind = ? AND flag = ?) GROUP BY session"
        )
        return dict(self._database.query(query, (kind, flag)))

    def doubtful(self) -> list[DoubtfulFrame]:
        """The frames that an executing session must write again before it may count them."""
        files = {segment.ident: segment for segment in self._journal.segments()}
        query = (
            "SELECT session, writer, number, last_offset, last_origin FROM segments"
            " WHERE NOT gone AND NOT sealed AND last_offset IS NOT NULL ORDER BY session, writer, number"
        )
        found: list[DoubtfulFrame] = []
        for *ident, offset, origin in list(self._database.query(query)):
            key = tuple(int(part) for part in origin.split(","))
            if self._is_copied(key, ident[0]):
                continue
            segment = files[SegmentId(*ident)]
            if frame := self._journal.read_frame(segment, offset):
                found.append(DoubtfulFrame(segment, frame, self._frame_keys(frame)))
        return found

    def _is_copied(self, origin: tuple[int, ...], session: int) -> bool:
        query = "SELECT 1 FROM copies WHERE (session, writer, seq) = (?, ?, ?) AND by_session > ?"
        return next(self._database.query(query, (*origin, session)), None) is not None

    def _frame_keys(self, frame: Frame) -> list[str]:
        entries = (self._classify(line) for line in self._journal.records(frame))
        return [entry.key for entry in entries if entry and entry.key]
