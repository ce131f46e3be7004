"""open: what it costs to come back to a run with many finished trials, with its index and without."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.measure import Figure, Setting, Target, median_of, run_part

_TARGET = Target("value", "at most", 1.0)


def measure(setting: Setting) -> list[Figure]:
    count = setting.size(100_000, 5_000)
    written = setting.directory / "trials"
    run_part("write", written, count)
    copies = (setting.directory / f"opened-{number}" for number in itertools.count())
    parts = [("resume", True), ("read", True), ("bare", True), ("resume", False)]
    resume, read, bare, rebuild = median_of(*(_side(written, copies, part, indexed=index) for part, index in parts))
    what = f"{count:,} finished trials"
    return [
        Figure("open", f"resume, {what}, CPU", resume, "s", bare, _TARGET),
        Figure("open", f"read, {what}, CPU", read, "s", bare, _TARGET),
        Figure("open", "resume without the index, CPU", rebuild, "s", bare, Target("value", "at most", 5.0)),
    ]


def _side(written: Path, copies: Iterator[Path], part: str, *, indexed: bool) -> Callable[[], float]:
    """One opening of a fresh copy of the run, by a user whose own cache is empty."""

    def side() -> float:
        place = next(copies)
        shutil.copytree(written, place / "run")
        if not indexed:
            (place / "run" / "index.sqlite").unlink(missing_ok=True)
        numbers = run_part(part, place / "run", cache=place / "cache")
        shutil.rmtree(place)
        return numbers["cpu"]

    return side
