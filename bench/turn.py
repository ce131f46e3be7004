"""`python -P turn.py TREE MODULE DIRECTORY ROUNDS SIZE`: one turn of a benchmark of the tree; it prints the figures.

It is run by its path with TREE first on PYTHONPATH, so that the modules it imports are TREE's. TREE may be older than
this file, which therefore uses no more of it than every version with benchmarks has.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import bench.measure
import holdfast


def main(tree: str, module: str, directory: str, rounds: str, size: str) -> None:
    """Takes each side of the benchmark `rounds` times; figures are medians of these."""
    for package in (bench, holdfast):
        _prove(package, Path(tree))
    _set_rounds(int(rounds))
    benchmark = importlib.import_module(module)
    if hasattr(benchmark, "_TURNS"):
        benchmark._TURNS = int(rounds)  # noqa: SLF001 - older versions have no other way
    figures = benchmark.measure(bench.measure.Setting(Path(directory), size == "quick"))
    print(json.dumps([{key: getattr(figure, key) for key in ("name", "what", "value", "unit")} for figure in figures]))


def _prove(package: ModuleType, tree: Path) -> None:
    """An installed package that wins over the tree's would be measured in its place."""
    found = Path(str(package.__file__)).resolve()
    if not found.is_relative_to(tree.resolve()):
        sys.exit(f"{package.__name__} was loaded from {found}, which is not in {tree}")


def _set_rounds(rounds: int) -> None:
    """Both places where a version has them: a constant, and a default that was bound to it on import."""
    bench.measure.ROUNDS = rounds
    bench.measure.median_of.__kwdefaults__["rounds"] = rounds


if __name__ == "__main__":
    main(*sys.argv[1:])
