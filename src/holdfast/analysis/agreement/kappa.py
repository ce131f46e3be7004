"""Cohen's kappa: the agreement of two judges beyond what their own frequencies would give by chance."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from fractions import Fraction
from typing import Any

import msgspec

from holdfast.analysis.intervals import Interval, Z

Table = Mapping[tuple[Any, Any], Fraction | int]
"""How often one judge gave the first value, and the other one the second; may be fractions of a unit."""
_Share = dict[Hashable, Fraction]


class Kappa(msgspec.Struct, frozen=True):
    """Kappa, and what it rests on."""

    value: float
    stderr: float
    """The large-sample standard error of Fleiss, Cohen and Everitt (1969)."""
    interval: Interval | None
    """The 95 % interval, within -1 and 1; None where the standard error is 0, which says nothing about other units."""


def cohen_kappa(table: Table) -> Kappa | None:
    """Kappa of a table of counts; None where it is not defined: no units, or one value from both judges always."""
    n = sum(table.values(), Fraction())
    if not n:
        return None
    shares = {pair: Fraction(count) / n for pair, count in table.items()}
    first, second = _marginal(shares, 0), _marginal(shares, 1)
    agreed = sum((share for (one, other), share in shares.items() if one == other), Fraction())
    by_chance = sum((share * second.get(value, 0) for value, share in first.items()), Fraction())
    if by_chance == 1:
        return None
    value = float((agreed - by_chance) / (1 - by_chance))
    stderr = math.sqrt(_variance(shares, first, second, agreed, by_chance) / n)
    return Kappa(value, stderr, (max(value - Z * stderr, -1.0), min(value + Z * stderr, 1.0)) if stderr else None)


def _marginal(shares: Mapping[tuple[Any, Any], Fraction], judge: int) -> _Share:
    found: _Share = {}
    for pair, share in shares.items():
        found[pair[judge]] = found.get(pair[judge], Fraction()) + share
    return found


def _variance(
    shares: Mapping[tuple[Any, Any], Fraction], first: _Share, second: _Share, agreed: Fraction, by_chance: Fraction
) -> Fraction:
    """The variance of kappa, times the number of units."""
    total = -((agreed * by_chance - 2 * by_chance + agreed) ** 2)
    for (one, other), share in shares.items():
        # Crosswise: how often the second judge gives the value of the first, and the first that of the second.
        frequencies = second.get(one, Fraction()) + first.get(other, Fraction())
        gain = 1 - by_chance if one == other else 0
        total += share * (gain - frequencies * (1 - agreed)) ** 2
    return total / (1 - by_chance) ** 4
