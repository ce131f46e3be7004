"""The six states of a planned trial, the remaining trials and why, and counts that add up to the plan.

valid, limited and blocked trials are finished; failed, unfinished and not started ones remain, each for one reason. A
valid trial with a missing score of the plan is unfinished. Of a task that was stopped, whatever has not failed remains
for the reason `same error`.
"""

import enum
from collections import Counter
from collections.abc import Mapping

import msgspec

NOT_STARTED, NOT_UPLOADED, RUNNING = "not started", "not uploaded", "running"
SAME_ERROR = "same error"
"""The first trials of the task failed with the same error: the others are not run."""
_FAILED_SLOT = "score: "


class State(enum.StrEnum):
    """The state of a planned trial."""

    VALID = "valid"
    LIMITED = "limited"
    BLOCKED = "blocked"
    FAILED = "failed"
    UNFINISHED = "unfinished"
    NOT_STARTED = "not_started"

    @property
    def is_finished(self) -> bool:
        return self in FINISHED


FINISHED = frozenset({State.VALID, State.LIMITED, State.BLOCKED})
REMAINING = (State.FAILED, State.UNFINISHED, State.NOT_STARTED)


class StateCounts(msgspec.Struct, frozen=True):
    """How many planned trials are in which state; every count of trials that the program gives is one of these."""

    planned: int = 0
    finished: int = 0
    """valid + limited + blocked"""
    valid: int = 0
    limited: int = 0
    blocked: int = 0
    failed: int = 0
    unfinished: int = 0
    not_started: int = 0
    remaining: int = 0
    """failed + unfinished + not started"""
    remaining_by_reason: dict[str, int] = {}
    limited_by_reason: dict[str, int] = {}
    """By the limit that was reached, how many are limited."""

    @classmethod
    def of(
        cls,
        planned: int,
        trials: Mapping[tuple[State, str], int],
        stopped: int = 0,
        waiting: Mapping[str, int] | None = None,
    ) -> "StateCounts":
        """The counts, given how many trials have records; those of the plan that have none are not started.

        `stopped` of these belong to tasks that were stopped; others are `waiting`, for these reasons.
        """
        states: Counter[State] = Counter()
        for (state, _), count in trials.items():
            states[state] += count
        states[State.NOT_STARTED] = max(planned - sum(states.values()), 0)
        return cls(
            planned=planned,
            finished=sum(states[state] for state in FINISHED),
            remaining=sum(states[state] for state in REMAINING),
            remaining_by_reason=_reasons(trials, states[State.NOT_STARTED], stopped, waiting or {}),
            limited_by_reason=_limits_reached(trials),
            **{state.value: states[state] for state in State},
        )

    @property
    def is_complete(self) -> bool:
        """Whether nothing remains of a plan that is known."""
        return self.planned > 0 and self.remaining == 0

    @property
    def failed_in_slots(self) -> int:
        """How many have their answers and failed in scorers, which only a redo asks again."""
        return sum(count for reason, count in self.remaining_by_reason.items() if is_failed_slot(reason))

    @property
    def to_run(self) -> int:
        """How many a resume runs: all that remain, but for the failed ones and those of tasks that were stopped."""
        return self.remaining - self.failed - self.remaining_by_reason.get(SAME_ERROR, 0)

    def states(self) -> dict[str, int]:
        """The six states, which add up to planned."""
        return {state.value: getattr(self, state.value) for state in State}

    def finished_text(self) -> str:
        """How many are finished, of how many."""
        if not self.planned:
            return f"{self.finished:,} trials finished; the number of planned trials is unknown"
        return f"{self.finished:,} of {self.planned:,} trials finished"

    def unusual_text(self) -> str:
        """Which of the finished trials are not valid, as the end of a clause; empty if all are valid."""
        limited = f"limited ({self._limits_text()})" if self.limited_by_reason else "limited"
        blocked = "blocked by a content policy"
        parts = [f"{count} {what}" for count, what in ((self.limited, limited), (self.blocked, blocked)) if count]
        return f", {' and '.join(parts).replace(' ', ' of them ', 1)}" if parts else ""

    def _limits_text(self) -> str:
        """Which limits were reached, and how often, if there are several."""
        if len(self.limited_by_reason) == 1:
            return next(iter(self.limited_by_reason))
        return ", ".join(f"{count} {limit}" for limit, count in self.limited_by_reason.items())

    def remaining_text(self) -> str:
        """How many remain, and why: "5 remaining: 2 interrupted, 3 not started"."""
        parts = [f"{count:,} {reason_text(reason)}" for reason, count in self.remaining_by_reason.items()]
        if not self.planned and not parts:
            return "how many remain is unknown"
        total = f"{self.remaining:,} remaining"
        return f"{total}: {', '.join(parts)}" if parts else total


def _limits_reached(trials: Mapping[tuple[State, str], int]) -> dict[str, int]:
    found = {reason: count for (state, reason), count in sorted(trials.items()) if state is State.LIMITED and reason}
    return {reason: count for reason, count in found.items() if count}


def _reasons(
    trials: Mapping[tuple[State, str], int], not_started: int, stopped: int, waiting: Mapping[str, int]
) -> dict[str, int]:
    found: Counter[str] = Counter()
    for wanted in (State.FAILED, State.UNFINISHED):
        for (state, reason), count in sorted(trials.items()):
            if state is wanted:
                found[reason] += count
    stopped = min(stopped, not_started)
    found[SAME_ERROR] += stopped
    left = not_started - stopped
    found[NOT_STARTED] = max(left - sum(waiting.values()), 0)
    for reason, count in waiting.items():
        found[reason] += min(count, left)
    return {reason: count for reason, count in found.items() if count}


def reason_text(reason: str) -> str:
    """A reason behind a number."""
    if reason == SAME_ERROR:
        return f"not run ({reason})"
    return f"failed ({reason})" if reason.endswith("error") or is_failed_slot(reason) else reason


def failed_slot(scorer: str) -> str:
    """The reason for which a trial has failed: no attempt of this scorer's slot is left."""
    return f"{_FAILED_SLOT}{scorer}"


def is_failed_slot(reason: str) -> bool:
    """Whether a trial that remains for this reason has failed in a scorer."""
    return reason.startswith(_FAILED_SLOT)
