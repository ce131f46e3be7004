"""One figure of two trees over several rounds, and what may be said about it.

Every round measures the base, this tree, and the base again. Were the two trees alike, then of the three numbers of a
round each would be the highest as often as the others, however noisy the machine is: once in three. So "slower" is
said only where this tree is the worst of the three in so many rounds, and "faster" only where it is the best in so
many, that chance alone says either in less than one comparison in a hundred: in all of five rounds, in eight of ten.
"""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

CHANCE = 0.01
SMALLEST = 0.01
"""Below one in a hundred nothing is said: another order of the same code may make as much."""


class Round(NamedTuple):
    """What a figure was in one round, in the order of the turns."""

    base: float
    here: float
    again: float

    @property
    def ratio(self) -> float:
        """This tree against the base before and after it, so that a steady drift cancels out."""
        return self.here / math.sqrt(self.base * self.again)

    @property
    def noise(self) -> float:
        """The base against itself."""
        return self.again / self.base


class Paired(NamedTuple):
    """One figure, round by round."""

    name: str
    what: str
    unit: str
    rounds: list[Round]

    @property
    def base(self) -> float:
        return statistics.median(number for found in self.rounds for number in (found.base, found.again))

    @property
    def here(self) -> float:
        return statistics.median(found.here for found in self.rounds)

    @property
    def is_comparable(self) -> bool:
        """A difference may be nothing or less, and then has no ratio."""
        return all(min(found) > 0 for found in self.rounds)

    @property
    def ratios(self) -> list[float]:
        return [found.ratio for found in self.rounds] if self.is_comparable else []

    @property
    def noise(self) -> list[float]:
        return [found.noise for found in self.rounds] if self.is_comparable else []

    @property
    def ratio(self) -> float | None:
        return statistics.median(self.ratios) if self.is_comparable else None

    @property
    def verdict(self) -> str:
        if self.ratio is None:
            return "no ratio"
        needed = rounds_needed(len(self.rounds))
        if needed is None:
            return "too few rounds"
        if self._higher() < needed and self._lower() < needed:
            return "within noise"
        return self._word() if abs(self.ratio - 1) >= SMALLEST else "within 1 %"

    def _higher(self) -> int:
        return sum(found.here > max(found.base, found.again) for found in self.rounds)

    def _lower(self) -> int:
        return sum(found.here < min(found.base, found.again) for found in self.rounds)

    def _word(self) -> str:
        """Of a rate more is better, of anything else less."""
        lower, higher = ("less", "more") if self.unit == "MB" else ("faster", "slower")
        if self.unit.endswith("/s"):
            lower, higher = higher, lower
        return higher if self._higher() > self._lower() else lower


def rounds_needed(rounds: int) -> int | None:
    """In how many rounds one side of three has to be the worst, or the best; None where all of them are too few."""
    return next((count for count in range(rounds + 1) if 2 * _chance(count, rounds) < CHANCE), None)


def _chance(count: int, rounds: int) -> float:
    """The chance that one of three equals is the highest in at least `count` rounds."""
    ways = (math.comb(rounds, number) * 2 ** (rounds - number) for number in range(count, rounds + 1))
    return sum(ways) / 3**rounds
