"""A score slot in the fold: one row for each scorer and attempt of a trial."""

from typing import Self

import msgspec

FILLED, UNSCORED, FAILED, RETRIED = range(4)
"""The states of a slot: a score; none, for a reason; no attempt is left; one failed, and another was to follow."""


class Slot(msgspec.Struct, gc=False):
    """What a scorer gave in one attempt of the trial, or how its own last attempt has failed."""

    scorer: str
    attempt: int
    value: float | None
    cached: bool
    session: int
    writer: int
    seq: int
    place: int
    state: int = FILLED
    slot_attempt: int = 1

    @property
    def is_filled(self) -> bool:
        return self.state <= UNSCORED

    @property
    def order(self) -> tuple[int, int, int]:
        return self.writer, self.seq, self.place

    @property
    def columns(self) -> tuple[object, ...]:
        """As it is stored, behind its trial and scorer."""
        where = self.session, self.writer, self.seq, self.place
        return self.attempt, self.value, self.cached, *where, self.state, self.slot_attempt

    @property
    def _doubt(self) -> tuple[bool, bool]:
        return self.value is None and self.state == FILLED, self.cached

    def gives_way_to(self, other: Self) -> bool:
        """The first filled record of the newest session counts; a score that only the end of a trial gives, if none
        does. A failure never replaces a filled one, and of several the last attempt counts.

        Of a score that is stored as a blob, an earlier version kept only that it was given: any other counts before it.
        """
        if not self.is_filled or not other.is_filled:
            if self.is_filled or other.is_filled:
                return other.is_filled
            mine, others = (
                (self.slot_attempt, self.session, self.order),
                (other.slot_attempt, other.session, other.order),
            )
            return others > mine
        if self._doubt != other._doubt:
            return self._doubt > other._doubt
        return (other.session, self.order) > (self.session, other.order)
