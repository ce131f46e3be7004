"""Verdicts of a judge beside labels of people: how often which meets which.

The sample is the unit, as everywhere in a report: the labelled trials of a sample share a weight of 1. Answers to one
question are judged alike more often than answers to different ones; with a weight each, intervals would be too narrow.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import msgspec

from holdfast.analysis.agreement import Kappa, cohen_kappa
from holdfast.analysis.calibration.corrected import Share, share_of

Pair = tuple[bool, bool]
"""Whether the person and the judge have passed the answer."""


class Confusion(msgspec.Struct, frozen=True):
    """Samples by what people and the judge say of them; samples of several trials count in parts."""

    both_pass: float = 0.0
    person_only: float = 0.0
    """Passed by the person alone."""
    judge_only: float = 0.0
    both_fail: float = 0.0

    def plus(self, other: Confusion) -> Confusion:
        """The two together, of different samples."""
        return Confusion(*map(float.__add__, msgspec.structs.astuple(self), msgspec.structs.astuple(other)))

    def agreement(self) -> Share | None:
        return share_of(self._exact(True, True) + self._exact(False, False), self._total())

    def kappa(self) -> Kappa | None:
        return cohen_kappa({pair: self._exact(*pair) for pair in _PAIRS})

    def tpr(self) -> Share | None:
        """Of what people pass, what the judge passes too."""
        return share_of(self._exact(True, True), self._exact(True, True) + self._exact(True, False))

    def tnr(self) -> Share | None:
        """Of what people fail, what the judge fails too."""
        return share_of(self._exact(False, False), self._exact(False, False) + self._exact(False, True))

    def _exact(self, *pair: bool) -> Fraction:
        return Fraction(msgspec.structs.astuple(self)[_PAIRS.index(pair)])

    def _total(self) -> Fraction:
        return sum(map(Fraction, msgspec.structs.astuple(self)), Fraction())


_PAIRS: tuple[Pair, ...] = ((True, True), (True, False), (False, True), (False, False))
"""In the order of the fields."""


class ConfusionCounts:
    """The labelled trials of one judge, added in any order."""

    def __init__(self) -> None:
        self._by_sample: dict[int, Counter[Pair]] = {}
        self.trials = 0

    def add(self, sample: int, *, person: bool, judge: bool) -> None:
        """Adds a trial with both; `sample` is a number for its sample."""
        self._by_sample.setdefault(sample, Counter())[person, judge] += 1
        self.trials += 1

    @property
    def samples(self) -> int:
        return len(self._by_sample)

    def confusion(self) -> Confusion:
        """The weights, summed exactly and rounded once."""
        totals = dict.fromkeys(_PAIRS, Fraction())
        for pairs in self._by_sample.values():
            for pair, count in pairs.items():
                totals[pair] += Fraction(count, pairs.total())
        return Confusion(*map(float, totals.values()))
