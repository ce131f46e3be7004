"""What has been read so far: the plan that follows from it, and what the end reports.

Of a trial only its coordinates stay in memory, of a sample its id and a digest. Lists for people are bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import msgspec

from holdfast.digests import canonical_json, packed_digest
from holdfast.interop.importing.foreign_eval import ForeignSample, ForeignState, ForeignTrial, SkippedItem
from holdfast.interop.importing.foreign_values import known_seconds, number_of, plain_number
from holdfast.tasks.datasets.listed_trials import list_line

MOST_NAMED = 10_000
_MOST_UNKNOWN = 1000
_MOST_SLOTS = 200
"""Of a task. Every valid trial has all of them, so many would make a large run of a few results."""
_MOST_COST = 1e15
"""Of a trial; a larger one is kept and not added, because sums of it are no longer numbers."""
_OTHERS = "(others)"


class ScorerFacts:
    """One scorer of a task: its judges, and whether its scores are 0 and 1 only."""

    def __init__(self) -> None:
        self.judges: dict[str, None] = {}
        self.is_binary = True

    def config(self, name: str) -> dict[str, Any]:
        """The scorer as the configuration of the run has it."""
        arguments: dict[str, Any] = {"name": name}
        if judges := [judge for judge in self.judges if judge]:
            arguments["judges"] = judges
        return {"recorded": {**arguments, **({"binary": True} if self.is_binary else {})}}


@dataclass
class TaskFacts:
    """One task: its samples, trials and scorers."""

    samples: dict[str, bytes] = field(default_factory=dict)
    """By id, the digest of the content."""
    trials: dict[str, list[tuple[str, int, int]]] = field(default_factory=dict)
    """By model, the sample, the epoch and the place of the axis values."""
    axes: dict[tuple[tuple[str, str], ...], int] = field(default_factory=dict)
    scorers: dict[str, ScorerFacts] = field(default_factory=dict)
    epochs: int = 1
    slots: int = 0

    def axis_place(self, axes: dict[str, str]) -> int:
        return self.axes.setdefault(tuple(sorted(axes.items())), len(self.axes))

    def lines(self, task: str) -> bytes:
        """The list of its trials."""
        axes = [dict(values) for values in self.axes]
        return b"".join(list_line(task, model, axes, trials) for model, trials in self.trials.items())


class ImportTally:
    """Everything that was read, in numbers."""

    def __init__(self) -> None:
        self.tasks: dict[str, TaskFacts] = {}
        self.models: dict[str, None] = {}
        self.skipped: list[SkippedItem] = []
        self.skipped_count = 0
        self.unknown: Counter[str] = Counter()
        self.unusable: Counter[str] = Counter()
        self.unmetered: dict[str, None] = {}
        """The models with trials whose tokens are unknown."""
        self.untimed = 0
        """Trials whose duration is unknown."""
        self.by_axis: dict[str, Counter[str]] = {}
        self.states: Counter[str] = Counter()
        self.cost = Fraction(0)
        self.costed = 0
        self.trials = 0
        self._keys: set[bytes] = set()

    def skip(self, item: SkippedItem) -> None:
        """Counts something that is not imported; the first of many are named."""
        self.skipped_count += 1
        if len(self.skipped) < MOST_NAMED:
            self.skipped.append(item)

    def is_new(self, key: str) -> bool:
        """Whether no trial with this key was met before."""
        packed = bytes.fromhex(key)
        if packed in self._keys:
            return False
        self._keys.add(packed)
        return True

    def new_sample(self, task: str, sample: ForeignSample) -> bool | None:
        """Whether the task meets the sample for the first time; None if it knows another content under its id."""
        facts, digest = self._task(task), packed_digest(canonical_json(sample))
        known = facts.samples.setdefault(sample.id, digest)
        return None if known != digest else digest is known

    def add(self, trial: ForeignTrial, sample_key: str) -> None:
        """Counts a trial that is imported; its names are valid ones."""
        facts = self._task(trial.task)
        self.trials += 1
        self.models[trial.model] = None
        self.states[trial.state.value] += 1
        facts.epochs = max(facts.epochs, trial.epoch)
        place = facts.axis_place(trial.axes)
        facts.trials.setdefault(trial.model, []).append((sample_key, trial.epoch, place))
        for axis, value in trial.axes.items():
            self.by_axis.setdefault(axis, Counter())[value] += 1
        _count(self.unknown, trial.unknown)
        _count(self.unusable, trial.unusable)
        self._add_spending(trial)
        self._add_cost(trial.cost)
        self._add_scorers(facts, trial)

    def _add_spending(self, trial: ForeignTrial) -> None:
        """Takes note of what is unknown: a record has zeros for it."""
        if trial.state is ForeignState.NOT_STARTED:
            return
        self.untimed += known_seconds(trial.seconds) is None
        was_asked = trial.state is not ForeignState.FAILED or bool(trial.calls) or trial.answer is not None
        is_metered = bool(trial.calls) and all(call.usage is not None for call in trial.calls)
        if was_asked and trial.usage is None and not trial.usage_by_model and not is_metered:
            self.unmetered[trial.model] = None

    def _add_cost(self, cost: Any) -> None:
        amount = plain_number(cost)
        if amount is not None and 0 <= amount <= _MOST_COST:
            # Exact: the sum does not depend on the order of the files.
            self.cost += Fraction(amount)
            self.costed += 1

    def _add_scorers(self, facts: TaskFacts, trial: ForeignTrial) -> None:
        for score in trial.scores:
            known = facts.scorers.get(score.scorer)
            if known is None or score.judge not in known.judges:
                if facts.slots >= _MOST_SLOTS:
                    continue
                facts.slots += 1
                known = facts.scorers.setdefault(score.scorer, ScorerFacts())
            known.judges[score.judge] = None
            value = number_of(score.value)
            known.is_binary = known.is_binary and (value is None or value in {0.0, 1.0})

    def _task(self, name: str) -> TaskFacts:
        return self.tasks.setdefault(name, TaskFacts())


def _count(counts: Counter[str], names: Iterable[str]) -> None:
    """Counts names; there may be any number of them, of which the first are told apart."""
    for name in names:
        counts[name if name in counts or len(counts) < _MOST_UNKNOWN else _OTHERS] += 1


class AxisCount(msgspec.Struct, frozen=True):
    """How many trials have a value on an axis."""

    axis: str
    value: str
    trials: int
