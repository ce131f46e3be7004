"""`python -m bench [NAME ...] [--quick] [--json] [--directory PATH]`: the figures, as a table or as JSON.

`python -m bench compare BASE` compares this tree with another version of it: see `bench.compare`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from bench import compare
from bench.measure import Figure, Setting, number, sync_latency
from bench.names import NAMES, module_of, refuse_unknown

_COLUMNS = ("", "figure", "floor", "ratio", "target", "")


def main() -> None:
    words = _arguments()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=words.directory) as name:
        setting = Setting(Path(name), words.quick)
        latency = sync_latency(setting.directory)
        if not words.json:
            print(_heading(latency, quick=words.quick))
        for benchmark in words.names or NAMES:
            found = importlib.import_module(module_of(benchmark)).measure(setting)
            figures += found
            if not words.json:
                print("\n".join(_line(figure) for figure in found), flush=True)
    if words.json:
        print(json.dumps(_document(figures, latency, quick=words.quick), indent=2))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="What holdfast costs, beside the floor.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="smaller sizes: whether it runs, not what it costs")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    parser.add_argument("--directory", type=Path, help="where to write; a temporary directory by default")
    words = parser.parse_args()
    refuse_unknown(words.names, parser)
    return words


def _heading(latency: dict[str, float], *, quick: bool) -> str:
    sync = f"fdatasync here: median {latency['median_ms']:.2f} ms, 90 % {latency['p90_ms']:.2f} ms"
    sizes = "; quick sizes" if quick else ""
    return f"Python {platform.python_version()}; {sync}{sizes}\n" + _row(*_COLUMNS)


def _row(name: str, value: str, floor: str, ratio: str, target: str, verdict: str) -> str:
    return f"{name:<58}{value:>14}{floor:>14}{ratio:>8}  {target:<16}{verdict}".rstrip()


def _line(figure: Figure) -> str:
    floor = number(figure.floor, figure.unit) if figure.floor is not None else ""
    ratio = f"{figure.ratio:.2f}" if figure.ratio is not None else ""
    name = f"{figure.name}: {figure.what}"
    return _row(name, number(figure.value, figure.unit), floor, ratio, _target(figure), figure.verdict)


def _target(figure: Figure) -> str:
    if figure.target is None:
        return "(information)"
    sign = "≤" if figure.target.sense == "at most" else "≥"
    return f"{sign} {figure.target.limit:.3g} {'x floor' if figure.target.of == 'ratio' else figure.unit}"


def _document(figures: list[Figure], latency: dict[str, float], *, quick: bool) -> dict[str, Any]:
    rows = [
        msgspec.to_builtins(figure) | {"ratio": figure.ratio, "verdict": figure.verdict or None} for figure in figures
    ]
    return {"python": platform.python_version(), "quick": quick, "fdatasync": latency, "figures": rows}


if __name__ == "__main__":
    if sys.argv[1:2] == ["compare"]:
        compare.main(sys.argv[2:])
    else:
        main()
