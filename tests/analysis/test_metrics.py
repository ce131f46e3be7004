"""The sample is the unit of every figure: repeating one gives no more evidence."""

from __future__ import annotations

import math
import statistics
import tracemalloc

import pytest

from engine.virtual import seeded
from holdfast.analysis.intervals import t_interval, wilson_interval
from holdfast.analysis.metrics import Metric, ScoreTotals


def metric_of(scores: list[tuple[int, float]], *, is_repeated: bool = True) -> tuple[str, Metric]:
    """The name and the metric of scores, each with the number of its sample."""
    totals = ScoreTotals()
    for sample, value in scores:
        totals.add("s", value, sample, is_repeated=is_repeated)
    ((name, metric),) = totals.metrics()["s"].items()
    return name, metric


def test_four_samples_of_ten_epochs_are_four_observations():
    """The error is that of the four means, and not that of the forty scores."""
    scores = [(sample, float((sample + epoch) % (sample + 2) == 0)) for sample in range(4) for epoch in range(10)]
    means = [statistics.fmean(value for at, value in scores if at == sample) for sample in range(4)]
    name, metric = metric_of(scores)
    assert (name, metric.n_samples, metric.n_trials) == ("accuracy", 4, 40)
    assert metric.value == pytest.approx(statistics.fmean(means))
    assert metric.stderr == pytest.approx(statistics.stdev(means) / math.sqrt(4))
    assert metric.interval == t_interval(metric.value, metric.stderr, 4)


def test_wilson_is_for_samples_that_are_0_or_1_after_the_reduction():
    """Epochs that agree keep it; one sample whose epochs differ makes it Student's t."""
    agreeing = [(sample, float(sample % 2)) for sample in range(6) for _ in range(3)]
    assert metric_of(agreeing)[1].interval == wilson_interval(0.5, 6)
    name, metric = metric_of([*agreeing[:-1], (5, 0.0)])
    low, high = t_interval(metric.value, metric.stderr, 6)
    # A share lies between 0 and 1, whatever t says.
    assert low < 0 and name == "accuracy" and metric.interval == (0.0, high)


def test_all_alike_has_an_interval_only_by_wilson():
    """Ten right answers do not prove that all are right; ten equal scores of another kind have no spread to go by, so
    no interval is claimed.
    """
    right = metric_of([(sample, 1.0) for sample in range(10)])[1]
    assert (right.value, right.stderr, right.interval) == (1.0, 0.0, wilson_interval(1.0, 10))
    half = metric_of([(sample, 0.5) for sample in range(10)])[1]
    assert (half.stderr, half.interval) == (0.0, None)
    # Right once in two epochs, each of them.
    assert metric_of([(sample, float(epoch)) for sample in range(2) for epoch in (0, 1)])[1].interval is None


def test_only_the_interval_of_a_share_is_cut():
    """A scorer that may give any number keeps what t says."""
    totals = ScoreTotals()
    for sample in range(3):
        totals.add("s", [0.0, 0.5, 1.0][sample], sample, is_repeated=False)
    (cut,), (whole,) = totals.metrics({"s"})["s"].values(), totals.metrics(set())["s"].values()
    assert cut.interval == (0.0, 1.0) and cut.stderr == whole.stderr
    assert whole.interval == t_interval(whole.value, whole.stderr, 3) and whole.interval[0] < 0


@pytest.mark.parametrize("trials", [1, 7])
def test_one_sample_has_neither_error_nor_interval(trials):
    assert metric_of([(3, 1.0)] * trials)[1] == Metric(1.0, None, None, 1, trials)


def test_a_sample_counts_once_however_often_it_was_repeated():
    """Unequal numbers of epochs, as in a run that was cut short, give no sample more weight."""
    _, metric = metric_of([(1, 1.0)] * 9 + [(2, 0.0)])
    assert (metric.value, metric.n_samples, metric.n_trials) == (0.5, 2, 10)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_scores_changes_no_bit(seed):
    rng = seeded(seed)
    scores = [(rng.randrange(2**64), rng.random() * 10 ** rng.randrange(-9, 9)) for _ in range(40)] * 3
    found = set()
    for _ in range(5):
        rng.shuffle(scores)
        found.add(metric_of(scores))
    assert len(found) == 1


def test_scores_near_the_largest_float_have_a_mean():
    """Their sum is no float, and neither are the squares of very large or very small ones; their errors are."""
    for scores, samples in (([(sample, 1e308) for sample in (1, 2, 3)], 3), ([(1, 1e308), (1, 1e308), (2, 1e308)], 2)):
        found = metric_of(scores)[1]
        assert (found.value, found.stderr, found.n_samples, found.n_trials) == (1e308, 0.0, samples, 3)
    assert metric_of([(1, 1e-200), (2, 3e-200), (3, 2e-200)])[1].stderr == pytest.approx(1e-200 / 3**0.5)
    assert metric_of([(1, 1e300), (2, 0.0)])[1].stderr == pytest.approx(5e299)


def test_scores_take_sixteen_bytes_each():
    """A run of many trials is reported without holding an object for each of them."""
    tracemalloc.start()
    try:
        totals = ScoreTotals()
        for number in range(50_000):
            totals.add("s", float(number % 2), number, is_repeated=False)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 50_000 * 16 * 1.3
