"""The share of passes without the judge's errors (experiments 26): published worked examples, and its limits."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from holdfast.analysis.calibration.confusion import Confusion, ConfusionCounts
from holdfast.analysis.calibration.corrected import TOO_FEW, Corrected, Share, corrected_share, share_of


def share(part: float, whole: int) -> Share:
    found = share_of(Fraction(part), Fraction(whole))
    assert found is not None
    return found


def corrected(rate: Share, tpr: Share, tnr: Share) -> Corrected:
    found = corrected_share(rate, tpr, tnr)
    assert isinstance(found, Corrected)
    return found


LANG_AND_REICZIGEL = [
    ((4060, 11284), (178, 179), (358, 359), (0.349, 0.372), 5e-4),
    ((51, 2971), (32, 33), (20, 20), (0.0, 0.053), 5e-4),
    ((0.06 * 11862, 11862), (8, 10), (12, 12), (0.0, 0.147), 5e-4),
    ((259, 509), (84, 127), (96, 109), (0.58, 0.87), 5e-3),
    ((51, 509), (23, 41), (187, 195), (0.037, 0.195), 5e-4),
]


@pytest.mark.parametrize(("rate", "tpr", "tnr", "limits", "digits"), LANG_AND_REICZIGEL)
def test_limits_are_those_of_the_publication(rate, tpr, tnr, limits, digits):
    """Lang and Reiczigel, Preventive Veterinary Medicine 113 (2014) 13-22, examples 1 to 4, with their limits.

    As the manual of the R package asht gives them for prevSeSp. Of the third, the share is given, and not the count.
    """
    assert corrected(share(*rate), share(*tpr), share(*tnr)).interval == pytest.approx(limits, abs=digits)


def test_the_estimate_is_that_of_rogan_and_gladen():
    """The manual of the R package RSurveillance: 20 of 120 positive, sensitivity 0.9, specificity 0.99: 0.17603."""
    assert corrected(share(20, 120), share(90, 100), share(99, 100)).value == pytest.approx(0.17603, abs=5e-6)


@pytest.mark.parametrize("truth", [0.1, 0.5, 0.9])
def test_the_estimate_takes_known_errors_out(truth):
    """Of a judge whose rates are known, the estimate is the truth, and its interval holds it."""
    seen = truth * 0.8 + (1 - truth) * 0.3
    found = corrected(Share(seen, (0.0, 1.0), 10_000), share(8000, 10_000), share(7000, 10_000))
    assert found.value == pytest.approx(truth, abs=1e-12)
    assert found.interval[0] < truth < found.interval[1]


def test_fewer_labels_make_the_interval_wider():
    rate = share(300, 500)
    widths = []
    for n in (10, 100, 1000):
        low, high = corrected(rate, share(9 * n // 10, n), share(8 * n // 10, n)).interval
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True) and widths[0] > 2 * widths[-1]


def test_the_interval_holds_the_truth_in_19_of_20_cases():
    """Simulated with 30 labels of each kind; the limits are approximate, so a little less is allowed."""
    seed = 15
    rng = random.Random(seed)

    def draw(n, p):
        return sum(rng.random() < p for _ in range(n))

    held = 0
    for _ in range(2000):
        rate, tpr, tnr = (
            share(draw(200, 0.6 * 0.85 + 0.4 * 0.2), 200),
            share(draw(30, 0.85), 30),
            share(draw(30, 0.8), 30),
        )
        held += corrected(rate, tpr, tnr).interval[0] <= 0.6 <= corrected(rate, tpr, tnr).interval[1]
    assert 0.93 <= held / 2000 <= 0.99, f"seed {seed}"


def test_estimate_and_limits_stay_within_0_and_1():
    """A judge that passes fewer answers than it wrongly passes elsewhere gives an estimate of 0."""
    low = corrected(share(0, 50), share(9, 10), share(8, 10))
    high = corrected(share(50, 50), share(8, 10), share(9, 10))
    assert (low.value, low.interval[0], high.value, high.interval[1]) == (0.0, 0.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("rate", "tpr", "tnr", "reason"),
    [
        (share(1, 2), None, share(1, 2), "no labelled answer is a pass"),
        (share(1, 2), share(1, 2), None, "no labelled answer is a fail"),
        (None, share(1, 2), share(1, 2), "there are no scores"),
        (share(1, 2), share(1, 2), share(1, 2), "no better than chance"),
        (share(1, 2), share(1, 10), share(8, 10), "no better than chance"),
        (share(1, 2), share(2, 2), share(20, 100), TOO_FEW),
    ],
)
def test_what_cannot_be_corrected_has_a_reason(rate, tpr, tnr, reason):
    """TPR + TNR up to 1, a class without labels, or labels so few that the limits do not exist."""
    found = corrected_share(rate, tpr, tnr)
    assert isinstance(found, str) and reason in found


def test_rates_of_a_table_have_their_denominators():
    """20 passes of people, of which the judge passes 18; 10 fails, of which it fails 7."""
    confusion = Confusion(18.0, 2.0, 3.0, 7.0)
    tpr, tnr, agreement, kappa = confusion.tpr(), confusion.tnr(), confusion.agreement(), confusion.kappa()
    assert tpr == share(18, 20) and tnr == share(7, 10) and agreement == share(25, 30)
    assert kappa is not None
    by_chance = (20 * 21 + 10 * 9) / 900
    assert kappa.value == pytest.approx((25 / 30 - by_chance) / (1 - by_chance))


def test_a_class_without_labels_has_no_rate():
    only_passes = Confusion(both_pass=3.0, person_only=1.0)
    assert only_passes.tnr() is None and only_passes.tpr() == share(3, 4)
    assert Confusion().agreement() is None and Confusion().kappa() is None


def test_trials_of_one_sample_share_its_weight():
    """Ten labelled epochs of a sample say no more about other samples than one (docs/metrics.md)."""
    counts = ConfusionCounts()
    for _ in range(10):
        counts.add(1, person=True, judge=True)
    counts.add(2, person=True, judge=False)
    counts.add(3, person=True, judge=True)
    counts.add(3, person=False, judge=True)
    counts.add(3, person=False, judge=True)
    assert (counts.samples, counts.trials) == (3, 14)
    confusion = counts.confusion()
    assert confusion == Confusion(pytest.approx(4 / 3), 1.0, pytest.approx(2 / 3), 0.0)
    tpr = confusion.tpr()
    assert tpr is not None and tpr.n == pytest.approx(7 / 3) and tpr.value == pytest.approx(4 / 7)


def test_the_table_does_not_depend_on_the_order_of_trials():
    seed = 3
    rng = random.Random(seed)
    trials = [(rng.randrange(20), rng.random() < 0.6, rng.random() < 0.7) for _ in range(200)]
    found = []
    for _ in range(2):
        counts = ConfusionCounts()
        for sample, person, judge in rng.sample(trials, len(trials)):
            counts.add(sample, person=person, judge=judge)
        found.append(counts.confusion())
    assert found[0] == found[1], f"seed {seed}"
