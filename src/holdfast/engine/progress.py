"""The progress of a session: counts, rate, and what is left, for whoever shows them.

Nothing is counted as finished here before its record was synced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from holdfast.engine.events import AttemptEnded, Events
from holdfast.engine.model_calls.caller import CallCounts
from holdfast.engine.scheduling.call_tally import CallTally
from holdfast.engine.scheduling.clock import Clock
from holdfast.engine.scheduling.holds import Hold
from holdfast.models.message import Usage
from holdfast.run.core.prices import Prices
from holdfast.run.core.records import Status, TrialRecord
from holdfast.run.fold.rows.trial_row import INTERRUPTED, NO_REPLY, POLICY, TASK_ERROR
from holdfast.run.fold.states import State, StateCounts

_RECENT_SECONDS = 60.0


@dataclass
class Progress:
    """The counts of a run while a session executes it, by the session's events."""

    clock: Clock
    planned: int
    finished_before: int
    counts: CallCounts = field(default_factory=CallCounts)
    finished: int = 0
    failed: int = 0
    unfinished: int = 0
    blocked: int = 0
    ended: int = 0
    """Trials that have ended in this session."""
    retried: int = 0
    redone: int = 0
    """Trials that were finished before and have been attempted once more with success."""
    redo_failed: int = 0
    """Those whose further attempt came to nothing; what they had before still counts."""
    tally: CallTally = field(default_factory=CallTally)
    """The calls in flight, and the tokens that this session has spent."""
    holds: Callable[[], Sequence[Hold]] = tuple
    """Why nothing new starts now, and since when."""
    lag: Callable[[], str] = str
    """How far the run's store is behind, in words; nothing where it is not."""
    prices: Prices = field(default_factory=lambda: Prices({}))
    by_group: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """Finished trials and the sum of their first scores, by task and model."""

    def __post_init__(self) -> None:
        self._began = self.clock.monotonic()
        self._recent: deque[tuple[float, int]] = deque([(self._began, 0)])

    @property
    def done(self) -> int:
        """Trials of the run that are finished."""
        return self.finished_before + self.finished

    @property
    def usage(self) -> Usage:
        """What the calls of this session took, as far as it is durable."""
        return self.tally.spent

    @property
    def cost(self) -> float | None:
        """What those calls cost; None where that is not known."""
        spent = {(model, False): tally.spent for model, tally in self.tally.by_model.items()}
        return self.prices.cost(spent, ()).amount

    @property
    def seconds(self) -> float:
        return self.clock.monotonic() - self._began

    def observe(self, events: Events) -> None:
        """From now on counts what happens."""
        events.subscribe(self.attempt_ended, AttemptEnded)

    @property
    def active(self) -> int:
        """Trials that are running now."""
        return self.counts.active

    def attempt_ended(self, event: AttemptEnded) -> None:
        """Takes in the end of an attempt, after its record was synced."""
        end = event.record
        if event.will_retry:
            self.retried += 1
            return
        self.ended += 1
        if end.status.is_kept and event.was_finished:
            self.redone += 1
        elif end.status.is_kept:
            self._finish(end)
        elif event.was_finished:
            # What it had before still counts.
            self.redo_failed += 1
        elif end.status is Status.FAILED:
            self.failed += 1
        else:
            self.unfinished += 1

    def _finish(self, end: TrialRecord) -> None:
        self.finished += 1
        self.blocked += end.status is Status.BLOCKED
        if (first := next(iter(end.scores.values()), None)) is not None:
            group = self.by_group.setdefault((end.task, end.model), [0, 0.0])
            group[0] += 1
            group[1] += first

    def state_counts(self) -> StateCounts:
        """The counts as far as this session knows them by itself."""
        ended = {
            (State.VALID, ""): self.done - self.blocked,
            (State.BLOCKED, POLICY): self.blocked,
            (State.FAILED, TASK_ERROR): self.failed,
            (State.UNFINISHED, NO_REPLY): self.unfinished,
            (State.UNFINISHED, INTERRUPTED): self.counts.trials - self.ended,
        }
        return StateCounts.of(self.planned, ended)

    def rate(self) -> float:
        """Finished trials a second, over the last minute."""
        now = self.clock.monotonic()
        if now - self._recent[-1][0] >= 1.0:
            self._recent.append((now, self.finished))
        while len(self._recent) > 2 and now - self._recent[0][0] > _RECENT_SECONDS:
            self._recent.popleft()
        then, before = self._recent[0]
        return (self.finished - before) / (now - then) if now > then else 0.0

    def eta_seconds(self) -> float | None:
        """How long it will take at this rate; None while that is not known."""
        rate = self.rate()
        left = self.planned - self.done - self.failed - self.unfinished
        return left / rate if rate > 0 else None
