"""Compares our figures with those of Inspect, statsmodels and scipy, and fails where they differ.

The standard error is compared on the same records: a run of ours is made, and Inspect evaluates a task whose scorer
gives every sample and epoch the score that the run has on record. Reduction and metrics are Inspect's own.
"""

import math
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from inspect_side import inspect_metrics  # noqa: E402 - it lies beside this file
from our_side import Recorded, recorded_run  # noqa: E402
from scipy import stats  # noqa: E402
from statsmodels.stats.inter_rater import cohens_kappa  # noqa: E402
from statsmodels.stats.proportion import proportion_confint  # noqa: E402

from holdfast.analysis.agreement import cohen_kappa  # noqa: E402
from holdfast.analysis.intervals import t_interval, t_quantile, wilson_interval  # noqa: E402

TOLERANCE = 1e-9
FREEDOMS = [*range(1, 2001), 10_000, 100_000, 1_000_000]
SAMPLES = [2, 3, 4, 5, 10, 20, 30, 100, 999, 10_000]


class Comparison(NamedTuple):
    """One figure of theirs and of ours."""

    what: str
    theirs: float
    ours: float

    @property
    def difference(self) -> float:
        return abs(self.theirs - self.ours) / max(abs(self.theirs), 1e-3)


def inspect_comparisons(directory: Path) -> Iterator[Comparison]:
    """Mean and standard error of the same records, by scorer and number of epochs."""
    for epochs in (1, 10):
        for kind in ("binary", "graded"):
            recorded = recorded_run(directory / f"{kind}-{epochs}", kind, epochs)
            theirs = inspect_metrics(recorded, epochs, directory / "logs")
            yield Comparison(f"Inspect {kind}, {epochs} epochs: mean", theirs["mean"], recorded.metric.value)
            yield Comparison(f"Inspect {kind}, {epochs} epochs: stderr", theirs["stderr"], _stderr(recorded))


def _stderr(recorded: Recorded) -> float:
    return recorded.metric.stderr if recorded.metric.stderr is not None else math.nan


def wilson_comparisons() -> Iterator[Comparison]:
    for n in SAMPLES:
        for successes in sorted({0, 1, n // 3, n // 2, n - 1, n}):
            theirs = proportion_confint(successes, n, alpha=0.05, method="wilson")
            for end, theirs_at, ours_at in zip(("low", "high"), theirs, wilson_interval(successes / n, n), strict=True):
                yield Comparison(f"statsmodels wilson {successes} of {n}: {end}", float(theirs_at), ours_at)


def t_comparisons() -> Iterator[Comparison]:
    for freedom in FREEDOMS:
        yield Comparison(
            f"scipy t quantile, {freedom} degrees", float(stats.t.ppf(0.975, freedom)), t_quantile(freedom)
        )
    rng = random.Random(12)
    for n in SAMPLES:
        values = [rng.gauss(0.4, 2.0) for _ in range(n)]
        mean, stderr = math.fsum(values) / n, float(stats.sem(values))
        theirs = stats.t.interval(0.95, n - 1, loc=mean, scale=stderr)
        for end, theirs_at, ours_at in zip(("low", "high"), theirs, t_interval(mean, stderr, n), strict=True):
            yield Comparison(f"scipy t interval of {n}: {end}", float(theirs_at), ours_at)


def kappa_comparisons() -> Iterator[Comparison]:
    """Cohen's kappa and its standard error, of tables with two to four values."""
    rng = random.Random(15)
    for size in (2, 3, 4):
        for _ in range(20):
            table = [[rng.randrange(1, 40) for _ in range(size)] for _ in range(size)]
            theirs = cohens_kappa(table)
            ours = cohen_kappa({(row, column): table[row][column] for row in range(size) for column in range(size)})
            if ours is not None:
                yield Comparison(f"statsmodels kappa of {table}", float(theirs.kappa), ours.value)
                yield Comparison(f"statsmodels kappa of {table}: stderr", float(theirs.std_kappa), ours.stderr)


def print_group(name: str, compared: list[Comparison]) -> list[Comparison]:
    """Prints the largest difference of a group; the comparisons that are over the tolerance."""
    worst = max(compared, key=lambda one: one.difference)
    print(f"| {name} | {len(compared)} | {worst.difference:.1e} | {worst.what} |")
    return [one for one in compared if not one.difference <= TOLERANCE]


def main() -> int:
    """Prints the tables; 1 if a figure differs."""
    with tempfile.TemporaryDirectory() as directory:
        inspected = list(inspect_comparisons(Path(directory)))
    print("| same records | Inspect | ours |\n|---|---|---|")
    for one in inspected:
        print(f"| {one.what.removeprefix('Inspect ')} | {one.theirs!r} | {one.ours!r} |")
    print("\n| compared with | figures | largest relative difference | at |\n|---|---|---|---|")
    faults = print_group("inspect-ai", inspected)
    faults += print_group("statsmodels", [*wilson_comparisons(), *kappa_comparisons()])
    faults += print_group("scipy", list(t_comparisons()))
    for fault in faults:
        print(f"DIFFERS: {fault.what}: {fault.theirs!r}, ours {fault.ours!r}")
    print(f"\n{len(faults)} faults.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
