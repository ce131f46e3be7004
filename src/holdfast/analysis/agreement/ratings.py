"""What judges gave to the same things, counted by combinations of values.

Equal combinations are counted, not listed: where judges choose from a few values, memory does not grow with the number
of trials. A judge that gave nothing to a unit is simply not in its combination.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

Unit = Mapping[str, float | None]
"""The values that judges gave to one thing, by the judge's name; None, or no entry, where one gave nothing."""


class Ratings:
    """The ratings of units, in any order; can be read as often as wanted."""

    def __init__(self, units: Iterable[Unit] = ()) -> None:
        self._counts: Counter[tuple[tuple[str, float], ...]] = Counter()
        for unit in units:
            self.add(unit)

    def add(self, unit: Unit) -> None:
        """Adds the ratings of one unit."""
        rated = [(judge, value) for judge, value in unit.items() if value is not None]
        self._counts[tuple(sorted(rated))] += 1

    def combinations(self) -> Iterator[tuple[dict[str, float], int]]:
        """Every combination of ratings, and of how many units it is."""
        for rated, count in self._counts.items():
            yield dict(rated), count

    def compared(self) -> Iterator[tuple[list[float], int]]:
        """The values of units with two ratings or more: one rating alone can be compared with nothing."""
        for rated, count in self._counts.items():
            if len(rated) > 1:
                yield [value for _, value in rated], count

    @property
    def judges(self) -> list[str]:
        """Everybody who gave a rating, sorted."""
        return sorted({judge for rated in self._counts for judge, _ in rated})


def as_ratings(units: Ratings | Iterable[Unit]) -> Ratings:
    return units if isinstance(units, Ratings) else Ratings(units)
