"""Mending a checkpoint: `completed_runs` is rebuilt from the results that lie beside it.

The results are the truth: a checkpoint is written over and over, and one that was written at the wrong moment has lost
what it knew, while every result file is still there. A file without a verdict, or one that is not whole, counts for
nothing and is named. Entries of the checkpoint without a result file are kept and named. All other fields stay as they
are. Before the file is replaced, a copy of its bytes is durable under a name of its own, which is never written again.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holdfast.errors import ConfigurationError, StorageFailure, UsageError
from holdfast.interop.importing.foreign_eval import SkippedItem
from holdfast.interop.importing.foreign_values import UnreadableFile, read_regular_file
from holdfast.interop.scylla.result_tree import CHECKPOINT, ScyllaResult, UnreadDirectory, run_results
from holdfast.storage import RealFileSystem
from holdfast.storage.filesystem import FileSystem, write_atomically

_CHECKPOINT_BYTES = 256 << 20
_COMPLETED = "completed_runs"
_VERDICTS = {True: "passed", False: "failed"}
NO_VERDICT = "it has no verdict: judge_passed is missing"
RunName = tuple[str, str, str]
"""A tier, a subtest and the number of a run, as the checkpoint has them."""


class TierCount(msgspec.Struct, frozen=True):
    """The runs of one tier."""

    tier: str
    files: int
    before: int
    after: int
    difference: int


class CheckpointRepair(msgspec.Struct, frozen=True):
    """What was found and done."""

    checkpoint: str
    ok: bool
    """Whether nothing is left that a person has to look at."""
    changed: bool
    backup: str
    """The copy of the checkpoint as it was; empty if it was not changed."""
    files: int
    counted: int
    """Those of the files that are whole and have a verdict."""
    unread_directories: int
    """Directories that cannot be read; results in them are not among the files."""
    before: int
    after: int
    difference: int
    tiers: list[TierCount]
    faults: list[SkippedItem]
    """Files that do not count, and why."""
    corrected: list[str]
    """Entries that said something else than the result file."""
    kept: list[str]
    """Entries without a result file that counts; they stay as they are."""
    notes: list[str]


class _Found(NamedTuple):
    """What the results of a tree say."""

    verdicts: dict[RunName, str]
    faults: list[SkippedItem]
    files: Counter[str]


def checkpoint_in(path: Path) -> Path | None:
    """The checkpoint that a path names: the file itself, or that of an experiment's directory."""
    if path.is_file():
        return path if path.suffix == ".json" else None
    inside = path / CHECKPOINT
    return inside if path.is_dir() and inside.is_file() and not (path / "journal").is_dir() else None


def repair_checkpoint(path: Path, fs: FileSystem | None = None) -> CheckpointRepair:
    """Rebuilds `completed_runs` of a checkpoint from the results beside it.

    Raises:
        UsageError: it is a link, or no checkpoint.
        ConfigurationError: it cannot be read.
        StorageFailure: it could not be written; it is as it was.
    """
    if path.is_symlink():
        raise UsageError(f"{path} is a link.", hint="Name the checkpoint that it leads to.")
    text, content = _read_checkpoint(path)
    found = _read_tree(path.absolute().parent)
    old = _recorded_runs(content[_COMPLETED])
    new = {**old, **found.verdicts}
    backup = ""
    if new != old or not _is_well_formed(content[_COMPLETED]):
        try:
            backup = _replace(fs or RealFileSystem(), path, text, {**content, _COMPLETED: _nested(new)})
        except OSError as error:
            raise StorageFailure(
                f"{path} could not be written: {error.strerror or error}.", hint="It is as it was."
            ) from error
    return _report(path, content, found, old, new, backup)


def _read_checkpoint(path: Path) -> tuple[bytes, dict[str, Any]]:
    try:
        data = read_regular_file(path, _CHECKPOINT_BYTES)
        # Python's own reader: it keeps numbers of any size, as they are written back.
        content = json.loads(data)
    except UnreadableFile as error:
        raise ConfigurationError(f"{path}: {error}.", hint=_import_instead(path)) from None
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else f"it is not valid JSON: {error}"
        raise ConfigurationError(f"{path}: {reason}.", hint=_import_instead(path)) from None
    if not isinstance(content, dict) or _COMPLETED not in content:
        raise UsageError(f"{path} is not the checkpoint of an experiment: it has no {_COMPLETED}.")
    return data, content


