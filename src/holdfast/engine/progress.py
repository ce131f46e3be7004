"""The progress of a session: counts, rate, and what is left, for whoever shows them.

Nothing is counted as finished here before its record was synced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.engine.events import AttemptEnded, Events, TaskStopped
from holdfast.engine.group_progress import GroupProgress, RateMeter, WorkTime
from holdfast.engine.model_calls.caller import CallCounts
from holdfast.engine.scheduling.call_tally import CallTally, TrialGroup
from holdfast.engine.scheduling.clock import Clock
from holdfast.engine.scheduling.holds import Hold
from holdfast.models.message import Usage
from holdfast.run.core.prices import Prices
from holdfast.run.core.records import ShareKey, Status, TrialRecord
from holdfast.run.fold.rows.trial_row import INTERRUPTED, NO_REPLY, PAUSED, POLICY, TASK_ERROR
from holdfast.run.fold.states import State, StateCounts
from holdfast.tasks.source.failure_text import error_identity

_MOST_ERRORS = 100
"""How many different errors are kept apart."""


@dataclass(frozen=True)
class SessionLabel:
    """Which session of which run it is, for people."""

    run: str = ""
    """The identity of the run."""
    name: str = ""
    """Of the eval."""
    place: str = ""
    session: int = 0

    @property
    def short_id(self) -> str:
        """As much of the identity as people compare."""
        return short_id(self.run)


def short_id(run: str) -> str:
    """As much of a run's identity as people compare."""
    return run[:8]


