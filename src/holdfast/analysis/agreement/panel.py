"""How far apart the judges of a panel are, and as how many independent ones they count."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import combinations

from holdfast.analysis.agreement.ratings import Ratings, Unit, as_ratings


def mean_spread(units: Ratings | Iterable[Unit]) -> float | None:
    """The mean difference between the highest and the lowest rating of a unit.

    None if no unit has two ratings, or if it is larger than any float.
    """
    found = [(Fraction(max(values)) - Fraction(min(values)), count) for values, count in as_ratings(units).compared()]
    n = sum(count for _, count in found)
    mean = sum((spread * count for spread, count in found), Fraction()) / n if n else None
    return None if mean is None or mean > sys.float_info.max else float(mean)


def effective_judges(units: Ratings | Iterable[Unit]) -> float | None:
    """The number of independent judges whose mean would vary as much as the mean of these: k / (1 + (k - 1) r).

    r is the mean correlation of two judges over the units that both have rated; below 0 it counts as 0, so that a panel
    never counts as more judges than it has. Of scores, r contains what is right in them too: good judges correlate
    because answers differ. It is then a lower bound; of errors (score minus the truth) it is the number itself. None
    for fewer than two judges, or where no two of them have varied over two units or more.
    """
    ratings = as_ratings(units)
    judges = ratings.judges
    found = list(_correlations(ratings, judges))
    if not found:
        return None
    mean = max(math.fsum(found) / len(found), 0.0)
    return len(judges) / (1 + (len(judges) - 1) * mean)


def _correlations(ratings: Ratings, judges: list[str]) -> Iterator[float]:
    """The correlation of each two judges, where it is defined."""
    for one, other in combinations(judges, 2):
        pairs = [
            (Fraction(unit[one]), Fraction(unit[other]), count)
            for unit, count in ratings.combinations()
            if one in unit and other in unit
        ]
        found = _correlation(pairs)
        if found is not None:
            yield found


def _correlation(pairs: list[tuple[Fraction, Fraction, int]]) -> float | None:
    """Pearson's, from exact sums; None where one side does not vary."""
    n = sum(count for *_, count in pairs)
    x, y = sum(x * count for x, _, count in pairs), sum(y * count for _, y, count in pairs)
    xx = n * sum(x * x * count for x, _, count in pairs) - x * x
    yy = n * sum(y * y * count for _, y, count in pairs) - y * y
    xy = n * sum(x * y * count for x, y, count in pairs) - x * y
    if not xx or not yy:
        return None
    # The exact sum itself may be larger than any float, its sign is not.
    return math.copysign(math.sqrt(Fraction(xy * xy) / (xx * yy)), 1 if xy >= 0 else -1)
