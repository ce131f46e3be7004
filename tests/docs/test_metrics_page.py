"""docs/metrics.md: its example is computed here, figure by figure, by the code that computes reports."""

from __future__ import annotations

import math
import re
import statistics
from pathlib import Path

from holdfast.analysis.intervals import t_quantile, wilson_interval
from holdfast.analysis.metrics import Metric, ScoreTotals
from holdfast.analysis.report import GroupReport
from holdfast.analysis.score_table import score_table
from holdfast.models.message import Usage
from holdfast.run.fold.states import StateCounts

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
SCORES = {
    name: list(map(float, scores.split(" | ")))
    for name, scores in re.findall(r"^\| (\w\w) \| ([01] \| [01] \| [01]) \|", PAGE, re.MULTILINE)
}


def metrics_of(epochs: int) -> dict[str, dict[str, Metric]]:
    totals = ScoreTotals()
    for number, scores in enumerate(SCORES.values()):
        for score in scores[:epochs]:
            totals.add("exact", score, number, is_repeated=epochs > 1)
    return totals.metrics()


def test_the_example_has_the_figures_that_a_report_would_have():
    metric = metrics_of(3)["exact"]["accuracy"]
    assert (metric.n_samples, metric.n_trials) == (4, 12)
    stderr = metric.stderr or math.nan
    assert f"= {metric.value:.4f}. The standard error is {stderr:.4f}: s = {2 * stderr:.4f}, divided by √4." in PAGE
    assert f"t = {t_quantile(3):.4f}, so the interval is {metric.value:.4f} ± {t_quantile(3) * stderr:.4f}:" in PAGE
    trials = [score for scores in SCORES.values() for score in scores]
    assert f"the standard error would be {statistics.stdev(trials) / math.sqrt(12):.4f}" in PAGE


def test_the_example_has_the_table_that_is_printed():
    coverage = StateCounts(planned=12, finished=12, valid=12)
    table = score_table({"capitals": {"small": GroupReport(metrics_of(3), coverage, Usage(), None)}}, "USD")
    assert "```\n" + "\n".join(table) + "\n```\n" in PAGE


def test_one_epoch_has_the_interval_of_wilson():
    metric = metrics_of(1)["exact"]["accuracy"]
    low, high = metric.interval or (math.nan, math.nan)
    assert f"the value is {metric.value:.2f}, and Wilson's interval is [{low:.3f}, {high:.3f}]" in PAGE
    low, high = wilson_interval(1.0, 4)
    assert f"4 right answers of 4 are [{low:.3f}, {high:.3f}]" in PAGE
