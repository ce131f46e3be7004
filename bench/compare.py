"""`python -m bench compare BASE [NAME ...] [--rounds N] [--quick] [--json]`: this tree against another version of it.

Each side runs its own benchmarks, in fresh processes and by turns: base, here, base in every round. The base is
measured twice, so that the same run shows what noise is. What follows from the numbers is said in `bench.paired`.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.base import CompareError, Tree, base_tree
from bench.measure import ROUNDS, number, sync_latency
from bench.names import NAMES, refuse_unknown
from bench.paired import Paired, Round

ROOT = Path(__file__).resolve().parent.parent
_COLUMNS = ("", "base", "here", "ratio", "spread", "base twice", "")
# What is cheap beside its preparation is taken several times in a turn.
_REPEATED = {"group_commit": 3, "check": 3, "help": 5}

Row = dict[str, Any]
Rows = dict[tuple[str, str, int], Row]


class Comparison(NamedTuple):
    """Two trees, and how they are measured."""

    base: Tree
    here: Tree
    rounds: int
    quick: bool
    directory: Path | None

    def measure(self, name: str) -> tuple[list[Paired], list[str]]:
        """The figures of a benchmark that both trees have, and remarks about those that only one has."""
        if not self.base.has(name):
            return [], [f"{name}: the base has no such benchmark"]
        rounds = [[self._turn(tree, name) for tree in (self.base, self.here, self.base)] for _ in range(self.rounds)]
        return paired(rounds), unpaired(rounds[0][0], rounds[0][1])

    def _turn(self, tree: Tree, name: str) -> Rows:
        size, times = ("quick", 1) if self.quick else ("full", _REPEATED.get(name, 1))
        return by_name(json.loads(tree.turn(name, times, size, self.directory)))


def by_name(rows: Sequence[Row]) -> Rows:
    """The figures by what they are called; how many bytes were stored is no part of it, and never quite the same."""
    seen: Counter[tuple[str, str]] = Counter()
    found: Rows = {}
    for row in rows:
        key = (row["name"], re.sub(r"\d+ MB", "MB", row["what"]))
        found[*key, seen[key]] = row
        seen[key] += 1
    return found


def paired(rounds: Sequence[Sequence[Rows]]) -> list[Paired]:
    base, here, _ = rounds[0]
    return [
        Paired(
            row["name"], row["what"], row["unit"], [Round(*(side[key]["value"] for side in sides)) for sides in rounds]
        )
        for key, row in here.items()
        if key in base
    ]


def unpaired(base: Rows, here: Rows) -> list[str]:
    sides = {"the base": base.keys() - here.keys(), "this tree": here.keys() - base.keys()}
    return [f"{name}: {what}: only in {side}" for side, keys in sides.items() for name, what, _ in sorted(keys)]


def main(arguments: Sequence[str]) -> None:
    parser = _parser()
    words = parser.parse_intermixed_args(arguments)
    refuse_unknown(words.names, parser)
    try:
        _compare(words)
    except CompareError as error:
        parser.exit(1, f"{error}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench compare", description="This tree against another version.")
    parser.add_argument("base", metavar="BASE", help="a git revision, or the directory of another checkout")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--rounds", type=_count, default=ROUNDS, help="a verdict takes at least five, the default")
    parser.add_argument("--quick", action="store_true", help="smaller sizes: less time, and more noise")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    parser.add_argument("--directory", type=Path, help="where to write; a temporary directory by default")
    return parser


def _count(word: str) -> int:
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"{word} is no number of rounds")
    return int(word)


def _compare(words: argparse.Namespace) -> None:
    directory = words.directory.resolve() if words.directory else None
    with tempfile.TemporaryDirectory(prefix="holdfast-base-", dir=directory) as place:
        base = base_tree(words.base, ROOT, Path(place))
        comparison = Comparison(base, Tree("this tree", ROOT), words.rounds, words.quick, directory)
        show = _print_json if words.json else _print_table
        show(comparison, words.names or NAMES, sync_latency(Path(place)))


def _print_table(comparison: Comparison, names: Sequence[str], latency: dict[str, float]) -> None:
    print(_heading(comparison, latency), _row(*_COLUMNS), sep="\n", flush=True)
    for name in names:
        figures, remarks = comparison.measure(name)
        print(*map(_line, figures), *remarks, sep="\n", flush=True)


def _heading(comparison: Comparison, latency: dict[str, float]) -> str:
    about = f"base: {comparison.base.label}; rounds: {comparison.rounds}{'; quick sizes' if comparison.quick else ''}"
    return f"Python {platform.python_version()}; fdatasync here: median {latency['median_ms']:.2f} ms; {about}"


def _line(figure: Paired) -> str:
    ratio = "" if figure.ratio is None else f"{figure.ratio:.3f}"
    values = (number(value, figure.unit) for value in (figure.base, figure.here))
    spreads = (_spread(figure.ratios), _spread(figure.noise))
    return _row(f"{figure.name}: {figure.what}", *values, ratio, *spreads, figure.verdict)


def _spread(ratios: list[float]) -> str:
    return f"{min(ratios):.3f}..{max(ratios):.3f}" if ratios else ""


def _row(name: str, base: str, here: str, ratio: str, spread: str, noise: str, verdict: str) -> str:
    return f"{name:<66}{base:>12}{here:>12}{ratio:>8}{spread:>15}{noise:>15}  {verdict}".rstrip()


def _print_json(comparison: Comparison, names: Sequence[str], latency: dict[str, float]) -> None:
    measured = [comparison.measure(name) for name in names]
    about = {"python": platform.python_version(), "base": comparison.base.label, "rounds": comparison.rounds}
    figures = [_document(figure) for found, _ in measured for figure in found]
    remarks = [remark for _, found in measured for remark in found]
    about |= {"quick": comparison.quick, "fdatasync": latency, "figures": figures, "remarks": remarks}
    print(json.dumps(about, indent=2))


def _document(figure: Paired) -> Row:
    keys = ("name", "what", "unit", "base", "here", "ratio", "ratios", "noise", "verdict")
    return {key: getattr(figure, key) for key in keys} | {"rounds": [found._asdict() for found in figure.rounds]}
