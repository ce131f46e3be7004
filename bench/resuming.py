"""resume: what it costs to go on with a run that is all but finished, until its model is asked again."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.evals import write_dataset
from bench.measure import Figure, Setting, Target, median_of, run_module, run_part


def measure(setting: Setting) -> list[Figure]:
    count = setting.size(100_000, 5_000)
    dataset = write_dataset(setting.directory / f"questions-{count + 1}.jsonl", count + 1)
    written = setting.directory / "all-but-one"
    run_part("evaluate", written, dataset, count + 1)
    copies = (setting.directory / f"resumed-{number}" for number in itertools.count())
    indexed, rebuilt = median_of(_side(written, copies, indexed=True), _side(written, copies, indexed=False))
    what = f"first call after {count:,} finished trials, CPU"
    return [
        Figure("resume", what, indexed, "s", target=Target("value", "at most", 1.0)),
        Figure("resume", "the same without the index, CPU", rebuilt, "s", target=Target("value", "at most", 5.0)),
    ]


def _side(written: Path, copies: Iterator[Path], *, indexed: bool) -> Callable[[], float]:
    """One resume of a fresh copy of the run, by a user whose own cache is empty."""

    def side() -> float:
        place = next(copies)
        shutil.copytree(written, place / "run")
        if not indexed:
            (place / "run" / "index.sqlite").unlink()
        numbers = run_module("bench.first_call", place / "run", cache=place / "cache")
        shutil.rmtree(place)
        return numbers["cpu"]

    return side
