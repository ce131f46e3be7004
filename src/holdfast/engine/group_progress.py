"""The progress of one task and model: counts, running scores, tokens and cost, rate and time left.

The end of a trial adds to a few numbers here; everything else is worked out when somebody looks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.engine.scheduling.call_tally import GroupTally, TrialGroup
from holdfast.models.message import Usage
from holdfast.run.core.prices import Prices
from holdfast.run.core.records import ShareKey, Status, TrialRecord
from holdfast.run.fold.panels import Panels, with_panels
from holdfast.run.fold.run_fold import RunFold

_RECENT_SECONDS = 60.0


class RateMeter:
    """How many a second there were in the last minute, of a count that somebody looks at now and then."""

    def __init__(self, now: float) -> None:
        self._recent: deque[tuple[float, int]] = deque([(now, 0)])

    def rate(self, now: float, count: int) -> float:
        """The rate, given what the count is now."""
        recent = self._recent
        if now - recent[-1][0] >= 1.0:
            recent.append((now, count))
        while len(recent) > 2 and now - recent[0][0] > _RECENT_SECONDS:
            recent.popleft()
        then, before = recent[0]
        return (count - before) / (now - then) if now > then else 0.0


class WorkTime:
    """A clock that stops while a session is paused, so that a pause does not count as slow work."""

    def __init__(self) -> None:
        self._paused = 0.0
        self._since: float | None = None

    def at(self, now: float, *, is_paused: bool) -> float:
        """The time of work at `now`; a pause begins and ends when somebody looks."""
        if is_paused and self._since is None:
            self._since = now
        elif not is_paused and self._since is not None:
            self._paused += now - self._since
            self._since = None
        return (now if self._since is None else self._since) - self._paused


@dataclass(frozen=True)
class EarlierWork:
    """What earlier sessions have done of one task and model."""

    finished: int = 0
    left_alone: int = 0
    """Trials that only a redo runs again: they have failed, or their task was stopped."""
    shares: Mapping[ShareKey, Usage] = field(default_factory=dict)
    """The tokens on record, by model."""
    scores: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """How many scores there are of each scorer, and their sum."""


def earlier_work(fold: RunFold) -> dict[TrialGroup, EarlierWork]:
    """What the sessions before this one have done, by task and model."""
    spent, scores = fold.spent(), fold.score_sums()
    return {
        group: EarlierWork(
            counts.finished,
            counts.remaining - counts.to_run,
            spent[group].shares if group in spent else {},
            scores.get(group, {}),
        )
        for group, counts in fold.counts_by_group().items()
    }


class GroupProgress:
    """One task and model of a run while a session executes it."""

    def __init__(
        self,
        task: str,
        model: str,
        planned: int,
        before: EarlierWork,
        tally: GroupTally,
        now: float,
        panels: Panels | None = None,
    ) -> None:
        self._panels = panels or {}
        self.task, self.model, self.planned, self.before, self._tally = task, model, planned, before, tally
        self.finished = self.failed = self.unfinished = self.retried = self.ended = 0
        self._scores = {name: [count, total] for name, (count, total) in before.scores.items()}
        self._meter = RateMeter(now)

    @property
    def done(self) -> int:
        """Trials that are finished, in this session or before."""
        return self.before.finished + self.finished

    @property
    def left(self) -> int:
        """Trials that this session has not ended yet, if it runs all that remain."""
        return max(self.planned - self.before.finished - self.before.left_alone - self.ended, 0)

    @property
    def retries(self) -> int:
        """Requests that were sent again, and further attempts at trials, in this session."""
        return self._tally.retries + self.retried

    def count_end(self, end: TrialRecord) -> None:
        """Takes in the last attempt of a trial that was not finished before."""
        self.ended += 1
        if end.status.is_kept:
            self.finished += 1
            scores = end.scores
            if self._panels:
                scores = {name: found.value for name, found in with_panels(scores, self._panels).items()}
            for scorer, value in scores.items():
                if value is not None:
                    self._add_score(scorer, value)
        elif end.status is Status.FAILED:
            self.failed += 1
        else:
            self.unfinished += 1

    def _add_score(self, scorer: str, value: float) -> None:
        sums = self._scores.get(scorer)
        if sums is None:
            sums = self._scores[scorer] = [0, 0.0]
        sums[0] += 1
        sums[1] += value

    def scores(self) -> dict[str, tuple[float, int]]:
        """The mean of the scores so far, and how many there are; by scorer, in the order of the plan."""
        return {name: (total / count, int(count)) for name, (count, total) in self._scores.items() if count}

    def shares(self) -> dict[ShareKey, Usage]:
        """The tokens on record, by model, of all sessions."""
        found = dict(self.before.shares)
        for model, (given, taken) in self._tally.tokens.items():
            found[model, False] = found.get((model, False), Usage()) + Usage(given, taken)
        for model, usage in self._tally.reused.items():
            found[model, True] = found.get((model, True), Usage()) + usage
        return found

    @property
    def tokens(self) -> int:
        """All tokens, input and output."""
        return sum(usage.input_tokens + usage.output_tokens for usage in self.shares().values())

    def cost(self, prices: Prices) -> float | None:
        """What they cost; None where that is not known."""
        return prices.cost(self.shares(), {self.model}).amount

    def rate(self, now: float) -> float:
        """Finished trials a second, over the last minute."""
        return self._meter.rate(now, self.finished)

    def eta_seconds(self, now: float) -> float | None:
        """How long the rest takes at this rate; None while that is not known."""
        rate = self.rate(now)
        return self.left / rate if rate > 0 else None
