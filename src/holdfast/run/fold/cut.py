"""A cut through a run: only records up to a session, a moment, or the last upload that a store has confirmed."""

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.journal.frame import Origin
from holdfast.run.fold.entries import FoldedRecord, TrialEntry


class Cut(NamedTuple):
    """Which records count; every condition that is given must hold."""

    session: int | None = None
    """The last session that counts."""
    moment: float | None = None
    """Attempts that ended later, by the clock of their session, do not count."""
    confirmed: Mapping[tuple[int, int], int] | None = None
    """By session and writer, the last frame that counts; of a writer that is not named all do."""

    def admits(self, frame: Origin, entry: FoldedRecord) -> bool:
        if self.session is not None and frame.session > self.session:
            return False
        if self.confirmed is not None and frame.seq > self.confirmed.get(frame[:2], frame.seq):
            return False
        return self.moment is None or not isinstance(entry, TrialEntry) or entry.at + entry.seconds <= self.moment
