"""What `results_TIME.json` says of the samples: how many there are, and the means of their metrics.

A file of samples may have been cut off, or may be that of another evaluation; its own lines cannot tell.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from holdfast.interop.importing.foreign_eval import ForeignSample, ForeignState, ForeignTrial
from holdfast.interop.importing.foreign_values import list_of, map_of, number_of

_MOST_PLANNED = 1_000_000
_EQUAL = 1e-6
_USUAL_MEANS = frozenset({"acc", "acc_norm", "exact_match"})
"""Metrics that are means where nothing says how they are made of samples."""


def reported_count(results: dict[str, Any], task: str) -> int | None:
    """How many samples of a task were evaluated; None where nothing says so."""
    given = map_of(map_of(results.get("n-samples")).get(task)).get("effective")
    return given if isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= _MOST_PLANNED else None


def reported_tasks(results: dict[str, Any]) -> list[str]:
    """The tasks whose samples were evaluated."""
    return list(map_of(results.get("n-samples")))


def missing_trials(results: dict[str, Any], task: str, model: str, seen: set[str]) -> list[ForeignTrial]:
    """The samples of a task that were evaluated and are not among those seen; they are numbered from 0."""
    count = reported_count(results, task) or 0
    free = (name for number in range(2 * count) if (name := str(number)) not in seen)
    return [
        ForeignTrial(f"sample {name}", task, model, ForeignSample(name), ForeignState.NOT_STARTED)
        for name, _ in zip(free, range(count - len(seen)), strict=False)
    ]


class ReportedMeans:
    """Compares the means of a task with those that were reported."""

    def __init__(self, results: dict[str, Any], task: str) -> None:
        self._task, self._reported = task, map_of(map_of(results.get("results")).get(task))
        config = map_of(map_of(results.get("configs")).get(task))
        self._aggregations = {
            str(metric["metric"]): metric.get("aggregation")
            for metric in map(map_of, list_of(config.get("metric_list")))
            if isinstance(metric.get("metric"), str)
        }
        self._values: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def add(self, metric: str, under: str, value: Any) -> None:
        """Takes the value of a metric of one sample under a filter."""
        number = number_of(value)
        if number is not None and self._is_mean(metric):
            known = self._values[f"{metric},{under}"]
            known[0] += number
            known[1] += 1

    def _is_mean(self, metric: str) -> bool:
        aggregation = self._aggregations.get(metric)
        return aggregation == "mean" or (aggregation is None and metric in _USUAL_MEANS)

    def faults(self) -> list[str]:
        """The means that are others than those reported."""
        found = []
        for name, (total, count) in self._values.items():
            theirs, ours = number_of(self._reported.get(name)), total / count
            if theirs is not None and abs(theirs - ours) > _EQUAL * max(1.0, abs(theirs)):
                found.append(f"{self._task}: {name} is {theirs:g} in the results, and {ours:g} over the samples here")
        return found