@dataclass
class Progress:
    """The counts of a run while a session executes it, by the session's events."""

    clock: Clock
    planned: int
    before: StateCounts
    """How the trials stood when the session started."""
    counts: CallCounts = field(default_factory=CallCounts)
    finished: int = 0
    failed: int = 0
    unfinished: int = 0
    paused: int = 0
    """Trials that were left after a stage, as they were to be."""
    limited: int = 0
    blocked: int = 0
    ended: int = 0
    """Trials that have ended in this session."""
    retried: int = 0
    redone: int = 0
    """Trials that were finished before and have been attempted once more with success."""
    redo_failed: int = 0
    """Those whose further attempt failed; their earlier result still counts."""
    expected: int | None = None
    """How many trials the session runs at the most; None for all that remain."""
    tally: CallTally = field(default_factory=CallTally)
    """The calls in flight, and the tokens that this session has spent."""
    holds: Callable[[], Sequence[Hold]] = tuple
    """Why nothing new starts now, and since when."""
    lease_text: Callable[[], str] = str
    """Why nothing starts while the lease is in doubt, in words; nothing where it is not, or where that is not known."""
    lag: Callable[[], str] = str
    """How far the run's store is behind, in words; nothing where it is not."""
    concurrency: Callable[[], int | None] = lambda: None
    """How many trials may run at once."""
    prices: Prices = field(default_factory=lambda: Prices({}))
    groups: Mapping[TrialGroup, GroupProgress] = field(default_factory=dict)
    """Each task and model, in the order of the plan."""
    label: SessionLabel = SessionLabel()
    stopped_trials: int = 0
    """Trials that are not run, because their tasks were stopped."""
    same_errors: int = 0
    """How many of the failed trials have an error that another one had before."""

    def __post_init__(self) -> None:
        self._began = self.clock.monotonic()
        self._meter, self._work_time = RateMeter(self._began), WorkTime()
        self._errors: set[tuple[str, str]] = set()

    @property
    def finished_before(self) -> int:
        return self.before.finished

    @property
    def done(self) -> int:
        """Trials of the run that are finished."""
        return self.before.finished + self.finished

    @property
    def usage(self) -> Usage:
        """What the calls of this session took, as far as it is durable."""
        return self.tally.spent

    def shares(self) -> dict[ShareKey, Usage]:
        """The tokens of all sessions, by model; those of replies of other runs are apart, and cost nothing here."""
        found: dict[ShareKey, Usage] = {}
        earlier = (group.before.shares for group in self.groups.values())
        spent = {(model, False): tally.spent for model, tally in self.tally.by_model.items()}
        reused = {
            (model, True): tally.reused for model, tally in self.tally.by_model.items() if tally.reused != Usage()
        }
        for shares in (*earlier, spent, reused):
            for key, usage in shares.items():
                found[key] = found.get(key, Usage()) + usage
        return found

    @property
    def tokens(self) -> int:
        """Input and output tokens of all sessions."""
        return sum(usage.input_tokens + usage.output_tokens for usage in self.shares().values())

    @property
    def cost(self) -> float | None:
        """What the calls of all sessions cost; None where that is not known."""
        return self.prices.cost(self.shares(), {model for _, model in self.groups}).amount

    @property
    def retries(self) -> int:
        """Requests that were sent again, and further attempts at trials, in this session."""
        return self.counts.retries + self.retried

    @property
    def seconds(self) -> float:
        return self.clock.monotonic() - self._began

    def observe(self, events: Events) -> None:
        """From now on counts what happens."""
        events.subscribe(self.attempt_ended, AttemptEnded)
        events.subscribe(self._task_stopped, TaskStopped)

    @property
    def active(self) -> int:
        """Trials that are running now."""
        return self.counts.active

    def attempt_ended(self, event: AttemptEnded) -> None:
        """Takes in the end of an attempt, after its record was synced."""
        end = event.record
        group = self.groups.get((end.task, end.model))
        if event.will_retry:
            self.retried += 1
            if group is not None:
                group.retried += 1
            return
        if event.without_retry:
            self.retried -= 1
            if group is not None:
                group.retried -= 1
        self.ended += 1
        if event.was_finished:
            self._count_redo(end)
            return
        self._count_end(end)
        if group is not None:
            group.count_end(end)

    def _task_stopped(self, event: TaskStopped) -> None:
        """The other trials of a task are not run."""
        self.stopped_trials += event.not_started

    def _count_redo(self, end: TrialRecord) -> None:
        if end.status.is_kept:
            self.redone += 1
        else:
            # What it had before still counts.
            self.redo_failed += not end.paused
            self.paused += end.paused

    def _count_end(self, end: TrialRecord) -> None:
        if end.status.is_kept:
            self.finished += 1
            self.limited += end.status is Status.LIMITED
            self.blocked += end.status is Status.BLOCKED
        elif end.status is Status.FAILED:
            self.failed += 1
            self._compare_error(end)
        elif end.paused:
            self.paused += 1
        else:
            self.unfinished += 1

    def _compare_error(self, end: TrialRecord) -> None:
        error = end.task, error_identity(end.error) if end.error is not None else ""
        self.same_errors += error in self._errors
        if len(self._errors) < _MOST_ERRORS:
            self._errors.add(error)

    def state_counts(self, not_ended: str = INTERRUPTED) -> StateCounts:
        """The counts as far as this session knows them by itself; `not_ended` is why trials remain that it has started.

        A trial that it has not come to is not started, whatever earlier sessions have left of it.
        """
        limited, blocked = self.before.limited + self.limited, self.before.blocked + self.blocked
        ended = {
            (State.VALID, ""): self.done - limited - blocked,
            (State.LIMITED, ""): limited,
            (State.BLOCKED, POLICY): blocked,
            (State.FAILED, TASK_ERROR): self.failed,
            (State.UNFINISHED, NO_REPLY): self.unfinished,
            (State.UNFINISHED, PAUSED): self.paused,
            (State.UNFINISHED, not_ended): max(self.counts.trials - self.ended, 0),
        }
        return StateCounts.of(self.planned, ended)

    @property
    def is_paused(self) -> bool:
        """Whether nothing is started or acknowledged until the store answers."""
        return bool(self.lease_text())

    def working_now(self) -> float:
        """The present moment on a clock that stops while the session is paused; for the rates of groups."""
        return self._work_time.at(self.clock.monotonic(), is_paused=self.is_paused)

    def rate(self) -> float:
        """Finished trials a second, over the last minute of work; 0 while the session is paused."""
        rate = self._meter.rate(self.working_now(), self.finished + self.redone)
        return 0.0 if self.is_paused else rate

    def eta_seconds(self) -> float | None:
        """How long it will take at this rate, and not less than the slowest task and model; None while not known."""
        rate, now = self.rate(), self.working_now()
        if rate <= 0:
            return None
        expected = self.planned - self.before.finished if self.expected is None else self.expected
        left = max(expected - self.stopped_trials - self.ended, 0)
        # Of a selection, what is left of each task and model is not known.
        groups = self.groups.values() if left and self.expected is None else ()
        return max([left / rate, *(group.eta_seconds(now) or 0 for group in groups)])