def _import_instead(path: Path) -> str:
    return f"Restore it from a copy; the results beside it can be used without it: `holdfast import {path.parent}`."


def _read_tree(root: Path) -> _Found:
    found = _Found({}, [], Counter())
    for item in run_results(root):
        if isinstance(item, SkippedItem):
            found.faults.append(item)
            found.files[item.where.partition("/")[0]] += not isinstance(item, UnreadDirectory)
        else:
            _add_result(found, item)
    return found


def _add_result(found: _Found, result: ScyllaResult) -> None:
    place = result.place
    found.files[place.tier] += 1
    if result.verdict is None:
        found.faults.append(SkippedItem(place.where, NO_VERDICT))
    else:
        found.verdicts[place.tier, place.subtest, str(place.run)] = _VERDICTS[result.verdict]


def _recorded_runs(completed: Any) -> dict[RunName, Any]:
    """The entries of a checkpoint; whatever is not one is left out, and is in the backup."""
    return {
        (tier, subtest, run): status
        for tier, subtests in _items(completed)
        for subtest, runs in _items(subtests)
        for run, status in _items(runs)
    }


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _is_well_formed(completed: Any) -> bool:
    levels = [completed, *(subtests for _, subtests in _items(completed))]
    levels += [runs for _, subtests in _items(completed) for _, runs in _items(subtests)]
    return all(isinstance(level, dict) for level in levels)


def _nested(entries: dict[RunName, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    nested: dict[str, dict[str, dict[str, Any]]] = {}
    for (tier, subtest, run), status in sorted(entries.items(), key=_order):
        nested.setdefault(tier, {}).setdefault(subtest, {})[run] = status
    return nested


def _order(entry: tuple[RunName, Any]) -> tuple[str, str, int, str]:
    tier, subtest, run = entry[0]
    return tier, subtest, int(run) if run.isdecimal() and len(run) < 10 else 0, run


def _replace(fs: FileSystem, path: Path, old: bytes, content: dict[str, Any]) -> str:
    """Puts a new checkpoint in the place of the old one, whose bytes are durable elsewhere before; where."""
    backup = _free_name(path)
    write_atomically(fs, backup, old)
    end = "\n" if old.endswith(b"\n") else ""
    write_atomically(fs, path, f"{json.dumps(content, indent=2)}{end}".encode())
    return backup.name


def _free_name(path: Path) -> Path:
    number = 1
    while (backup := path.with_name(f"{path.name}.backup-{number}")).exists() or backup.is_symlink():
        number += 1
    return backup


def _report(
    path: Path, content: dict[str, Any], found: _Found, old: dict[RunName, Any], new: dict[RunName, Any], backup: str
) -> CheckpointRepair:
    verdicts = found.verdicts
    corrected = [
        f"{_name(run)}: {old[run]} → {status}" for run, status in verdicts.items() if run in old and old[run] != status
    ]
    return CheckpointRepair(
        checkpoint=str(path),
        ok=not found.faults,
        changed=bool(backup),
        backup=backup,
        files=found.files.total(),
        counted=len(verdicts),
        unread_directories=sum(isinstance(fault, UnreadDirectory) for fault in found.faults),
        before=len(old),
        after=len(new),
        difference=len(new) - len(old),
        tiers=_tier_counts(found, old, new),
        faults=found.faults,
        corrected=corrected,
        kept=[f"{_name(run)}: {old[run]}" for run in old if run not in verdicts],
        notes=_directory_notes(path, content),
    )


def _tier_counts(found: _Found, old: dict[RunName, Any], new: dict[RunName, Any]) -> list[TierCount]:
    before, after = Counter(run[0] for run in old), Counter(run[0] for run in new)
    return [
        TierCount(tier, found.files[tier], before[tier], after[tier], after[tier] - before[tier])
        for tier in sorted({*found.files, *after})
    ]


def _name(run: RunName) -> str:
    return f"{run[0]}/{run[1]}/run {run[2]}"


def _directory_notes(path: Path, content: dict[str, Any]) -> list[str]:
    given, here = content.get("experiment_dir"), path.absolute().parent
    if not isinstance(given, str) or not given or Path(given) == here:
        return []
    return [f"experiment_dir is {given[:200]}, and was left as it is; the results beside the checkpoint were used"]
