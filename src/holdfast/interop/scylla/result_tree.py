"""The tree of an experiment: `TIER/SUBTEST/run_NN/run_result.json`, whatever the checkpoint says of it.

Nothing outside of the tree is read: a link that leads out of it is named and not followed. A file that cannot be read
whole is named, and never becomes a result.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.interop.importing.foreign_eval import SkippedItem
from holdfast.interop.importing.foreign_values import (
    UnreadableFile,
    kept_value,
    parse_json_object,
    plain_text,
    read_regular_file,
)

RESULT = "run_result.json"
CHECKPOINT = "checkpoint.json"
CONFIG = Path("config") / "experiment.json"
RESULT_BYTES = 256 << 20
_RUN = re.compile(r"run_0*([0-9]{1,9})")
_LEVELS = 3
"""Of directories, above a result."""
_SHOWN = 100


class UnreadDirectory(SkippedItem, frozen=True):
    """A directory that cannot be read: how many results it holds is not known."""


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

    @property
    def why_no_verdict(self) -> str:
        """Why it has none."""
        if "judge_passed" not in self.content:
            return "it has no verdict: judge_passed is missing"
        given = plain_text(kept_value([self.content["judge_passed"]]))[1:-1][:_SHOWN]
        return f"it has no verdict: judge_passed is {given}, and neither true nor false"


def find_results(root: Path) -> Iterator[ResultPlace | SkippedItem]:
    """Every result file of a tree by its place, in order; of several for one run, the first.

    A result at another place, and a directory that cannot be read, are named: nothing is left out in silence.
    """
    seen: dict[tuple[str, str, int], str] = {}
    for found in _result_files(root, root, _LEVELS):
        yield found if isinstance(found, SkippedItem) else _result_place(root, found, seen)


def _result_files(root: Path, above: Path, levels: int) -> Iterator[Path | SkippedItem]:
    """The result file in a directory, and those in the directories below it."""
    try:
        # Names alone: the tree may be large. Directories of runs are not listed at all.
        names = sorted(os.listdir(above)) if levels else _result_name(above)  # noqa: PTH208
    except OSError as error:
        reason = f"the directory cannot be read: {error.strerror}; results in it are not counted"
        yield UnreadDirectory(f"{_relative(root, above)}/", reason)
        return
    if RESULT in names and above != root:
        yield above / RESULT
    for name in names if levels else ():
        yield from _files_below(root, above / name, levels - 1)


def _result_name(run: Path) -> list[str]:
    try:
        os.lstat(run / RESULT)
    except FileNotFoundError:
        return []
    return [RESULT]


def _files_below(root: Path, path: Path, levels: int) -> Iterator[Path | SkippedItem]:
    try:
        is_directory = stat.S_ISDIR(path.stat().st_mode)
    except OSError as error:
        reason = "it is a link that leads nowhere" if path.is_symlink() else f"it cannot be read: {error.strerror}"
        yield UnreadDirectory(_relative(root, path), f"{reason}; results in it are not counted")
        return
    if is_directory:
        yield from _result_files(root, path, levels)


def _result_place(root: Path, path: Path, seen: dict[tuple[str, str, int], str]) -> ResultPlace | SkippedItem:
    where = _relative(root, path)
    if why := _why_misplaced(path.relative_to(root)) or _why_not_inside(root, path):
        return SkippedItem(where, why)
    subtest = path.parent.parent
    place = ResultPlace(path, where, subtest.parent.name, subtest.name, _run_number(path.parent.name) or 0)
    earlier = seen.setdefault(place[2:], where)
    if earlier != where:
        return SkippedItem(where, f"it is a second result of the same run, beside {earlier}")
    return place


def _why_misplaced(path: Path) -> str:
    """Why a file relative to the tree is not where results are; empty if it is."""
    directories = path.parts[:-1]
    if len(directories) != _LEVELS:
        return "results are in TIER/SUBTEST/run_NN, and it is not"
    if any(name.startswith(".") for name in directories):
        return "it is in a hidden directory"
    return "" if _run_number(directories[-1]) is not None else "its directory has no name of a run, such as run_01"


def _run_number(name: str) -> int | None:
    match = _RUN.fullmatch(name)
    return int(match[1]) if match else None


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
    """Whether a directory is such a tree: it has a result, whole or not, or a checkpoint beside what it cannot show."""
    found = find_results(root) if root.is_dir() else iter(())
    has_checkpoint = os.path.lexists(root / CHECKPOINT)
    return any(has_checkpoint or not isinstance(item, UnreadDirectory) for item in found)


def _why_not_inside(root: Path, path: Path) -> str:
    """Why a file is not one of the tree; empty if it is."""
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        return "it is a link that leads nowhere"
    inside = root.resolve()
    if not real.is_relative_to(inside):
        return "it is a link that leads out of the experiment"
    target, here = real.relative_to(inside), path.relative_to(root)
    is_other = target != here and target.name == RESULT and not _why_misplaced(target)
    return f"it is a link to {_relative(inside, real)}, which counts there" if is_other else ""


def _relative(root: Path, path: Path) -> str:
    return text_of_name(path.relative_to(root).as_posix())


def text_of_name(name: str) -> str:
    """A name from a file system as text; bytes that are no text are written as escapes."""
    return name.encode(errors="backslashreplace").decode()


def unread_text(count: int) -> str:
    """So many directories, as a sentence."""
    return f"{count} {'directory' if count == 1 else 'directories'} could not be read"
