"""95 % confidence intervals of a mean over samples, without a library of statistics.

Wilson's interval is for shares, where every sample is 0 or 1: it stays within 0 and 1, and has a width also where all
samples agree. For other scores the interval is that of Student's t, if they differ at all. `docs/metrics.md` has the
formulas.
"""

from __future__ import annotations

import math

Interval = tuple[float, float]

Z = 1.959963984540054
"""The 97.5 % quantile of the normal distribution: 2.5 % are left out on either side."""
_P = 0.975
_SERIES_BELOW = 200
"""From so many degrees of freedom on, the expansion of the quantile is exact to eleven digits."""
_PRECISION = 1e-15


def wilson_interval(mean: float, n: float) -> Interval:
    """The interval of a share `mean` of `n` samples."""
    shrink = 1 + Z * Z / n
    centre = mean + Z * Z / (2 * n)
    half = Z * math.sqrt(mean * (1 - mean) / n + Z * Z / (4 * n * n))
    # At the ends the exact bounds are 0 and 1; rounding would miss them by a hair.
    low = 0.0 if mean == 0 else (centre - half) / shrink
    high = 1.0 if mean == 1 else (centre + half) / shrink
    return low, high


def t_interval(mean: float, stderr: float, n: int) -> Interval:
    """The interval of the mean of `n` samples with this standard error; `n` is 2 at least."""
    half = t_quantile(n - 1) * stderr
    return mean - half, mean + half


def t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t with so many degrees of freedom, to at least ten digits."""
    t = _expanded_quantile(freedom)
    if freedom >= _SERIES_BELOW:
        return t
    # Newton's method; the expansion is below the quantile, and from there every step comes closer.
    for _ in range(50):
        step = (_P - _cdf(t, freedom)) / _density(t, freedom)
        t += step
        if abs(step) <= _PRECISION * t:
            break
    return t


def _expanded_quantile(freedom: int) -> float:
    """Fisher's expansion of the quantile in powers of 1 / freedom, around the normal one."""
    z, v = Z, float(freedom)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / v**power for power, term in enumerate(terms, 1))


def _cdf(t: float, freedom: int) -> float:
    """The distribution function of Student's t for t > 0: a finite series for whole degrees of freedom."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = freedom % 2
    total, term = 0.0, cosine if is_odd else 1.0
    for power in range(1 + is_odd, freedom, 2):
        total += term
        term *= cosine * cosine * power / (power + 1)
    inside = 2 / math.pi * (angle + sine * total) if is_odd else sine * total
    return 0.5 + inside / 2


def _density(t: float, freedom: int) -> float:
    v = float(freedom)
    scale = math.exp(math.lgamma((v + 1) / 2) - math.lgamma(v / 2)) / math.sqrt(v * math.pi)
    return scale * math.pow(1 + t * t / v, -(v + 1) / 2)
