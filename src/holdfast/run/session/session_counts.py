"""The states of the trials of a run, as far as the session that executes it may say."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from holdfast.errors import NotARun, StorageFailure
from holdfast.journal import RecordId, SegmentId, SegmentPin
from holdfast.journal.index.database import INDEX_ERRORS
from holdfast.journal.index.index import DoubtfulFrame
from holdfast.run.core.records import ScoreRecord, Status, TrialRecord
from holdfast.run.fold.cut import Cut
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.run_fold import FoldedTrial
from holdfast.run.fold.states import State, StateCounts
from holdfast.run.session.index_feed import IndexFeed
from holdfast.run.session.store_copy import SegmentUploader

T = TypeVar("T")


class LeftByWriters(NamedTuple):
    """The segments of other writers of a session, and the frames in them that may never have been synced."""

    pins: list[SegmentPin]
    doubtful: list[DoubtfulFrame]


class SessionCounts:
    """Counts of trials for one session, by what is durable; where the store decides, by what is there."""

    def __init__(self, reader: RunReader, feed: IndexFeed, session: int) -> None:
        self._reader, self._feed, self._session = reader, feed, session
        self._uploader: SegmentUploader | None = None

    def count_when_uploaded(self, uploader: SegmentUploader) -> None:
        """From now on a trial counts only once its segment is in the store."""
        self._uploader = uploader

    def now(self) -> StateCounts:
        """The states of the trials by what is durable now.

        Raises:
            StorageFailure: what was written cannot be read.
        """
        return self._ask_fold(self._counts_in)

    def finished_among(self, is_wanted: Callable[[bytes], bool]) -> int:
        """How many of these trials are valid or limited, and count.

        Raises:
            StorageFailure: what was written cannot be read.
        """
        return self._ask_fold(lambda reader: self._finished_among(reader, is_wanted))

    def acknowledged(self, writer: int, seq: int) -> StateCounts:
        """The states of the trials by what was acknowledged, once this writer has acknowledged its last frame, `seq`.

        Of other writers of the session everything counts that is in the journal: only they know what they have
        acknowledged, and that is no more.

        Raises:
            StorageFailure: it cannot be read.
        """
        return self._ask_again(self._counts_in, Cut(self._session, confirmed={(self._session, writer): seq}))

    def left_by_others(self, own: int) -> LeftByWriters:
        """What the other writers of the session have left, once none of them writes any more.

        Raises:
            StorageFailure: it cannot be read.
        """

        def is_other(ident: SegmentId) -> bool:
            return ident.session == self._session and ident.writer != own

        def left_in(reader: RunReader) -> LeftByWriters:
            index = reader.index
            doubtful = [frame for frame in index.doubtful() if is_other(frame.segment.ident)]
            return LeftByWriters([state.pin() for state in index.states() if is_other(state.ident)], doubtful)

        return self._ask_fold(left_in)

    def on_record(self) -> tuple[StateCounts, int]:
        """The states of the trials by the journal, in the store or not, and how many have a final record that is kept.

        Raises:
            StorageFailure: what was written cannot be read.
        """
        return self._ask_fold(lambda reader: (reader.fold.counts, reader.fold.kept))

    def unfilled_among(self, slots: Mapping[str, Callable[[bytes], bool]]) -> int:
        """How many of these slots are not filled; they come by name, each with what says which trials are meant.

        Raises:
            StorageFailure: what was written cannot be read.
        """

        def unfilled_in(reader: RunReader) -> int:
            trials = ((trial.packed_key, trial.standing.scorers) for trial in reader.fold.trials())
            return sum(name not in filled and wants(key) for key, filled in trials for name, wants in slots.items())

        return self._ask_fold(unfilled_in)

    def ask(self, question: Callable[[RunReader], T]) -> T:
        """Asks a question about the run, by what is durable now.

        Raises:
            StorageFailure: what was written cannot be read.
        """
        return self._ask_fold(question)

    def _ask_fold(self, question: Callable[[RunReader], T]) -> T:
        """Asks a reader that knows everything which is durable now."""
        if self._feed.catch_up() and self._is_newest():
            with self._as_storage_failure():
                return question(self._reader)
        return self._ask_again(question, Cut(self._session))

    def _ask_again(self, question: Callable[[RunReader], T], cut: Cut) -> T:
        """Asks a reader that has folded the frames of this session and those before it once more, up to a cut."""
        with self._as_storage_failure(), contextlib.closing(self._reader.folded_again(cut)) as reader:
            return question(reader)

    @contextlib.contextmanager
    def _as_storage_failure(self) -> Iterator[None]:
        try:
            yield
        except (OSError, *INDEX_ERRORS, NotARun) as error:
            raise StorageFailure(f"{self._reader.layout.root} cannot be read: {error}") from error

    def _is_newest(self) -> bool:
        """Whether no other has taken the run: what that one has done is not this session's to report."""
        return max((session.number for session in self._reader.sessions), default=0) <= self._session

    def _counts_in(self, reader: RunReader) -> StateCounts:
        if (uploader := self._uploader) is None:
            return reader.fold.counts
        return reader.fold.counts_when_uploaded(lambda trial: self._is_uploaded(reader, trial, uploader))

    def _finished_among(self, reader: RunReader, is_wanted: Callable[[bytes], bool]) -> int:
        trials = (trial for trial in reader.fold.trials(State.VALID, State.LIMITED) if is_wanted(trial.packed_key))
        uploader = self._uploader
        return sum(uploader is None or self._is_uploaded(reader, trial, uploader) for trial in trials)

    def _is_uploaded(self, reader: RunReader, trial: FoldedTrial, uploader: SegmentUploader) -> bool:
        """Whether a result of a finished trial is in the store: the one that counts, or one that it had before."""
        end = trial.end_id
        if end is None or trial.row.session != self._session:
            return True
        if self._is_confirmed(end, uploader):
            # A scorer that was added has judged it after its end, and maybe in another process.
            return all(self._is_confirmed(slot, uploader) for slot in reader.fold.slot_ids(trial.key))
        return trial.row.counted > 1 and self._had_result(reader, trial, uploader)

    def _had_result(self, reader: RunReader, trial: FoldedTrial, uploader: SegmentUploader) -> bool:
        """Whether an end that is kept is in the store, and with it all scores that the plan asks for."""
        placed = reader.lines_of(trial, "trial", "score")
        records = [reader.read(one.line) for one in placed if self._is_confirmed(one.ident, uploader)]
        scored = {(one.attempt, one.scorer) for one in records if isinstance(one, ScoreRecord) and one.is_filled}
        planned = reader.fold.planned_scorers.get(trial.standing.group.task, [])
        return any(
            one.status is not Status.VALID
            or all(name in one.scores or (one.attempt, name) in scored for name in planned)
            for one in records
            if isinstance(one, TrialRecord) and one.status.is_kept
        )

    def _is_confirmed(self, ident: RecordId, uploader: SegmentUploader) -> bool:
        """Whether a record is in the store: of an earlier session, or not beyond the watermark of its writer."""
        return ident.session != self._session or ident.seq <= uploader.uploaded_seq(ident.writer)
