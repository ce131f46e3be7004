"""Choosing the best of several axis values: the highest median score, then the fewest tokens, then their order.

The choice is made for one task and model, over all of its samples, epochs and other axes. As in the report, the unit is
the sample: the scores of its trials with a value are reduced to their mean, and the median is that of the means.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.engine.planning.plan import PlannedTask
from holdfast.run.core.axes.choices import AxisChoice, CandidateFigures
from holdfast.run.fold.rows.fold_tables import unpack_sample
from holdfast.run.fold.run_fold import RunFold, Standing
from holdfast.spec.schema.axis import AxisValue
from holdfast.tasks.judges.panels import shown_names


class Dependency(NamedTuple):
    """A value of one task and model that depends on others."""

    task: PlannedTask
    model: str
    axis: str
    value: str
    entry: AxisValue

    @property
    def candidates(self) -> list[str]:
        """The values to choose from, in the order of the axis: those that the model is asked with."""
        there = self.task.planned_by_value(self.model)[self.axis]
        return [value for value in there if value in self.entry.best_of]

    @property
    def scorer(self) -> str:
        """The scorer whose scores decide; empty if the task has none."""
        return self.entry.scorer or next(iter(shown_names(self.task.task.scorers)), "")

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.task.name, self.model, self.axis, self.value


def are_finished(fold: RunFold, dependency: Dependency) -> bool:
    """Whether every trial of the values to choose from is finished; counted by state, not trial by trial."""
    planned = dependency.task.planned_by_value(dependency.model)[dependency.axis]
    finished: Counter[str] = Counter()
    for one in _standings(fold, dependency):
        finished[one.group.axes[dependency.axis]] += one.trials if one.state.is_finished else 0
    # Value by value: trials of one that are no longer planned do not make up for missing ones of another.
    return all(finished[value] >= planned[value] for value in dependency.candidates)


def choose(fold: RunFold, dependency: Dependency) -> AxisChoice | None:
    """The best value; None while trials of a value remain, or if one of the values has no score."""
    if not are_finished(fold, dependency):
        return None
    figures = _candidate_figures(fold, dependency)
    if not figures or len(figures) < len(dependency.candidates):
        return None
    order = {value: place for place, value in enumerate(dependency.candidates)}
    best = min(figures, key=lambda one: (-one.median, one.tokens, order[one.value]))
    return AxisChoice(*dependency.key, best.value, dependency.scorer, figures)


def _standings(fold: RunFold, dependency: Dependency) -> list[Standing]:
    """The states of the trials that a choice is made by."""
    pair, wanted = (dependency.task.name, dependency.model), set(dependency.candidates)
    return [
        one
        for one in fold.standings.values()
        if one.group[:2] == pair and one.group.axes.get(dependency.axis) in wanted
    ]


def _candidate_figures(fold: RunFold, dependency: Dependency) -> list[CandidateFigures]:
    """What each value that has scores is judged by."""
    by_value: dict[str, dict[str, list[float]]] = {}
    numbers = [one.number for one in _standings(fold, dependency)]
    for slot in fold.slots(numbers):
        if slot.scorer == dependency.scorer and slot.value is not None:
            sample = unpack_sample(slot.row)[0] or slot.trial
            value = slot.standing.group.axes[dependency.axis]
            by_value.setdefault(value, {}).setdefault(sample, []).append(slot.value)
    tokens = _tokens_per_trial(fold, dependency)
    return [
        CandidateFigures(value, _median(by_value[value]), tokens[value], sum(map(len, by_value[value].values())))
        for value in dependency.candidates
        if value in by_value
    ]


def _median(samples: Mapping[str, Sequence[float]]) -> float:
    return statistics.median(math.fsum(scores) / len(scores) for scores in samples.values())


def _tokens_per_trial(fold: RunFold, dependency: Dependency) -> dict[str, float]:
    """By value, the tokens of a trial on average: values need not have equally many trials."""
    pair, axis = (dependency.task.name, dependency.model), dependency.axis
    tokens: dict[str, int] = dict.fromkeys(dependency.candidates, 0)
    for group, spent in fold.spent_by_group():
        value = group.axes.get(axis, "")
        if group[:2] == pair and value in tokens:
            tokens[value] += spent.usage.input_tokens + spent.usage.output_tokens
    planned = dependency.task.planned_by_value(dependency.model)[axis]
    return {value: count / planned[value] for value, count in tokens.items()}
