"""The share of passes without the errors of the judge that counted them.

The estimate is that of Rogan and Gladen (1978). Its interval is that of Lang and Reiczigel (2014), which allows for the
judge's rates being estimates too, from a limited number of labels. `docs/metrics.md` has the formulas.
"""

from __future__ import annotations

import math
from fractions import Fraction

import msgspec

from holdfast.analysis.intervals import Interval, Z, wilson_interval

TOO_FEW = "too few labels"


class Share(msgspec.Struct, frozen=True):
    """A share of observations, with Wilson's 95 % interval."""

    value: float
    interval: Interval
    n: float
    """The number of observations; one sample may be divided over several shares."""


class Corrected(msgspec.Struct, frozen=True):
    """The estimated share of answers that people would pass, with its 95 % interval."""

    value: float
    interval: Interval


def share_of(part: Fraction, whole: Fraction) -> Share | None:
    """The share of a part; None of nothing."""
    if not whole:
        return None
    value = float(part / whole)
    return Share(value, wilson_interval(value, float(whole)), float(whole))


def corrected_share(rate: Share | None, tpr: Share | None, tnr: Share | None) -> Corrected | str:
    """The judge's share of passes corrected for its errors, or the reason why it cannot be."""
    if rate is None:
        return "there are no scores"
    if tpr is None or tnr is None:
        return f"no labelled answer is a {'pass' if tpr is None else 'fail'}"
    if tpr.value + tnr.value <= 1:
        return "the verdicts are no better than chance (TPR + TNR is not above 1)"
    if _shrunk(tpr) + _shrunk(tnr) <= 1:
        # Moved towards one half, as the limits need it, a judge with very few labels may be no better than chance.
        return TOO_FEW
    value = (rate.value + tnr.value - 1) / (tpr.value + tnr.value - 1)
    low, high = _limits(rate, tpr, tnr)
    return Corrected(_clipped(value), (_clipped(low), _clipped(high)))


def _limits(rate: Share, tpr: Share, tnr: Share) -> Interval:
    n = rate.n + Z * Z
    seen = (rate.n * rate.value + Z * Z / 2) / n
    hit, rejected = _shrunk(tpr), _shrunk(tnr)
    gain = hit + rejected - 1
    centre = (seen + rejected - 1) / gain
    hit_noise = hit * (1 - hit) / (tpr.n + 2)
    rejected_noise = rejected * (1 - rejected) / (tnr.n + 2)
    shift = 2 * Z * Z * (centre * hit_noise - (1 - centre) * rejected_noise)
    noise = seen * (1 - seen) / n + centre**2 * hit_noise + (1 - centre) ** 2 * rejected_noise
    half = Z * math.sqrt(noise) / gain
    return centre + shift - half, centre + shift + half


def _shrunk(share: Share) -> float:
    """The share with one observation of either kind added."""
    return (share.n * share.value + 1) / (share.n + 2)


def _clipped(value: float) -> float:
    return min(max(value, 0.0), 1.0)
