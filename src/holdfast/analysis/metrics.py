"""Metrics: the mean of a scorer over samples, with its standard error and 95 % interval.

The unit is the sample: all trials of a sample (its epochs, and its values on axes) are reduced to their mean before
anything else is computed. Repeating 4 samples 10 times gives 4 observations, not 40.

Interrupted or not, a run gives the same figures to the last bit: floats are summed exactly before they are rounded.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from itertools import groupby

import msgspec

from holdfast.analysis.intervals import Interval, t_interval, wilson_interval

ACCURACY, MEAN = "accuracy", "mean"


class Metric(msgspec.Struct, frozen=True):
    """A figure, and what it rests on."""

    value: float
    """The mean over samples."""
    stderr: float | None
    """Of that mean; None for fewer than two samples."""
    interval: Interval | None
    """The 95 % interval; None for fewer than two samples, and where all agree on a value that is not 0 or 1."""
    n_samples: int
    """How many samples have a score: the number of observations."""
    n_trials: int
    """How many trials have one."""


class ScoreTotals:
    """The scores of one group: one task and model, and perhaps one value on an axis."""

    def __init__(self) -> None:
        self._scores: dict[str, SampleScores] = {}

    def add(self, scorer: str, value: float, sample: int, *, is_repeated: bool) -> None:
        """Adds a score that counts; `sample` is a number for its sample, as `SampleScores.add` takes it."""
        scores = self._scores.get(scorer)
        if scores is None:
            scores = self._scores[scorer] = SampleScores()
        scores.add(value, sample, is_repeated=is_repeated)

    def metrics(self, binary: Collection[str] | None = None) -> dict[str, dict[str, Metric]]:
        """For each scorer its mean, called accuracy for those in `binary`.

        So the name does not depend on the scores, and is the same from the first one on. Where nobody has recorded
        which scorers are binary, in runs of earlier versions, it is accuracy if every score is 0 or 1.
        """
        found = sorted(self._scores.items())
        names = {name for name, scores in found if scores.is_binary} if binary is None else binary
        return {
            name: {ACCURACY if name in names else MEAN: scores.metric(is_share=name in names)} for name, scores in found
        }


class SampleScores:
    """The scores of one scorer: 16 bytes for each, in any order."""

    def __init__(self) -> None:
        self._values, self._samples = array("d"), array("Q")
        self._has_repeats = False

    def add(self, value: float, sample: int, *, is_repeated: bool) -> None:
        """Adds the score of a trial; `is_repeated` unless no other trial in this group can have the same sample."""
        self._values.append(value)
        self._samples.append(sample)
        self._has_repeats = self._has_repeats or is_repeated

    @property
    def is_binary(self) -> bool:
        return _is_binary(self._values)

    def metric(self, *, is_share: bool = False) -> Metric:
        """The mean; of a share it is known that it lies between 0 and 1."""
        means = self.means()
        n, value = len(means), _mean(means)
        if n < 2:
            return Metric(value, None, None, n, len(self._values))
        stderr = _standard_error(means, value)
        return Metric(value, stderr, _interval(means, value, stderr, is_share=is_share), n, len(self._values))

    def means(self) -> array[float]:
        """The mean of each sample's scores, in no particular order."""
        return array("d", map(_mean, self._by_sample())) if self._has_repeats else self._values

    def _by_sample(self) -> Iterator[list[float]]:
        """The scores of each sample."""
        samples, values = self._samples, self._values
        order = sorted(range(len(values)), key=samples.__getitem__)
        for _, places in groupby(order, samples.__getitem__):
            yield [values[place] for place in places]


def _interval(means: Sequence[float], value: float, stderr: float, *, is_share: bool) -> Interval | None:
    """The interval of the mean; None where all samples have the same mean, which says nothing about their spread."""
    if _is_binary(means):
        return wilson_interval(value, len(means))
    if max(means) == min(means):
        return None
    low, high = t_interval(value, stderr, len(means))
    return (max(low, 0.0), min(high, 1.0)) if is_share else (low, high)


def _is_binary(values: Sequence[float]) -> bool:
    return all(value in (0.0, 1.0) for value in values)


def _mean(values: Sequence[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except OverflowError:
        # Near the largest float: the sum is larger than any, the mean is not.
        return float(_exact_mean(values))


def _standard_error(means: Sequence[float], value: float) -> float:
    """That of the mean `value`."""
    n = len(means)
    largest = max(abs(mean) for mean in means)
    # Squares of very large or very small scores are no floats any more: all are scaled by one power of two, which
    # changes no digit.
    scale = math.frexp(largest)[1] if largest else 0
    centre = math.ldexp(value, -scale)
    squares = math.fsum((math.ldexp(mean, -scale) - centre) ** 2 for mean in means)
    return math.ldexp(math.sqrt(squares / (n - 1) / n), scale)


def _exact_mean(values: Sequence[float]) -> Fraction:
    return sum(map(Fraction, values), Fraction()) / len(values)
