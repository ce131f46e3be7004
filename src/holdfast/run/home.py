"""Bringing a run home from an object store: its segments, and what they cite, into a directory.

Nothing that is there is lost: a file that is there stays, and only where merging is asked for, a segment that lacks
frames gets them from the other copy. An object that is gone, or no segment of the run, is left out with a warning
that names it; one that is damaged is brought with what is sound in it, and named too. Every file is fetched in
pieces, so memory does not grow with the run.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.errors import NotARun, StorageFailure
from holdfast.journal.segment import parse_name
from holdfast.journal.splice import Copy, splice
from holdfast.run.layout import Layout
from holdfast.run.reading import ids_in
from holdfast.storage.filesystem import RealFileSystem
from holdfast.storage.remote import Entry, RemoteStore

WANTED = ("journal/", "inputs/", "blobs/", "artifacts/")
_FILES = ("config.yaml", "serving.yaml")


@dataclass
class Brought:
    """What a bringing home did."""

    fetched: int = 0
    bytes: int = 0
    already: int = 0
    warnings: list[str] = field(default_factory=list)


def wanted(store: RemoteStore, only: tuple[str, ...] = WANTED) -> list[Entry]:
    """The objects of the run at the URL.

    Raises:
        NotARun: there is no segment at the URL.
        StorageFailure: the store cannot be listed.
    """
    entries = [entry for entry in store.list() if _is_wanted(entry.key, only)]
    if not any(entry.key.startswith("journal/") for entry in entries):
        raise NotARun(f"{store.url} holds no run: there is no segment below it.", hint="Give the URL of a run.")
    return entries


def bring_home(store: RemoteStore, root: Path, entries: list[Entry] | None = None, *, merge: bool = False) -> Brought:
    """Fetches every object of the run that is not in `root` yet.

    Raises:
        NotARun: there is no segment at the URL.
        StorageFailure: the store does not answer.
    """
    entries = wanted(store) if entries is None else entries
    layout = Layout(root)
    for directory in (root, layout.journal, layout.inputs, layout.blobs, layout.artifacts):
        directory.mkdir(parents=True, exist_ok=True)
    bringing = _Bringing(store, root, merge=merge)
    for entry in entries:
        bringing.bring(entry)
    _sync(root)
    return bringing.brought


def is_here(root: Path, entry: Entry) -> bool:
    """Whether an object of the store is in the directory, as it is or under the name it has since been sealed with."""
    target = root / entry.key
    return target.exists() or _is_sealed_here(target)


def _is_wanted(key: str, only: tuple[str, ...]) -> bool:
    parts = Path(key).parts
    if ".." in parts or key.startswith("/") or any(part.startswith(".") for part in parts):
        return False
    if key.startswith("journal/"):
        return "journal/" in only and len(parts) == 2 and parse_name(parts[1]) is not None
    return key in _FILES or key.startswith(only)


def _is_sealed_here(target: Path) -> bool:
    parsed = parse_name(target.name)
    return bool(parsed and not parsed[1] and (target.parent / parsed[0].filename(sealed=True)).exists())


def _sync(root: Path) -> None:
    fs, layout = RealFileSystem(), Layout(root)
    for directory in (layout.journal, layout.inputs, layout.blobs, layout.artifacts, root):
        fs.sync_directory(directory)


class _Bringing:
    """One bringing home."""

    def __init__(self, store: RemoteStore, root: Path, *, merge: bool) -> None:
        self._store, self._root, self._merge = store, root, merge
        self._fs = RealFileSystem()
        self.brought = Brought()
        journal = Layout(root).journal
        found = [run for path in sorted(journal.glob("*.zst")) for run in ids_in(self._fs, path)[:1]]
        self._run = found[0] if found else b""

    def bring(self, entry: Entry) -> None:
        target = self._root / entry.key
        if is_here(self._root, entry) and not (self._merge and self._may_be_better(target, entry)):
            self.brought.already += 1
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.fetch")
        temporary.unlink(missing_ok=True)
        try:
            if self._fetch(entry, temporary):
                self._take(entry, temporary, target)
        finally:
            temporary.unlink(missing_ok=True)

    def _may_be_better(self, target: Path, entry: Entry) -> bool:
        """Whether the copy of a segment here has lost something that the store may have."""
        parsed = parse_name(target.name)
        if parsed is None or not entry.key.startswith("journal/") or not target.exists():
            return False
        own = Copy(self._fs, target, self._run, parsed[0])
        return bool(own.damage) or (parsed[1] and own.footer is None)

    def _fetch(self, entry: Entry, temporary: Path) -> bool:
        try:
            self._store.fetch(entry.key, temporary)
        except FileNotFoundError:
            self.brought.warnings.append(f"{entry.key} is gone from the store and is left out.")
            return False
        except StorageFailure as failure:
            # A store that answers, and only this object cannot be had: one that does not answer ends the whole.
            self._store.list(entry.key)
            self.brought.warnings.append(f"{entry.key} could not be fetched and is left out: {failure.message}")
            return False
        return True

    def _take(self, entry: Entry, temporary: Path, target: Path) -> None:
        size = temporary.stat().st_size
        if entry.key.startswith("journal/") and not self._take_segment(entry, temporary, target):
            return
        temporary.rename(target)
        self.brought.fetched += 1
        self.brought.bytes += size

    def _take_segment(self, entry: Entry, temporary: Path, target: Path) -> bool:
        """Looks at a fetched segment; whether it is worth having."""
        parsed, runs = parse_name(target.name), ids_in(self._fs, temporary)
        if parsed and not parsed[1] and not runs and self._run:
            # As a session leaves it that ended before its last segment held a whole header; nothing of it is lost.
            return not target.exists()
        if parsed is None or not runs or (self._run and runs[0] != self._run):
            why = "it belongs to another run" if runs else "nothing in it is legible"
            self.brought.warnings.append(f"{entry.key} is left out: {why}.")
            return False
        self._run = self._run or runs[0]
        there = Copy(self._fs, temporary, self._run, parsed[0])
        if there.damage or (parsed[1] and there.footer is None):
            told = "; ".join(str(damage) for damage in there.damage[:3]) or "its end is missing"
            self.brought.warnings.append(
                f"{entry.key} is damaged in the store; what is sound in it was recovered ({told})."
            )
        if target.exists():
            here = Copy(self._fs, target, self._run, parsed[0])
            if not here.lacks(there):
                return False
            both = temporary.with_suffix(".both")
            both.unlink(missing_ok=True)
            splice(self._fs, [here, there], both)
            both.rename(temporary)
        return True
