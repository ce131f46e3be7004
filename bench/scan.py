"""scan: reading every record of a journal, against the zstd program on the same files."""

from __future__ import annotations

import shutil
from collections import deque
from pathlib import Path

from bench.measure import Figure, Setting, Target, cpu_of, cpu_of_child, median_of
from bench.workload import journal_bytes, segments, write_steps
from holdfast.run import RunReader


def measure(setting: Setting) -> list[Figure]:
    root = steps_run(setting)
    stored = journal_bytes(root / "journal")
    reader = RunReader(root, index=root / "index.sqlite")
    program = shutil.which("zstd")
    sides = [lambda: cpu_of(lambda: _read_all(reader))]
    if program:
        sides.append(lambda: cpu_of_child([program, "-dcq", *segments(root)]))
    ours, *floor = median_of(*sides)
    reader.close()
    what = f"every record of {stored / 1e6:.0f} MB, CPU (floor: zstd -d)"
    if not floor:
        return [Figure("scan", f"{what}, not there", ours, "s")]
    return [Figure("scan", what, ours, "s", floor[0], Target("ratio", "at most", 2.0))]


def steps_run(setting: Setting) -> Path:
    """The run of step records that several benchmarks read; written once."""
    root = setting.directory / "steps"
    if not root.exists():
        write_steps(root, setting.size(200_000_000, 20_000_000))
    return root


def _read_all(reader: RunReader) -> None:
    deque(reader.stream([]), maxlen=0)
