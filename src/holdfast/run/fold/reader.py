"""A run open for reading: beside its writer, after a crash, from the bytes that are left.

Opening is recovery. Nothing in the run is changed: if the run's own index matches the journal, it is read in place;
otherwise the reader builds one in its own cache. Everything reported as finished has been synced: the reader syncs the
tail of an unsealed segment itself before it counts it.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import HoldfastError
from holdfast.journal import BlobStore, Damage, DamageKind, Index, Journal, RecordId, SegmentPin
from holdfast.journal.damage import group_by_file
from holdfast.journal.frame import FRAME_BYTES, Frame
from holdfast.journal.index.database import is_sound, publish_index
from holdfast.journal.index.index import read_published
from holdfast.journal.segment import SegmentId
from holdfast.journal.segment_state import unseen_successors
from holdfast.models.message import UNKNOWN_USAGE
from holdfast.run.core.axes.choices import AxisChoice, ChoiceKey, first_choices
from holdfast.run.core.codec import citation, cited_blob, decode, head_of
from holdfast.run.core.layout import Layout, spool_root
from holdfast.run.core.records import (
    REPLY_NOTE,
    AnyRecord,
    AppliedRecord,
    MarkRecord,
    NoteRecord,
    ScoreRecord,
    SessionEndRecord,
    SessionRecord,
    with_applied,
)
from holdfast.run.core.run_id import identify_run, refuse_newer
from holdfast.run.core.task_stops import TaskDecision, newest_decisions
from holdfast.run.fold.acknowledged_frames import is_noted_damage, missing_acknowledged
from holdfast.run.fold.cut import Cut
from holdfast.run.fold.fold_writer import FoldWriter
from holdfast.run.fold.reader_index import ReaderIndex
from holdfast.run.fold.run_fold import FoldedTrial, RunFold
from holdfast.storage.filesystem import FileSystem, RealFileSystem, read_bytes
from holdfast.storage.leases.holder import LeaseHolder
from holdfast.storage.leases.local import find_holder, read_acknowledged

if TYPE_CHECKING:
    from holdfast.storage.leases.remote import PublishedLease

_PIECE_BYTES = 1 << 20
_FRAME_BYTES_KEPT = FRAME_BYTES
"""The largest frame that a session writes: trials that ran together lie in one, and are often read together."""


class LargeRecord(NamedTuple):
    """A record that is too large to be held: its line, a piece at a time."""

    type: str
    size: int
    pieces: Iterator[bytes]


class PlacedLine(NamedTuple):
    """A record as the journal has it: itself, or the citation of a blob."""

    ident: RecordId
    line: bytes


class ReadFrame:
    """A frame that was read, with the places of the records of each trial in it."""

    def __init__(self, frame: Frame, lines: list[bytes]) -> None:
        self.origin, self.size, self.lines = frame.origin, max(frame.header.raw, 1), lines
        self._heads = [head_of(line) for line in lines]
        self._places: dict[str, list[int]] = {}
        for place, (_, key) in enumerate(self._heads):
            self._places.setdefault(key, []).append(place)

    def lines_of(self, key: str, types: tuple[str, ...]) -> list[PlacedLine]:
        """The records of a trial, or those of some types."""
        places = self._places.get(key, ())
        wanted = [place for place in places if not types or self._heads[place][0] in types]
        return [PlacedLine(RecordId(*self.origin, place), self.lines[place]) for place in wanted]


class RunReader:
    """The state of a run, folded from its journal."""

    def __init__(
        self, root: Path, fs: FileSystem | None = None, *, index: Path | None = None, fold: FoldWriter | None = None
    ) -> None:
        """Opens the run in `root`; with `index`, its index is kept up to date at that path, by whoever holds the run.

        With `fold`, everything is folded by that one from the frames alone: nothing that is in an index is believed.

        Raises:
            NotARun: there is no run, or nothing was recorded in it.
            NewerFormat: a newer version wrote it.
        """
        self.layout = Layout(root)
        self.fs = fs or RealFileSystem()
        self.run, self.format = identify_run(self.fs, self.layout)
        self.journal = Journal(self.fs, self.layout.journal, self.run)
        self.blobs = BlobStore(self.fs, self.layout.blobs)
        self.inputs = BlobStore(self.fs, self.layout.inputs)
        self._is_own = index is not None
        """Whether the run is held, if it is, by whoever reads it here."""
        self._reader_index: ReaderIndex | None = None
        self._unsound = False
        """Whether the run's own index exists and is unusable."""
        self.count_notes: list[str] = []
        """What a person should know of what counts here."""
        self._frames: dict[tuple[int, int], ReadFrame] = {}
        self._frame_bytes = 0
        # Before the journal: whoever writes to it comes further meanwhile.
        self._published = read_acknowledged(self.layout.root)
        with contextlib.ExitStack() as undo:
            undo.callback(self._close_reader_index)
            self.index, self._is_published = self._open_index(index, fold)
            undo.callback(self.index.close)
            if not self._is_published:
                self.index.refresh()
            refuse_newer(str(self.layout.root), self.index.newer_format())
            undo.pop_all()

    def _open_index(self, path: Path | None, fold: FoldWriter | None) -> tuple[Index, bool]:
        """The index to use, and whether it is the run's own, which is not to be changed."""
        if fold is not None:
            return Index(self.journal, fold, None), False
        if path is None and (found := read_published(self.journal, FoldWriter(), self.layout.index)):
            return found, True
        self._unsound = self.layout.index.exists() and not is_sound(self.layout.index, self.run, FoldWriter.schema)
        if path is None:
            self._reader_index = ReaderIndex(self.layout, self.run)
            path = self._reader_index.path
        return Index(self.journal, FoldWriter(), path), False

    def index_note(self) -> str:
        """Why the index could not be used as it was found; empty if it could, or if there was none."""
        if self.index.note or self._is_published or not self._unsound:
            return self.index.note
        return "index.sqlite was damaged, or belonged to another run or version"

    def refresh(self, *, again: bool = True) -> None:
        """Reads what was written since the last time; with `again`, what was read before is checked again too.

        Raises:
            NewerFormat: a newer version wrote some of it.
        """
        self._published = read_acknowledged(self.layout.root)
        if self._is_published and not self.index.is_current():
            self.index.close()
            self._reader_index = ReaderIndex(self.layout, self.run)
            self.index, self._is_published = Index(self.journal, FoldWriter(), self._reader_index.path), False
        if not self._is_published:
            self.index.refresh(again=again)
        refuse_newer(str(self.layout.root), self.index.newer_format())
        self.forget()

    def forget(self) -> None:
        """Drops answers that were computed before the index changed."""
        self._frames.clear()
        self._frame_bytes = 0
        for name in (
            "sessions",
            "_session_parts",
            "ends",
            "fold",
            "holder",
            "published",
            "_has_losses",
            "not_uploaded_yet",
        ):
            self.__dict__.pop(name, None)

    def close(self) -> None:
        self.index.close()
        self._close_reader_index()

    def _close_reader_index(self) -> None:
        if self._reader_index is not None:
            self._reader_index.close()

    # Records.

    def stream(self, found: list[Damage], *types: str) -> Iterator[tuple[RecordId, bytes]]:
        """Every record, or those of some types, as its line, in order, blobs put in; damage is added to `found`."""
        for ident, line in self.journal.stream(found, tuple(f'{{"type":"{name}"'.encode() for name in types)):
            if cited := cited_blob(line):
                damage = self.blobs.check(*cited)
                if damage is not None:
                    found.append(damage)
                else:
                    yield ident, self.read_blob(cited[0])
            else:
                yield ident, line

    def pieces(self, found: list[Damage]) -> Iterator[tuple[RecordId, Iterator[bytes]]]:
        """As `stream`, each line in pieces: however long a record is, little of it is in memory."""
        for ident, line in self.journal.stream(found):
            if (cited := cited_blob(line)) is None:
                yield ident, iter((line,))
            elif (damage := self.blobs.check(*cited)) is not None:
                found.append(damage)
            else:
                yield ident, self._blob_pieces(cited[0])

    def _blob_pieces(self, digest: str) -> Iterator[bytes]:
        file = self.fs.open(self.blobs.path(digest))
        try:
            offset = 0
            while part := file.read_at(offset, _PIECE_BYTES):
                yield part
                offset += len(part)
        finally:
            file.close()

    def read_blob(self, digest: str) -> bytes:
        return read_bytes(self.fs, self.blobs.path(digest))

    def read(self, line: bytes) -> AnyRecord | None:
        """The record in a line of the journal; None if it is of an unknown type, or its blob is gone or damaged."""
        cited = cited_blob(line)
        if cited is None:
            return decode(line)
        return decode(self.read_blob(cited[0])) if self.blobs.check(*cited) is None else None

    def read_or_open(self, line: bytes) -> AnyRecord | LargeRecord | None:
        """As `read`, except that a record which is stored as a blob is given in pieces."""
        if (cited := citation(line)) is None:
            return decode(line)
        if self.blobs.check(cited.blob, cited.size) is not None:
            return None
        return LargeRecord(cited.type, cited.size, self._blob_pieces(cited.blob))

    def lines_of(self, trial: FoldedTrial | None, *types: str) -> list[PlacedLine]:
        """Every record of a trial, or those of some types, in the order of the run."""
        if trial is None:
            return []
        found: list[PlacedLine] = []
        for segment, offset in trial.places:
            frame = self._frame_at(segment, offset)
            found += frame.lines_of(trial.key, types) if frame is not None else []
        return sorted(found)

    def records_of(self, key: str, *types: str) -> list[AnyRecord]:
        """The same as records; those that cannot be read are left out."""
        records = (self.read(placed.line) for placed in self.lines_of(self.fold.find(key), *types))
        return [record for record in records if record is not None]

    def scores_that_count(self, key: str) -> list[ScoreRecord]:
        """The records that fill the score slots of a trial and count, under the names that people know."""
        trial, counting = self.fold.find(key), set(self.fold.slot_ids(key))
        lines = [item.line for item in self.lines_of(trial, "score") if item.ident in counting]
        records = [record for record in map(self.read, lines) if isinstance(record, ScoreRecord)]
        return [self.fold.titled(trial, record) for record in records] if trial is not None else records

    def _frame_at(self, number: int, offset: int) -> ReadFrame | None:
        """The frame at a place that the index knows; None if it is missing."""
        found = self._frames.get((number, offset))
        if found is None:
            ident = self.index.find_segment(number)
            segment = self.journal.find(ident) if ident else None
            frame = self.journal.read_frame(segment, offset) if segment else None
            if frame is None:
                return None
            found = ReadFrame(frame, self.journal.records(frame))
            self._keep_frame((number, offset), found)
        return found

    def _keep_frame(self, place: tuple[int, int], found: ReadFrame) -> None:
        """Keeps a frame at hand: records of trials that ran together lie together."""
        if found.size > _FRAME_BYTES_KEPT:
            return
        self._frames[place] = found
        self._frame_bytes += found.size
        while self._frame_bytes > _FRAME_BYTES_KEPT:
            self._frame_bytes -= self._frames.pop(next(iter(self._frames))).size

    def _landmarks(self, kind: str) -> Iterator[tuple[RecordId, AnyRecord | None]]:
        """The records of a kind that belongs to no trial, in order."""
        query = (
            "SELECT session, writer, seq, place, segment, offset FROM landmarks WHERE kind = ?"
            " ORDER BY session, writer, seq, place"
        )
        for *parts, segment, offset in list(self.index.query(query, (kind,))):
            ident = RecordId(*parts)
            frame = self._frame_at(segment, offset)
            # Another segment may have taken the name of the one that was indexed.
            if frame is not None and frame.origin == ident[:3] and ident.place < len(frame.lines):
                yield ident, self.read(frame.lines[ident.place])

    # State.

    @cached_property
    def fold(self) -> RunFold:
        """The states of the trials."""
        return RunFold(
            self.index.query,
            self.sessions,
            working=self._working_session(),
            unmetered=self.unmetered_models,
            decisions=self.fail_fast_decisions,
            choices=self.axis_choices,
        )

    def folded_again(self, cut: Cut | None = None) -> RunReader:
        """The same run, folded from its frames alone, up to a cut; to be closed."""
        again = RunReader(self.layout.root, self.fs, fold=FoldWriter(cut))
        again._is_own = self._is_own
        return again

    def _working_session(self) -> int | None:
        """The session that another process is executing now."""
        newest = self.sessions[-1].number if self.sessions else None
        is_over = any(end.number == newest for end in self.ends)
        return newest if newest and not is_over and not self._is_own and self.holder is not None else None

    @cached_property
    def holder(self) -> LeaseHolder | None:
        """Who executes the run: known for certain on this machine, and from its heartbeat elsewhere; for display."""
        root = spool_root(self.url) if self.url else self.layout.root
        holder = find_holder(self.fs, root) if root.is_dir() else None
        if holder is None and self.published is not None and self.published.is_current():
            return self.published.holder
        return holder

    @cached_property
    def published(self) -> PublishedLease | None:
        """What the holder of a run in a store last published; the store may not answer."""
        if not self.url:
            return None
        # Most runs are not in a store.
        from holdfast.storage.leases.remote import find_published_lease  # noqa: PLC0415
        from holdfast.storage.object_store import ObjectStore  # noqa: PLC0415

        try:
            return find_published_lease(ObjectStore(self.url))
        except HoldfastError:
            return None

    @cached_property
    def sessions(self) -> list[SessionRecord]:
        """Every session's record, in order, with what the session has applied since it began."""
        return with_applied(*self._session_parts)

    @cached_property
    def _session_parts(self) -> tuple[list[SessionRecord], list[tuple[int, AppliedRecord]]]:
        """The records of sessions as they began, and what each has applied later."""
        sessions = [record for _, record in self._landmarks("session") if isinstance(record, SessionRecord)]
        found = ((ident.session, record) for ident, record in self._landmarks("applied"))
        return sessions, [(number, record) for number, record in found if isinstance(record, AppliedRecord)]

    def sessions_before(self) -> Iterator[list[SessionRecord]]:
        """The records as they were before the newest session applied its changes, one by one."""
        sessions, applied = self._session_parts
        for count, (number, _) in enumerate(applied):
            if number == sessions[-1].number:
                yield with_applied(sessions, applied[:count])

    @cached_property
    def ends(self) -> list[SessionEndRecord]:
        """The records of the sessions that ended in an orderly way."""
        return [record for _, record in self._landmarks("session_end") if isinstance(record, SessionEndRecord)]

    def notes(self) -> Iterator[tuple[int, NoteRecord]]:
        """The notes that concern no single trial, with the session that made each."""
        for ident, record in self._landmarks("note"):
            if isinstance(record, NoteRecord):
                yield ident.session, record

    def fail_fast_decisions(self) -> dict[str, TaskDecision]:
        """The newest decision of `fail_fast` about every task of which there is one."""
        return newest_decisions(note for _, note in self.notes())

    def axis_choices(self) -> dict[ChoiceKey, AxisChoice]:
        """The values that were chosen for those which depend on others."""
        return first_choices(note for _, note in self.notes())

    def unmetered_models(self) -> set[str]:
        """The models that have given a reply whose usage is unknown."""
        found = (note.data for _, note in self.notes() if note.kind == REPLY_NOTE and isinstance(note.data, dict))
        return {str(data.get("model")) for data in found if data.get("about") == UNKNOWN_USAGE}

    def marks(self) -> dict[int, int]:
        """By session, how many calls were in flight at most; those without a mark are not in it."""
        highest: dict[tuple[int, int], int] = {}
        for kind in ("session", "mark"):
            for ident, record in self._landmarks(kind):
                calls = record.calls if isinstance(record, MarkRecord) else getattr(record, "mark", 0)
                writer = ident.session, ident.writer
                highest[writer] = max(highest.get(writer, 0), calls)
        found: Counter[int] = Counter()
        for (session, _), calls in highest.items():
            found[session] += calls
        return dict(+found)

    def pins(self) -> list[SegmentPin]:
        """What later records saw of earlier segments."""
        return [pin for record in self.sessions for pin in record.pins] + [
            pin for record in self.ends for pin in record.pins
        ]

    def damage(self) -> list[Damage]:
        """Everything that is not as it was written, torn tails included; without losses that were noted."""
        return [item for item in self._all_damage() if not self._is_noted(item)]

    def noted_damage(self) -> list[Damage]:
        """Losses that were made good by later work, and that a repair has noted since."""
        gone = [
            Damage(DamageKind.MISSING, f"journal/{ident.filename(sealed=True)}", "the segment is missing")
            for ident in self.lost()
            if self.journal.find(ident) is None
        ]
        return gone + [item for item in self._all_damage() if self._is_noted(item)]

    def _all_damage(self) -> list[Damage]:
        found = self.damage_by(self.index.damage(self.pins(), self.lost()))
        awaited = {f"journal/{ident.filename(sealed=True)}" for ident in self.not_uploaded_yet}
        return [item for item in found if item.kind is not DamageKind.MISSING or item.where not in awaited]

    @cached_property
    def not_uploaded_yet(self) -> list[SegmentId]:
        """In a run in a store that is being executed: the newest segments of its session, which are not there yet."""
        if not self.url or self._is_own or self.layout.root == spool_root(self.url):
            return []
        found = unseen_successors(self.index.states(), self.pins())
        if not found or self.published is None or not self.published.is_current():
            return []
        return [ident for ident in found if ident.session == self.published.session]

    def _is_noted(self, item: Damage) -> bool:
        return is_noted_damage(item, self.index.states(), self.sessions)

    def damage_by(self, found: list[Damage]) -> list[Damage]:
        """The same findings, and what the lease of a killed session names that none of them does."""
        missing = missing_acknowledged(self._published, self.index.states(), self.lost())
        is_known = missing is None or any(item.where == _sealed_name(missing[1].where) for item in found)
        return found if missing is None or is_known else group_by_file(found, [missing[1]])

    def lost_by_kill(self) -> list[SegmentId]:
        """The newest segment of a session that was killed, where it is missing; only its lease names it."""
        missing = missing_acknowledged(self._published, self.index.states(), self.lost())
        return [missing[0]] if missing is not None and missing[1].kind is DamageKind.MISSING else []

    def transcripts_lost(self) -> int:
        """How many trials have their scores and have lost records behind them.

        Where nothing of the journal is damaged or missing, such records were deleted on purpose.
        """
        hollow = self.fold.hollow
        return hollow if hollow and self.has_losses() else 0

    def has_losses(self) -> bool:
        """Whether anything that was written is missing."""
        return self._has_losses

    @cached_property
    def _has_losses(self) -> bool:
        return bool(self.lost()) or any(item.is_loss for item in self._all_damage())

    def may_be_deleted(self) -> bool:
        """Whether deleting the run loses no result: nothing was ever answered in it, and nobody executes it."""
        return not self.fold.has_results and not self.has_losses() and self.holder is None

    def lost(self) -> dict[SegmentId, int]:
        """Segments that were lost with their machine, and the session that noted it."""
        return {ident: record.number for record in reversed(self.sessions) for ident in record.lost}

    def never_uploaded(self) -> list[SegmentId]:
        """In a run that was downloaded since its last session: the segments that never reached the store."""
        if not self.layout.recovered.exists():
            return []
        pins = [*self.pins(), *self.index.gone()]
        return [ident for ident in unseen_successors(self.index.states(), pins) if ident not in self.lost()]

    @property
    def place(self) -> str:
        """How a person names the run: by its URL if it is in a store."""
        return self.url or str(self.layout.root)

    @property
    def config_name(self) -> str:
        """How a person names the configuration of the run."""
        return f"{self.url}/{self.layout.config.name}" if self.url else str(self.layout.config)

    @cached_property
    def url(self) -> str:
        """Where the run is in an object store; empty for any other."""
        try:
            return self.layout.read_url()
        except OSError:
            # A reader needs the URL only to name the run.
            return ""

    def last_written_at(self) -> str:
        """When the journal last grew, by the clock of its filesystem; for people."""
        times = [segment.path.stat().st_mtime for segment in self.journal.segments() if segment.path.exists()]
        return datetime.fromtimestamp(max(times), UTC).isoformat(timespec="seconds") if times else ""


def chosen_values(reader: RunReader, task: str) -> dict[ChoiceKey, str]:
    """The values that were chosen for those of a task which depend on others."""
    return {key: choice.chosen for key, choice in reader.axis_choices().items() if choice.task == task}


def _sealed_name(where: str) -> str:
    """How a missing segment is named by those that vouch for it."""
    return where.replace(".open.", ".")


def write_index(layout: Layout, fs: FileSystem) -> None:
    """Builds the index of a run, which the caller holds, and publishes it.

    Raises:
        OSError: it could not be put in its place.
    """
    RunReader(layout.root, fs, index=layout.index_in_use).close()
    publish_index(layout.index_in_use, layout.index)
