"""Metrics: scores added up so that the sums do not depend on the order in which they are read.

Interrupted or not, a run gives the same figures to the last bit: floats are summed exactly before they are rounded.
"""

from __future__ import annotations

import math
from array import array
from fractions import Fraction

import msgspec


class Metric(msgspec.Struct, frozen=True, omit_defaults=True):
    """A figure, and the number of trials it was computed from."""

    value: float
    stderr: float | None
    n: int


class ScoreTotals:
    """The scores of one group: one task and model, and perhaps one value on an axis."""

    def __init__(self) -> None:
        self._values: dict[str, array[float]] = {}

    def add(self, scorer: str, value: float) -> None:
        """Adds a score that counts."""
        self._values.setdefault(scorer, array("d")).append(value)

    def metrics(self) -> dict[str, dict[str, Metric]]:
        """For each scorer its accuracy, where every score is 0 or 1, else its mean."""
        return {scorer: {_metric_name(values): _mean_metric(values)} for scorer, values in sorted(self._values.items())}


def _metric_name(values: array[float]) -> str:
    return "accuracy" if all(value in (0.0, 1.0) for value in values) else "mean"


def _mean_metric(values: array[float]) -> Metric:
    n = len(values)
    try:
        mean = math.fsum(values) / n
        if n < 2:
            return Metric(mean, None, n)
        variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
        return Metric(mean, math.sqrt(variance / n), n)
    except OverflowError:
        # Scores near the largest float: their mean is one too, their squares are not.
        return Metric(float(sum(map(Fraction, values)) / n), None, n)
