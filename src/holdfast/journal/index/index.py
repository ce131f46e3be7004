"""The index: the segments of a run and a fold of their records, so that they need not all be read.

It is kept in SQLite, and is only a cache: it may be deleted, cut or come from another run at any time, and is then
built again with the same answers. The answers are those of the last refresh. Each frame counts once, wherever it was
rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.errors import StorageFailure
from holdfast.journal.damage import Damage, group_by_file
from holdfast.journal.frame import Frame
from holdfast.journal.index.builder import Fold, IndexBuilder, damage_decoder
from holdfast.journal.index.database import (
    INDEX_ERRORS,
    STATE_COLUMNS,
    IndexDatabase,
    open_published,
    state_from_row,
)
from holdfast.journal.reader import Journal, SegmentFile
from holdfast.journal.segment import FrameCopy, SegmentId, SegmentPin
from holdfast.journal.segment_state import SegmentState, cross_check


class DoubtfulFrame(NamedTuple):
    """The last whole frame of an unsealed segment: written, perhaps never synced, and not yet rewritten."""

    segment: SegmentFile
    frame: Frame
    keys: list[str]

    @property
    def copy(self) -> FrameCopy:
        """What is to be rewritten."""
        return FrameCopy(self.frame.header, self.frame.payload, self.keys)


class Index:
    """The index of one run. Not for use from two threads at once."""

    def __init__(self, journal: Journal, fold: Fold, path: Path | None, published: IndexDatabase | None = None) -> None:
        """Opens the index at `path`, or begins a new one there; None keeps it in a temporary file of this process."""
        self._journal, self._fold = journal, fold
        self._database = published or IndexDatabase(path, journal.run, fold.schema)
        self._builder = IndexBuilder(self._database, journal, fold)
        self.query, self.failures = self._database.query, self._database.failures

    def is_current(self) -> bool:
        """Whether the answers are those of the journal as it is now."""
        try:
            return self._builder.is_current()
        except (*INDEX_ERRORS, OSError):
            return False

    def find_segment(self, number: int) -> SegmentId | None:
        """The segment that has this number in the index."""
        row = next(self.query("SELECT session, writer, number FROM segments WHERE id = ?", (number,)), None)
        return SegmentId(*row) if row else None

    @property
    def path(self) -> Path | None:
        """Its file; None while it is in a temporary file of this process."""
        return self._database.path

    @property
    def note(self) -> str:
        """Why the index was rebuilt, if it was."""
        return self._database.note

    def refresh(self, *, settle: bool = True, again: bool = True, growing: bool = False) -> None:
        """Brings the answers up to the journal as it is now.

        With `settle`, what is counted is synced first. Without `again`, bytes that were found unchanged before are not
        looked at another time. A `growing` index is refreshed again soon: nobody vouches for its file until then.
        """
        self._builder.refresh(settle=settle, again=again)
        if not growing:
            self._database.vouch()

    def publish_copy(self, published: Path) -> None:
        """Publishes a copy of an index that is still growing, if it has become a good deal larger."""
        self._database.publish_copy(published)

    def close(self) -> None:
        """Closes the index; doing so again does nothing."""
        self._database.close()

    def states(self) -> list[SegmentState]:
        """Every segment that is there, in order."""
        query = f"SELECT {STATE_COLUMNS} FROM segments WHERE NOT gone ORDER BY session, writer, number"  # noqa: S608
        return [state_from_row(row) for row in self._database.query(query)]

    def gone(self) -> list[SegmentPin]:
        """Segments that were indexed once and no longer exist.

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
        # Not what the index once saw: with it and without it the verdict is the same.
        return self.name_missed(group_by_file(found, cross_check(self.states(), pins, lost)))

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

    def doubtful(self) -> list[DoubtfulFrame]:
        """The frames that an executing session must write again before it may count them.

        Raises:
            StorageFailure: a segment is missing that was there at the last refresh.
        """
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
            if (segment := files.get(SegmentId(*ident))) is None:
                where = self._journal.directory / SegmentId(*ident).filename(sealed=False)
                raise StorageFailure(f"The segment {where} was deleted while it was being read.")
            if frame := self._journal.read_frame(segment, offset):
                found.append(DoubtfulFrame(segment, frame, self._fold.keys(self._journal.records(frame))))
        return found

    def _is_copied(self, origin: tuple[int, ...], session: int) -> bool:
        query = "SELECT 1 FROM copies WHERE (session, writer, seq) = (?, ?, ?) AND by_session > ?"
        return next(self._database.query(query, (*origin, session)), None) is not None


def read_published(journal: Journal, fold: Fold, path: Path) -> Index | None:
    """The index at `path`, in place, if it is that of the journal as it is now; it is never changed."""
    database = open_published(path, journal.run, fold.schema)
    if database is None:
        return None
    index = Index(journal, fold, path, database)
    if index.is_current():
        return index
    index.close()
    return None
