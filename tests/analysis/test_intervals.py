"""Intervals without a library of statistics: values of published tables and closed forms, to at least nine digits."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import NormalDist

import pytest

from holdfast.analysis.intervals import Z, t_interval, t_quantile, wilson_interval

T_TABLE = {
    1: 12.706204736174698, 2: 4.302652729749464, 3: 3.182446305283708, 4: 2.776445105197793, 5: 2.570581835636314,
    9: 2.2621571628540993, 10: 2.2281388519649385, 30: 2.0422724563012373, 100: 1.9839715185235514,
    1000: 1.9623390808264074,
}  # fmt: skip


def test_the_normal_quantile_is_that_of_the_standard_library():
    assert pytest.approx(NormalDist().inv_cdf(0.975), rel=1e-15) == Z


@pytest.mark.parametrize("freedom", T_TABLE)
def test_quantiles_of_t_are_those_of_the_tables(freedom):
    assert t_quantile(freedom) == pytest.approx(T_TABLE[freedom], rel=1e-9)


def test_one_and_two_degrees_of_freedom_have_closed_forms():
    """The quantile of one is that of Cauchy; that of two is algebraic."""
    assert t_quantile(1) == pytest.approx(math.tan(math.pi * 0.475), rel=1e-12)
    assert t_quantile(2) == pytest.approx(0.95 * math.sqrt(2 / (1 - 0.95**2)), rel=1e-12)


def test_the_series_and_the_expansion_meet():
    """The second differences stay smooth where one way of computing gives way to the other."""
    values = [t_quantile(freedom) for freedom in range(195, 206)]
    steps = [b - a for a, b in pairwise(values)]
    bends = [b - a for a, b in pairwise(steps)]
    assert all(step < 0 for step in steps) and all(bend > 0 for bend in bends)
    assert t_quantile(10**7) == pytest.approx(Z, rel=1e-6)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (15, 20, 0.531299122381256, 0.8881382985923342),
        (0, 4, 0.0, 0.4898908364545974),
        (4, 4, 0.5101091635454026, 1.0),
        (1, 2, 0.0945312057342307, 0.9054687942657693),
    ],
)
def test_wilson_has_its_known_values(successes, n, low, high):
    assert wilson_interval(successes / n, n) == pytest.approx((low, high), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("n", [2, 3, 7, 50, 1000])
def test_wilson_stays_within_0_and_1_and_holds_the_share(n):
    """Also where every sample agrees; the ends are exact there."""
    for successes in range(n + 1):
        low, high = wilson_interval(successes / n, n)
        assert 0.0 <= low <= successes / n <= high <= 1.0 and low < high
    assert (wilson_interval(0.0, n)[0], wilson_interval(1.0, n)[1]) == (0.0, 1.0)


def test_the_interval_of_t_is_symmetric():
    low, high = t_interval(2.0, 0.5, 5)
    assert (low, high) == pytest.approx((2.0 - 0.5 * t_quantile(4), 2.0 + 0.5 * t_quantile(4)))
