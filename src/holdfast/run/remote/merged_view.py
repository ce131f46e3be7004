"""A run by its URL, for reading: everything of it, here and in the store, assembled in a directory.

Files of the spool are linked to, the rest is downloaded. A segment that a session may be writing is copied at the
moment when the names of all others are listed, so that it cannot announce a segment that the view does not have.
Several readers may open a run at once, and none deletes what another is reading.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.errors import NotARun, StorageFailure, UsageError
from holdfast.journal.segment import parse_name
from holdfast.run.core.layout import Layout, spool_root
from holdfast.run.remote.download import DownloadedRun, download_run
from holdfast.run.remote.healing import intact_here
from holdfast.run.remote.run_objects import list_run_objects
from holdfast.storage.object_store import ObjectStore, StoredObject

_TAGS = "tags.json"
_TRIES = 100


def view_root(url: str) -> Path:
    """Where this machine assembles what it can read of a run."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        raise UsageError(
            f"What is read of {url} cannot be cached: this user has no home directory.",
            hint="Set HOME or XDG_CACHE_HOME to a writable directory.",
        ) from None
    return base / "holdfast" / "view" / blake2b(url.rstrip("/").encode(), digest_size=10).hexdigest()


def open_merged_view(url: str) -> tuple[Path, DownloadedRun]:
    """A directory with the run as it is here and in the store, merged; the spool's own files come first.

    Raises:
        NotARun: there is nothing of it anywhere.
        StorageFailure: the store cannot be reached, and there is no spool here.
    """
    spool, root = spool_root(url), view_root(url)
    here = Layout(spool).journal.is_dir()
    store = ObjectStore(url)
    try:
        entries, warnings = list_run_objects(store), []
    except (StorageFailure, NotARun) as error:
        if not here:
            raise
        entries, warnings = [], [f"Only the data on this machine was read: {error}"]
    for directory in (root, *_directories(root)):
        directory.mkdir(parents=True, exist_ok=True)
    _drop_stale(store, spool, root, entries)
    if here:
        _link(spool, root)
    _drop_links(spool, root)
    _drop_open(spool, root, entries)
    Layout(root).remote.write_text(url.rstrip("/") + "\n", encoding="utf-8")
    downloaded = download_run(store, root, entries)
    _write_tags(root, entries)
    downloaded.warnings[:0] = warnings
    return root, downloaded


class StoreView(NamedTuple):
    """A run as its store has it, and what of it is on this machine only."""

    root: Path
    warnings: list[str]
    only_here: list[str]
    """Files of the run in the spool of this machine that the store does not have."""
    intact_here: list[str]
    """Segments that are damaged in the store and intact in the spool of this machine."""


def open_store_view(url: str) -> StoreView:
    """A directory with the run as it is in the store: nothing is taken from the spool of this machine.

    Raises:
        NotARun: there is no run in the store.
        StorageFailure: the store cannot be reached.
    """
    store, spool = ObjectStore(url), spool_root(url)
    root = view_root(url).with_name(f"{view_root(url).name}-store")
    entries = list_run_objects(store)
    for directory in (root, *_directories(root)):
        directory.mkdir(parents=True, exist_ok=True)
    # No spool: what is no longer so in the store is forgotten, whatever this machine has.
    nowhere = root / "no-spool"
    _drop_stale(store, nowhere, root, entries)
    _drop_open(nowhere, root, entries)
    Layout(root).remote.write_text(url.rstrip("/") + "\n", encoding="utf-8")
    downloaded = download_run(store, root, entries)
    _write_tags(root, entries)
    there = {entry.key for entry in entries}
    only_here = [key for key in _run_files(spool) if key not in there]
    return StoreView(root, downloaded.warnings, only_here, intact_here(store, Layout(spool)))


def _run_files(spool: Path) -> list[str]:
    """The files of a run in a spool, as keys."""
    found = [path for directory in _directories(spool) if directory.is_dir() for path in directory.rglob("*")]
    keys = [str(path.relative_to(spool)) for path in found if path.is_file() and not path.name.startswith(".")]
    return sorted(keys)


def _directories(root: Path) -> tuple[Path, ...]:
    layout = Layout(root)
    return layout.journal, layout.inputs, layout.blobs, layout.artifacts


