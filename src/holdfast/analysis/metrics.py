"""Metrics: trials added up so that the sums do not depend on the order in which they are read.

Interrupted or not, a run gives the same figures to the last bit: floats are summed exactly before they are rounded.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter

import msgspec

from holdfast.models.message import Usage
from holdfast.run.core.records import Status, TrialRecord


class Metric(msgspec.Struct, frozen=True, omit_defaults=True):
    """A figure, and the number of trials it was computed from."""

    value: float
    stderr: float | None
    n: int


class TrialTotals:
    """The trials of one group: one task and model, and perhaps one value on an axis."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.usage = Usage()
        self._costs = array("d")
        self._values: dict[str, array[float]] = {}

    def add(self, trial: TrialRecord) -> None:
        """Adds a final record that counts."""
        self.statuses[trial.status.value] += 1
        self._add_cost(trial)
        for scorer, value in trial.scores.items():
            self.add_score(scorer, value)

    def add_score(self, scorer: str, value: float) -> None:
        self._values.setdefault(scorer, array("d")).append(value)

    def add_failed(self, trial: TrialRecord) -> None:
        """Adds what a failed attempt has cost; another attempt follows, or remains."""
        self._add_cost(trial)

    def _add_cost(self, trial: TrialRecord) -> None:
        self._costs.append(trial.cost)
        if trial.usage is not None:
            self.usage = self.usage + trial.usage

    @property
    def cost(self) -> float:
        return math.fsum(self._costs)

    @property
    def valid(self) -> int:
        return self.statuses[Status.VALID.value]

    @property
    def kept(self) -> int:
        return sum(self.statuses[status.value] for status in Status if status.is_kept)

    def metrics(self) -> dict[str, dict[str, Metric]]:
        """For each scorer its accuracy, where every score is 0 or 1, else its mean."""
        return {scorer: {_metric_name(values): _mean_metric(values)} for scorer, values in sorted(self._values.items())}


def _metric_name(values: array[float]) -> str:
    return "accuracy" if all(value in (0.0, 1.0) for value in values) else "mean"


def _mean_metric(values: array[float]) -> Metric:
    n = len(values)
    mean = math.fsum(values) / n
    if n < 2:
        return Metric(mean, None, n)
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    return Metric(mean, math.sqrt(variance / n), n)
