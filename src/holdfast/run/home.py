"""Bringing a run home from an object store: its segments, and what they cite, into a directory.

Nothing that is there is overwritten. An object that cannot be read, or whose bytes are no sound segment of the run,
is left out with a warning that names it; the others are recovered. Every file is fetched in pieces, so memory does
not grow with the run.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.errors import NotARun, StorageFailure
from holdfast.journal.segment import parse_name
from holdfast.run.layout import Layout
from holdfast.storage.remote import Entry, RemoteStore

_WANTED = ("journal/", "inputs/", "blobs/", "artifacts/")
_FILES = ("config.yaml", "serving.yaml")


@dataclass
class Brought:
    """What a bringing home did."""

    fetched: int = 0
    bytes: int = 0
    already: int = 0
    warnings: list[str] = field(default_factory=list)


def bring_home(store: RemoteStore, root: Path, *, only: tuple[str, ...] = _WANTED) -> Brought:
    """Fetches every object of the run that is not in `root` yet.

    Raises:
        NotARun: there is no segment at the URL.
        StorageFailure: the store cannot be listed.
    """
    entries = store.list()
    if not any(entry.key.startswith("journal/") and parse_name(Path(entry.key).name) for entry in entries):
        raise NotARun(f"{store.url} holds no run: there is no segment below it.", hint="Give the URL of a run.")
    layout = Layout(root)
    for directory in (root, layout.journal, layout.inputs, layout.blobs, layout.artifacts):
        directory.mkdir(parents=True, exist_ok=True)
    brought = Brought()
    for entry in entries:
        if _is_wanted(entry.key, only):
            _bring(store, entry, root, brought)
    return brought


def _is_wanted(key: str, only: tuple[str, ...]) -> bool:
    parts = Path(key).parts
    if ".." in parts or key.startswith("/") or any(part.startswith(".") for part in parts):
        return False
    if key.startswith("journal/"):
        return "journal/" in only and len(parts) == 2 and parse_name(parts[1]) is not None
    return key in _FILES or key.startswith(only)


def _bring(store: RemoteStore, entry: Entry, root: Path, brought: Brought) -> None:
    target = root / entry.key
    if target.exists() or _is_sealed_here(target):
        brought.already += 1
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.fetch")
    temporary.unlink(missing_ok=True)
    try:
        size = store.fetch(entry.key, temporary)
    except (StorageFailure, FileNotFoundError, OSError) as error:
        temporary.unlink(missing_ok=True)
        brought.warnings.append(f"{entry.key} could not be fetched and is left out: {error}")
        return
    temporary.rename(target)
    brought.fetched += 1
    brought.bytes += size


def _is_sealed_here(target: Path) -> bool:
    """Whether an unsealed segment in the store has since been sealed here, under its other name."""
    parsed = parse_name(target.name)
    return bool(parsed and not parsed[1] and (target.parent / parsed[0].filename(sealed=True)).exists())
