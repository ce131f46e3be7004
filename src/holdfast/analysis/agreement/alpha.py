"""Krippendorff's alpha: the agreement of any number of judges beyond chance, also where ratings are missing.

Alpha is 1 - Do / De, where Do is the disagreement that was observed within units, and De the one that would be expected
if the same values were dealt out to units by chance. Both are sums over pairs of values. For squared differences, such
a sum over all pairs follows from the sum and the sum of squares, so no matrix of coincidences is needed; ordinal data
are interval data after each value is replaced by its mid-rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Literal

from holdfast.analysis.agreement.ratings import Ratings, Unit, as_ratings

Level = Literal["nominal", "ordinal", "interval"]
"""Whether two values are just different, or one is above the other, or it is above by an amount."""
_Weighted = Sequence[tuple[float, int]]
"""Values, and how often each occurs."""


def krippendorff_alpha(units: Ratings | Iterable[Unit], level: Level) -> float | None:
    """Alpha of ratings at a level of measurement: 1 is full agreement, 0 is what chance would give.

    None where it is not defined: no unit has two ratings, or all values that could be compared are equal, and then
    nobody can say whether the judges would tell different things apart.
    """
    compared = list(as_ratings(units).compared())
    totals: Counter[float] = Counter()
    for values, count in compared:
        for value in values:
            totals[value] += count
    scale = _scale(level, totals)
    expected = _disagreement(sorted(totals.items()), scale)
    if not expected:
        return None
    observed = sum((_within(values, count, scale) for values, count in compared), Fraction())
    return float(1 - (totals.total() - 1) * observed / expected)


_Scale = Callable[[float], Fraction | int] | None
"""A number for a value, so that disagreement is the squared difference; None where values are only equal or not."""


def _scale(level: Level, totals: Counter[float]) -> _Scale:
    if level == "nominal":
        return None
    return Fraction if level == "interval" else _doubled_mid_ranks(totals).__getitem__


def _doubled_mid_ranks(totals: Counter[float]) -> dict[float, int]:
    """For each value, how many ratings are below it and half of those equal to it, times two, to be a whole number."""
    found, below = {}, 0
    for value, count in sorted(totals.items()):
        found[value] = 2 * below + count
        below += count
    return found


def _within(values: Sequence[float], count: int, scale: _Scale) -> Fraction:
    """The disagreement within so many units of the same ratings; each unit counts by its number of ratings."""
    return count * Fraction(_disagreement(list(Counter(values).items()), scale)) / (len(values) - 1)


def _disagreement(values: _Weighted, scale: _Scale) -> Fraction | int:
    """The sum of disagreements over all pairs of these values: of squared differences, or of 1 for different ones."""
    n = sum(count for _, count in values)
    if scale is None:
        # The half of n² - Σn² are pairs: a constant factor, as below, which is the same in both disagreements.
        return n * n - sum(count * count for _, count in values)
    placed = [(scale(value), count) for value, count in values]
    total = sum(place * count for place, count in placed)
    return n * sum(place * place * count for place, count in placed) - total * total
