"""A run by its URL, for reading: whatever there is of it, here and in the store, put together in a directory."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path

import msgspec

from holdfast.errors import NotARun, StorageFailure
from holdfast.journal.segment import parse_name
from holdfast.run.home import WANTED, Brought, bring_home, wanted
from holdfast.run.layout import Layout
from holdfast.run.spool import spool_root
from holdfast.storage.remote import Entry, RemoteStore

_TAGS = "tags.json"


def view_root(url: str) -> Path:
    """Where this machine puts together what it can read of a run."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "holdfast" / "view" / blake2b(url.rstrip("/").encode(), digest_size=10).hexdigest()


def open_view(url: str, *, only: tuple[str, ...] = WANTED) -> tuple[Path, Brought]:
    """A directory with the run as it is here and in the store, merged; the spool's own files come first.

    Raises:
        NotARun: there is nothing of it anywhere.
        StorageFailure: the store cannot be reached, and there is no spool here.
    """
    spool, root = spool_root(url), view_root(url)
    here = Layout(spool).journal.is_dir()
    store = RemoteStore(url)
    try:
        entries, warnings = wanted(store, only), []
    except (StorageFailure, NotARun) as error:
        if not here:
            raise
        entries, warnings = [], [f"Only what is on this machine was read: {error}"]
    for directory in (root, *_directories(root)):
        directory.mkdir(parents=True, exist_ok=True)
    _drop_links(root)
    _drop_stale(root, entries)
    if here:
        _link(spool, root)
    Layout(root).remote.write_text(url.rstrip("/") + "\n", encoding="utf-8")
    brought = bring_home(store, root, entries)
    _write_tags(root, entries)
    brought.warnings[:0] = warnings
    return root, brought


def _directories(root: Path) -> tuple[Path, ...]:
    layout = Layout(root)
    return layout.journal, layout.inputs, layout.blobs, layout.artifacts


def _drop_links(root: Path) -> None:
    """Links of an earlier look may lead to names that are gone; fetched files stay."""
    for directory in (root, *_directories(root)):
        for path in directory.iterdir():
            if path.is_symlink():
                path.unlink()


def _drop_stale(root: Path, entries: list[Entry]) -> None:
    """Forgets what was fetched earlier and is no longer so in the store: the view shows what is there."""
    now = {entry.key: entry.tag for entry in entries}
    for key, tag in _read_tags(root).items():
        if now.get(key) != tag:
            (root / key).unlink(missing_ok=True)
    _write_tags(root, entries)


def _read_tags(root: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode((root / _TAGS).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError):
        return {}


def _write_tags(root: Path, entries: list[Entry]) -> None:
    temporary = root / f".{_TAGS}.{os.getpid()}"
    temporary.write_bytes(msgspec.json.encode({entry.key: entry.tag for entry in entries}))
    temporary.replace(root / _TAGS)


def _link(spool: Path, root: Path) -> None:
    for source, target in zip((spool, *_directories(spool)), (root, *_directories(root)), strict=True):
        for path in source.iterdir() if source.is_dir() else []:
            if path.is_file() or source.name == "artifacts":
                _link_one(path, target / path.name)


def _link_one(path: Path, target: Path) -> None:
    if path.name.startswith((".", "lease", "index.sqlite", "remote.url", "recovered.url")):
        return
    if parse_name(path.name) or not target.exists():
        # A fetched copy of a segment gives way to the one here: it may be longer, and local wins.
        target.unlink(missing_ok=True)
        target.symlink_to(path)
