"""memory: whether a long run needs more memory, or more CPU for each trial, than a short one."""

from __future__ import annotations

import itertools
import shutil
import statistics

from bench.measure import ROUNDS, Figure, Setting, Target, run_part


def measure(setting: Setting) -> list[Figure]:
    few, many = 1_000, setting.size(100_000, 5_000)
    found: dict[int, list[dict[str, float]]] = {few: [], many: []}
    for turn, count in itertools.product(range(ROUNDS), found):
        place = setting.directory / f"memory-{turn}"
        found[count].append(run_part("write", place, count))
        shutil.rmtree(place)
    peaks = {count: statistics.median(numbers["peak_mb"] for numbers in rows) for count, rows in found.items()}
    each = {count: statistics.median(numbers["cpu"] for numbers in rows) / count * 1e6 for count, rows in found.items()}
    flat = Target("ratio", "at most", 1.5)
    return [
        Figure("memory", f"peak, writing {many:,} trials (floor: {few:,})", peaks[many], "MB", peaks[few]),
        Figure("memory", "the difference", peaks[many] - peaks[few], "MB", target=Target("value", "at most", 60)),
        Figure("memory", f"CPU a trial of {many:,} (floor: of {few:,})", each[many], "µs", each[few], flat),
    ]
