"""The tree of an experiment: `TIER/SUBTEST/run_NN/run_result.json`, whatever the checkpoint says of it.

Nothing outside of the tree is read: a link that leads out of it is named and not followed. A file that cannot be read
whole is named, and never becomes a result.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.interop.importing.foreign_eval import SkippedItem
from holdfast.interop.importing.foreign_values import UnreadableFile, parse_json_object, read_regular_file

RESULT = "run_result.json"
CHECKPOINT = "checkpoint.json"
CONFIG = Path("config") / "experiment.json"
RESULT_BYTES = 256 << 20
_RUN = re.compile(r"run_0*([0-9]{1,9})")


class ResultPlace(NamedTuple):
    """Where a result is, and which run of which subtest it is of by the names of its directories."""

    path: Path
    where: str
    """Relative to the tree, for people."""
    tier: str
    subtest: str
    run: int


class ScyllaResult(NamedTuple):
    """A result file that is whole."""

    place: ResultPlace
    content: dict[str, Any]

    @property
    def verdict(self) -> bool | None:
        """Whether the judges passed it; None where nothing says so."""
        passed = self.content.get("judge_passed")
        return passed if isinstance(passed, bool) else None


def find_results(root: Path) -> Iterator[ResultPlace | SkippedItem]:
    """Every result file of a tree by its place, in order; of several for one run, the first."""
    seen: dict[tuple[str, str, int], str] = {}
    for tier in _directories(root):
        for subtest in _directories(tier):
            for run in _directories(subtest):
                path = run / RESULT
                if (match := _RUN.fullmatch(run.name)) is None or not os.path.lexists(path):
                    continue
                place = ResultPlace(path, _relative(root, path), tier.name, subtest.name, int(match[1]))
                if why := _why_not_inside(root, path):
                    yield SkippedItem(place.where, why)
                elif earlier := seen.setdefault(place[2:], place.where) != place.where and seen[place[2:]]:
                    yield SkippedItem(place.where, f"it is a second result of the same run, beside {earlier}")
                else:
                    yield place


def run_results(root: Path) -> Iterator[ScyllaResult | SkippedItem]:
    """Every result of a tree, one at a time."""
    for place in find_results(root):
        yield place if isinstance(place, SkippedItem) else read_run_result(place)


def read_run_result(place: ResultPlace) -> ScyllaResult | SkippedItem:
    """The result in a file, or what is wrong with it."""
    try:
        content = parse_json_object(read_regular_file(place.path, RESULT_BYTES))
    except UnreadableFile as error:
        return SkippedItem(place.where, str(error))
    number = content.get("run_number", place.run)
    if isinstance(number, int) and number != place.run:
        return SkippedItem(
            place.where, f"it says that it is run {number}, and lies in the directory of run {place.run}"
        )
    return ScyllaResult(place, content)


def is_result_tree(root: Path) -> bool:
    """Whether a directory is such a tree: it has a result, whole or not."""
    return root.is_dir() and next(find_results(root), None) is not None


def _directories(above: Path) -> list[Path]:
    """The directories in another one, in order."""
    try:
        names = sorted(os.listdir(above))  # noqa: PTH208 - names alone: the tree may be large
    except OSError:
        return []
    return [path for name in names if not name.startswith(".") and (path := above / name).is_dir()]


def _why_not_inside(root: Path, path: Path) -> str:
    """Why a file is not one of the tree; empty if it is."""
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        return "it is a link that leads nowhere"
    return "" if real.is_relative_to(root.resolve()) else "it is a link that leads out of the experiment"


def _relative(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix().encode(errors="backslashreplace").decode()