def _drop_links(spool: Path, root: Path) -> None:
    """Links of an earlier view may lead to names that are gone, or to another spool; downloaded files stay."""
    for directory in (root, *_directories(root)):
        for path in directory.iterdir():
            if path.is_symlink() and not (path.exists() and path.readlink().is_relative_to(spool)):
                path.unlink(missing_ok=True)


def _drop_stale(store: ObjectStore, spool: Path, root: Path, entries: list[StoredObject]) -> None:
    """Forgets what was downloaded earlier and is no longer so in the store: the view shows what is there."""
    now = {entry.key: entry.tag for entry in entries}
    for key, tag in _read_tags(root).items():
        if now.get(key) == tag or (spool / key).exists():
            continue
        if key in now or not _is_in_store(store, key):
            (root / key).unlink(missing_ok=True)
    _write_tags(root, entries)


def _is_in_store(store: ObjectStore, key: str) -> bool:
    """Whether an object exists now: another reader may have downloaded one that was uploaded since the listing."""
    try:
        return store.head(key, 1) != b""
    except StorageFailure:
        # It is unknown, and what was downloaded stays.
        return True


def _read_tags(root: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode((root / _TAGS).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError):
        return {}


def tags_in_store(view: Path) -> dict[str, str]:
    """The objects that the store listed when the view was last opened; none if it did not answer."""
    return _read_tags(view)


def _write_tags(root: Path, entries: list[StoredObject]) -> None:
    temporary = root / f".{_TAGS}.{os.getpid()}"
    temporary.write_bytes(msgspec.json.encode({entry.key: entry.tag for entry in entries}))
    temporary.replace(root / _TAGS)


def _link(spool: Path, root: Path) -> None:
    for source, target in zip((spool, *_directories(spool)), (root, *_directories(root)), strict=True):
        if source == Layout(spool).journal:
            _link_journal(source, target)
        else:
            for path in source.iterdir() if source.is_dir() else ():
                if path.is_file() or source.name == "artifacts":
                    _link_one(path, target / path.name)


def _link_journal(source: Path, target: Path) -> None:
    """The newest first, so that no other reader sees a segment at this moment without the one it vouches for."""
    for _ in range(_TRIES):
        names = _segment_names(source)
        for name in sorted(names, reverse=True):
            _link_segment(source / name, target / name)
        if _segment_names(source) == names:
            return


def _segment_names(journal: Path) -> set[str]:
    return {path.name for path in journal.iterdir() if parse_name(path.name)} if journal.is_dir() else set()


def _link_segment(path: Path, target: Path) -> None:
    parsed = parse_name(path.name)
    if parsed and parsed[1]:
        _link_one(path, target)
        return
    temporary = target.with_name(f".{target.name}.{os.getpid()}.copy")
    with contextlib.suppress(FileNotFoundError):
        # It may have been renamed by sealing: then it is found under its sealed name.
        shutil.copyfile(path, temporary)
        temporary.replace(target)


def _link_one(path: Path, target: Path) -> None:
    if path.name.startswith((".", "lease", "index.sqlite", "remote.url", "recovered.url")):
        return
    is_linked = target.is_symlink() and target.readlink() == path
    if not is_linked and (parse_name(path.name) or not target.exists() or target.is_symlink()):
        # A downloaded copy of a segment gives way to the one here: it may be longer, and local wins.
        temporary = target.with_name(f".{target.name}.{os.getpid()}.link")
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(path)
        temporary.replace(target)


def _drop_open(spool: Path, root: Path, entries: list[StoredObject]) -> None:
    """Forgets copies of segments that have been sealed since, or are nowhere any more."""
    journal = Layout(root).journal
    # Listed before those that are there: a copy that another reader makes meanwhile must not count as stale.
    copies = [path for path in journal.iterdir() if (parsed := parse_name(path.name)) and not parsed[1]]
    names = [*_segment_names(Layout(spool).journal), *(entry.key.rpartition("/")[2] for entry in entries)]
    there = {parsed[0] for name in names if (parsed := parse_name(name))}
    for path in copies:
        parsed = parse_name(path.name)
        if parsed and (parsed[0] not in there or (journal / parsed[0].filename(sealed=True)).exists()):
            path.unlink(missing_ok=True)
