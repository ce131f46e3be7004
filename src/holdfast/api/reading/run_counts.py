"""The counts of `Run`: what cannot be known without a session record is None, as it is null in `--json`."""

import msgspec

from holdfast.run.fold.states import StateCounts

_OF_PLAN = ("planned", "not_started", "remaining", "remaining_by_reason")


class RunCounts(msgspec.Struct, frozen=True):
    """How many planned trials are in which state, and why the others remain."""

    planned: int | None
    """None, as the other figures of the plan, where no session record can be read."""
    finished: int
    """valid + limited + blocked"""
    valid: int
    limited: int
    blocked: int
    failed: int
    unfinished: int
    not_started: int | None
    remaining: int | None
    """failed + unfinished + not started"""
    remaining_by_reason: dict[str, int] | None
    limited_by_reason: dict[str, int] = {}
    """By the limit that was reached, how many are limited."""

    @classmethod
    def of(cls, counts: StateCounts) -> "RunCounts":
        """The counts of a run; every run that has a plan has planned trials."""
        fields = msgspec.structs.asdict(counts)
        return cls(**fields if counts.planned else {**fields, **dict.fromkeys(_OF_PLAN)})

    @property
    def is_complete(self) -> bool:
        """Whether nothing remains of a plan that is known."""
        return self._states().is_complete

    def finished_text(self) -> str:
        """How many are finished, of how many."""
        return self._states().finished_text()

    def remaining_text(self) -> str:
        """How many remain, and why."""
        return self._states().remaining_text()

    def _states(self) -> StateCounts:
        return StateCounts(**{name: value for name, value in msgspec.structs.asdict(self).items() if value is not None})
