"""memory: whether a long run needs more memory, or more CPU for each trial, than a short one.

Once for the journal alone, and once for the whole: an eval carried out by the engine on the scripted model.
"""

from __future__ import annotations

import itertools
import shutil
import statistics

from bench.evals import write_dataset
from bench.measure import Figure, Setting, Target, run_part

FEW = 1_000
_TURNS = 3


def measure(setting: Setting) -> list[Figure]:
    return [*_compared(setting, "write"), *_compared(setting, "evaluate")]


def _compared(setting: Setting, part: str) -> list[Figure]:
    many = setting.size(100_000, 5_000)
    found: dict[int, list[dict[str, float]]] = {FEW: [], many: []}
    for turn, count in itertools.product(range(_TURNS), found):
        found[count].append(_one(setting, part, turn, count))
    peaks = {count: statistics.median(numbers["peak_mb"] for numbers in rows) for count, rows in found.items()}
    each = {count: statistics.median(numbers["cpu"] for numbers in rows) / count * 1e6 for count, rows in found.items()}
    what = {"write": "records of {:,} trials written", "evaluate": "{:,} trials evaluated"}[part].format(many)
    flat = Target("ratio", "at most", 1.5)
    return [
        Figure("memory", f"{what}, peak (floor: {FEW:,})", peaks[many], "MB", peaks[FEW]),
        Figure("memory", "the difference", peaks[many] - peaks[FEW], "MB", target=Target("value", "at most", 60)),
        Figure("memory", f"{what}, CPU each (floor: {FEW:,})", each[many], "µs", each[FEW], flat),
    ]


def _one(setting: Setting, part: str, turn: int, count: int) -> dict[str, float]:
    """One process of its own that writes, or evaluates, a run of so many trials."""
    place = setting.directory / f"{part}-{turn}"
    words = [place, count]
    if part == "evaluate":
        words = [place, write_dataset(setting.directory / f"questions-{count}.jsonl", count), count]
    numbers = run_part(part, *words)
    shutil.rmtree(place)
    return numbers
