"""A run by its URL: read from whatever there is of it, here and in the store, or executed under the remote lease."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path

from holdfast.errors import NotARun, StorageFailure
from holdfast.journal.segment import parse_name
from holdfast.run.home import Brought, bring_home
from holdfast.run.layout import Layout
from holdfast.run.spool import spool_root
from holdfast.storage.remote import RemoteStore


def view_root(url: str) -> Path:
    """Where this machine puts together what it can read of a run."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "holdfast" / "view" / blake2b(url.rstrip("/").encode(), digest_size=10).hexdigest()


def open_view(url: str) -> tuple[Path, Brought]:
    """A directory with the run as it is here and in the store, merged; the spool's own files come first.

    Raises:
        NotARun: there is nothing of it anywhere.
        StorageFailure: the store cannot be reached, and there is no spool here.
    """
    spool, root = spool_root(url), view_root(url)
    for directory in (root, *_directories(root)):
        directory.mkdir(parents=True, exist_ok=True)
    _drop_links(root)
    here = Layout(spool).journal.is_dir()
    if here:
        _link(spool, root)
    try:
        brought = bring_home(RemoteStore(url), root)
    except (StorageFailure, NotARun) as error:
        if not here:
            raise
        brought = Brought(warnings=[f"Only what is on this machine was read: {error}"])
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


def _link(spool: Path, root: Path) -> None:
    for source, target in zip((spool, *_directories(spool)), (root, *_directories(root)), strict=True):
        for path in source.iterdir() if source.is_dir() else []:
            if path.is_file() or source.name == "artifacts":
                _link_one(path, target / path.name)


def _link_one(path: Path, target: Path) -> None:
    if path.name.startswith((".", "lease", "index.sqlite")):
        return
    if parse_name(path.name) or not target.exists():
        # A fetched copy of a segment gives way to the one here: it may be longer, and local wins.
        target.unlink(missing_ok=True)
        target.symlink_to(path)
