"""A cut through a run: only records up to a session, a moment, or the last upload that a store has confirmed."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from holdfast.journal.frame import Origin
from holdfast.run.core.records import Failure, Status
from holdfast.run.fold.entries import FoldedRecord, ScoreEntry, TrialEntry
from holdfast.run.fold.states import NOT_UPLOADED


class Cut(NamedTuple):
    """Which records count; every condition that is given must hold."""

    session: int | None = None
    """The last session that counts."""
    moment: float | None = None
    """Attempts that ended later, by the clock of their session, do not count."""
    confirmed: Mapping[tuple[int, int], int] | None = None
    """By session and writer, the last frame that counts; of a writer that is not named all do."""

    uploaded: Mapping[tuple[int, int], int] | None = None
    """By session and writer, the last frame that is in a store: a result beyond it is not finished, and remains as
    `not uploaded`. Of a writer that is not named everything is there. What was asked and paid counts in any case.
    """

    def apply(self, frame: Origin, entry: FoldedRecord) -> FoldedRecord | None:
        """A record as it counts; None if it does not."""
        if not self.admits(frame, entry):
            return None
        if self.uploaded is None or frame.seq <= self.uploaded.get(frame[:2], frame.seq):
            return entry
        if isinstance(entry, TrialEntry) and entry.status.is_kept:
            missing = Failure(kind=NOT_UPLOADED, message="")
            return msgspec.structs.replace(entry, status=Status.UNFINISHED, scores={}, samplings=(), error=missing)
        return None if isinstance(entry, ScoreEntry) else entry

    def admits(self, frame: Origin, entry: FoldedRecord) -> bool:
        if self.session is not None and frame.session > self.session:
            return False
        if self.confirmed is not None and frame.seq > self.confirmed.get(frame[:2], frame.seq):
            return False
        return self.moment is None or not isinstance(entry, TrialEntry) or entry.at + entry.seconds <= self.moment
