"""The number of finished trials that each session could know: the count in its end must agree with it.

A session knows what earlier sessions wrote, except what a late one added after the next had started: that is known to
the first session which pins the segment.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from holdfast.journal import SegmentId
from holdfast.run.fold.reader import RunReader


class FinishedBySession:
    """Counts of final records, by the first session that knew of them; `frames` was folded for a verification."""

    def __init__(self, frames: RunReader) -> None:
        self._pins = {record.number: {SegmentId(*pin[:3]) for pin in record.pins} for record in frames.sessions}
        rows = frames.index.query("SELECT id, session, writer, number FROM segments")
        self._first = {number: self._first_to_know(SegmentId(*ident)) for number, *ident in rows}
        self._known: Counter[int] = Counter()
        self._unseen: Counter[int] = Counter()
        """Trials of a session's own that the session after it had not seen: it was late."""
        query = "SELECT key, session, segment FROM finals ORDER BY key"
        for _, finals in groupby(frames.index.query(query), lambda row: row[0]):
            self._count([(max(self._first[segment], session), session) for _, session, segment in finals])

    def _first_to_know(self, ident: SegmentId) -> int:
        later = sorted((number, ident in pins) for number, pins in self._pins.items() if number > ident.session)
        if not later or later[0][1]:
            return ident.session
        return next((number for number, is_pinned in later if is_pinned), later[-1][0] + 1)

    def _count(self, finals: list[tuple[int, int]]) -> None:
        """Counts one trial, given the first session that knew of each final record, and the one that wrote it."""
        known = min(first for first, _ in finals)
        self._known[known] += 1
        for session in {session for first, session in finals if first > session}:
            self._unseen[session] += known > session

    def by(self, session: int) -> int:
        """How many trials were finished as far as a session could know at its end."""
        return sum(count for first, count in self._known.items() if first <= session) + self._unseen[session]
