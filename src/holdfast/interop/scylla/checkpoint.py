"""Mending a checkpoint: `completed_runs` is rebuilt from the results that lie beside it.

The results are the truth: a checkpoint is written over and over, and one that was written at the wrong moment has lost
what it knew, while every result file is still there. A file without a verdict, or one that is not whole, counts for
nothing and is named. Entries of the checkpoint without a result file are kept and named. All other fields stay as they
are, character by character. Before the file is replaced, a copy of its bytes is durable under a name of its own, which
is never written again.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.errors import ConfigurationError, StorageFailure, UsageError
from holdfast.interop.importing.foreign_eval import SkippedItem
from holdfast.interop.importing.foreign_values import UnreadableFile, read_regular_file
from holdfast.interop.scylla.checkpoint_text import CheckpointMember, CheckpointText
from holdfast.interop.scylla.result_tree import CHECKPOINT, ScyllaResult, UnreadDirectory, run_results
from holdfast.storage import RealFileSystem
from holdfast.storage.filesystem import FileSystem, write_atomically

_CHECKPOINT_BYTES = 256 << 20
_COMPLETED = "completed_runs"
_VERDICTS = {True: '"passed"', False: '"failed"'}
_NOTHING = ("null", "[]")
_DEPTH = 3
_SHOWN = 200
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
    discarded: list[str]
    """Values in the place of entries that are not entries; they are in the backup only."""
    notes: list[str]


class _CheckpointRuns(NamedTuple):
    """What a checkpoint says."""

    entries: dict[RunName, str]
    """The status of each run, as JSON."""
    discarded: list[str]
    place: CheckpointMember
    is_well_formed: bool = True


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
    data, text = _read_checkpoint(path)
    recorded = _recorded_runs(path, text)
    found = _read_tree(path.absolute().parent)
    old = recorded.entries
    new = {
        **old,
        **{run: status for run, status in found.verdicts.items() if _shown(old.get(run, "")) != _shown(status)},
    }
    backup = ""
    notes = [*_directory_notes(path, text), *_process_notes(text)]
    if new != old or not recorded.is_well_formed:
        try:
            content = text.replaced(recorded.place, _nested(new))
            backup = _replace(fs or RealFileSystem(), path, data, content, notes)
        except OSError as error:
            raise StorageFailure(
                f"{path} could not be written: {error.strerror or error}.", hint="It is as it was."
            ) from error
    return _report(path, found, recorded, new, backup, notes)


def _read_checkpoint(path: Path) -> tuple[bytes, CheckpointText]:
    try:
        data = read_regular_file(path, _CHECKPOINT_BYTES)
    except UnreadableFile as error:
        raise ConfigurationError(f"{path}: {error}.", hint="Check the file and its permissions.") from None
    try:
        return data, CheckpointText(data)
    except UnreadableFile as error:
        raise ConfigurationError(f"{path}: {error}.", hint=_import_instead(path)) from None


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
        found.faults.append(SkippedItem(place.where, result.why_no_verdict))
    else:
        found.verdicts[place.tier, place.subtest, str(place.run)] = _VERDICTS[result.verdict]


def _recorded_runs(path: Path, text: CheckpointText) -> _CheckpointRuns:
    """The entries of a checkpoint, each as it is written.

    Raises:
        UsageError: it has none, or a name twice, of which only one could be kept.
    """
    places = [member for member in text.members if member.key == _COMPLETED]
    if not places:
        raise UsageError(f"{path} is not the checkpoint of an experiment: it has no {_COMPLETED}.")
    recorded = _CheckpointRuns({}, [], places[0])
    _refuse_twice(path, _COMPLETED, places[1:])
    if text.is_object(places[0]):
        _add_entries(path, text, recorded, places[0], ())
    elif text.raw(places[0]) not in _NOTHING:
        recorded.discarded.append(f"{_COMPLETED}: {_excerpt(text.raw(places[0]))}")
    is_well_formed = text.is_object(places[0]) and not recorded.discarded
    return recorded._replace(is_well_formed=is_well_formed)


def _add_entries(
    path: Path, text: CheckpointText, recorded: _CheckpointRuns, member: CheckpointMember, above: tuple[str, ...]
) -> None:
    seen: set[str] = set()
    for inner in text.inside(member):
        name = (*above, inner.key)
        _refuse_twice(path, "/".join(name), [inner] if inner.key in seen else [])
        seen.add(inner.key)
        if len(name) == _DEPTH:
            recorded.entries[name[0], name[1], name[2]] = text.raw(inner)
        elif text.is_object(inner):
            _add_entries(path, text, recorded, inner, name)
        else:
            recorded.discarded.append(f"{'/'.join(name)}: {_excerpt(text.raw(inner))}")


def _refuse_twice(path: Path, name: str, again: list[CheckpointMember]) -> None:
    if again:
        raise UsageError(
            f"{path} has {name} twice, and only one of them could be kept.",
            hint="It was not changed. Remove the wrong one, then repair it.",
        )


def _excerpt(raw: str) -> str:
    return raw if len(raw) <= _SHOWN else f"{raw[:_SHOWN]}…"


def _shown(raw: str) -> str:
    """A status for people: a text without its quotes."""
    return str(json.loads(raw)) if raw.startswith('"') else _excerpt(raw)


def _nested(entries: dict[RunName, str]) -> dict[str, dict[str, dict[str, str]]]:
    nested: dict[str, dict[str, dict[str, str]]] = {}
    for (tier, subtest, run), status in sorted(entries.items(), key=_order):
        nested.setdefault(tier, {}).setdefault(subtest, {})[run] = status
    return nested


def _order(entry: tuple[RunName, str]) -> tuple[str, str, int, str]:
    tier, subtest, run = entry[0]
    return tier, subtest, int(run) if run.isdecimal() and len(run) < 10 else 0, run


def _replace(fs: FileSystem, path: Path, old: bytes, content: bytes, notes: list[str]) -> str:
    """Puts a new checkpoint in the place of the old one, whose bytes are durable elsewhere before; where."""
    backup, before = _free_name(path), path.stat()
    for place, data in ((backup, old), (path, content)):
        write_atomically(fs, place, data, like=before)
    now = path.stat()
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        notes.append("only its owner or root can keep the owner and the group of the file; they are now yours")
    return backup.name


def _free_name(path: Path) -> Path:
    number = 1
    while (backup := path.with_name(f"{path.name}.backup-{number}")).exists() or backup.is_symlink():
        number += 1
    return backup


def _report(
    path: Path, found: _Found, recorded: _CheckpointRuns, new: dict[RunName, str], backup: str, notes: list[str]
) -> CheckpointRepair:
    verdicts, old = found.verdicts, recorded.entries
    corrected = [
        f"{_name(run)}: {_shown(old[run])} → {_shown(new[run])}"
        for run in verdicts
        if old.get(run, new[run]) != new[run]
    ]
    return CheckpointRepair(
        checkpoint=str(path),
        ok=not found.faults and not recorded.discarded,
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
        kept=[f"{_name(run)}: {_shown(old[run])}" for run in old if run not in verdicts],
        discarded=recorded.discarded,
        notes=notes,
    )


def _tier_counts(found: _Found, old: dict[RunName, str], new: dict[RunName, str]) -> list[TierCount]:
    before, after = Counter(run[0] for run in old), Counter(run[0] for run in new)
    return [
        TierCount(tier, found.files[tier], before[tier], after[tier], after[tier] - before[tier])
        for tier in sorted({*found.files, *after})
    ]


def _name(run: RunName) -> str:
    return f"{run[0]}/{run[1]}/run {run[2]}"


def _directory_notes(path: Path, text: CheckpointText) -> list[str]:
    given, here = text.value("experiment_dir"), path.absolute().parent
    if not isinstance(given, str) or not given or Path(given) == here:
        return []
    return [f"experiment_dir is {given[:200]}, and was left as it is; the results beside the checkpoint were used"]


def _process_notes(text: CheckpointText) -> list[str]:
    """A warning where the experiment may be running: it would write its checkpoint over this one.

    No refusal: the number may be that of another process by now, or of one on another machine.
    """
    number = text.value("pid")
    if text.value("status") != "running" or not isinstance(number, str) or not _is_alive(number):
        return []
    what = f"its status is running, and there is a process {number}"
    return [f"{what}: if that is the experiment, it will write over this file; stop it, and repair it again"]


def _is_alive(number: str) -> bool:
    if not number.isdecimal() or len(number) > 9 or int(number) == 0:
        return False
    try:
        os.kill(int(number), 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True
