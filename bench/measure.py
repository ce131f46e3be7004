"""Measuring: CPU seconds, our side and the floor by turns, and the median of the rounds.

CPU is the time of all threads of a process; a child's is taken from the operating system when it has ended. Wall time
says more about the neighbours of a machine than about a program, and decides nothing here.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

ROUNDS = 5

Measured = Callable[[], float]


class Target(msgspec.Struct, frozen=True):
    """What a figure, or its ratio to the floor, is meant to be."""

    of: Literal["value", "ratio"]
    sense: Literal["at most", "at least"]
    limit: float

    def is_met(self, value: float, ratio: float | None) -> bool:
        found = value if self.of == "value" else ratio
        if found is None:
            return False
        return found <= self.limit if self.sense == "at most" else found >= self.limit


class Figure(msgspec.Struct, frozen=True):
    """One measured number beside its floor and its target; without a target it is for information."""

    name: str
    what: str
    value: float
    unit: str
    floor: float | None = None
    target: Target | None = None

    @property
    def ratio(self) -> float | None:
        return self.value / self.floor if self.floor else None

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "ok" if self.target.is_met(self.value, self.ratio) else "over"


class Setting(NamedTuple):
    """Where a benchmark works, and whether it takes the small sizes."""

    directory: Path
    quick: bool = False

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full


def number(value: float, unit: str) -> str:
    """A figure as a table shows it."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 3
    return f"{value:,.{digits}f} {unit}"


def median_of(*sides: Measured, rounds: int = ROUNDS) -> tuple[float, ...]:
    """The median CPU of each side, the sides taken by turns in every round."""
    results: list[list[float]] = [[] for _ in sides]
    for turn in range(rounds):
        order = list(zip(sides, results, strict=True))
        for side, found in order if turn % 2 == 0 else reversed(order):
            found.append(side())
    return tuple(statistics.median(found) for found in results)


def cpu_of(work: Callable[[], object]) -> float:
    """CPU seconds that `work` costs this process, all threads together."""
    before = time.process_time()
    work()
    return time.process_time() - before


def cpu_of_child(command: Sequence[str | Path], **options: Any) -> float:
    """CPU seconds of a command from its start to its end; its output is thrown away."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run_part(name: str, *words: object, cache: Path | None = None) -> dict[str, float]:
    """Runs one part of a benchmark (see `bench.part`) in a fresh process; the numbers that it prints."""
    return run_module("bench.part", name, *words, cache=cache)


def run_module(module: str, *words: object, cache: Path | None = None) -> dict[str, float]:
    """Runs a module of the benchmarks in a fresh process; the numbers that it prints."""
    environment = os.environ | ({"XDG_CACHE_HOME": str(cache)} if cache else {})
    # As where it is installed: modules are compiled once, not in every process.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", module, *map(str, words)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment, cwd=_ROOT)
    numbers: dict[str, float] = json.loads(done.stdout)
    return numbers


_ROOT = Path(__file__).resolve().parent.parent


def sync_latency(directory: Path, count: int = 100) -> dict[str, float]:
    """Milliseconds that writing and syncing 4 KiB takes in `directory`; beside the figures, no figure itself."""
    path = directory / "latency"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    found: list[float] = []
    for _ in range(count):
        begun = time.perf_counter()
        os.write(fd, b"x" * 4096)
        os.fdatasync(fd)
        found.append((time.perf_counter() - begun) * 1e3)
    os.close(fd)
    path.unlink()
    found.sort()
    return {"median_ms": found[count // 2], "p90_ms": found[count * 9 // 10], "max_ms": found[-1]}
