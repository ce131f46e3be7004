"""Cleaning a spool: deletes local files of a run that its store holds byte for byte.

Every file is compared with its object, and only then deleted. Files that are not in the store or differ there are
kept, and so are unknown files. The run is held here and in the store meanwhile, so no session starts on a spool that
is being cleaned. After a kill at any moment, spool and store together are complete.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.errors import NotARun, RunHeld, StorageFailure
from holdfast.journal.index.database import INDEX
from holdfast.run.core.display_text import shell_word
from holdfast.run.core.layout import Layout
from holdfast.run.remote.run_objects import RUN_DIRECTORIES, RUN_FILES
from holdfast.run.remote.spool import take_run_lease
from holdfast.run.remote.upload_lag import LAG_FILE
from holdfast.run.remote.upload_watermark import WATERMARK_FILE
from holdfast.storage import RealFileSystem, crashpoints, take_lease
from holdfast.storage.leases.local import find_holder, run_held
from holdfast.storage.leases.remote import find_published_lease
from holdfast.storage.object_comparison import COMPARED_FILE, UNFINISHED_COMPARED_FILE
from holdfast.storage.object_store import ObjectStore

_DERIVED = {
    *(f"{start}{INDEX}{end}" for start in ("", ".") for end in ("", "-journal", ".sum")),
    LAG_FILE,
    f".{LAG_FILE}.new",
    WATERMARK_FILE,
    COMPARED_FILE,
    UNFINISHED_COMPARED_FILE,
}


DIFFERS = "the copy in the store differs"


class KeptFile(msgspec.Struct, frozen=True):
    """A file that stays, and why."""

    where: str
    reason: str


class CleanedSpool(msgspec.Struct):
    """What was deleted of a spool, or would be."""

    run: str
    spool: str
    dry_run: bool
    files: int = 0
    """Files that the store has, byte for byte."""
    bytes: int = 0
    kept: list[KeptFile] = []


def clean_spool(url: str, root: Path, *, dry_run: bool = False) -> CleanedSpool:
    """Deletes from the spool at `root` what the store has.

    Raises:
        NotARun: there is no run, neither here nor at the URL. RunHeld: a session is using the run, here or elsewhere.
        StorageFailure: the store does not answer, or a file cannot be deleted; files that were not compared are
        unchanged.
    """
    store = ObjectStore(url)
    if not root.is_dir() and not store.list("journal"):
        raise NotARun(f"There is no run at {url}, and this machine has no spool of it.", hint="Give the URL of a run.")
    cleaning = _SpoolCleaning(store, root, dry_run=dry_run)
    try:
        if dry_run or not root.is_dir():
            _refuse_if_held(store, root)
            cleaning.compare()
        else:
            with _both_leases(store, root):
                cleaning.compare()
                cleaning.delete()
                cleaning.remove_if_empty()
    except OSError as error:
        raise StorageFailure(
            f"{root} could not be emptied: {error.filename or ''} {error.strerror or error}.",
            hint=f"Nothing is lost; `holdfast verify {shell_word(url)}` checks the run.",
        ) from error
    return cleaning.result


def _refuse_if_held(store: ObjectStore, root: Path) -> None:
    if root.is_dir() and (holder := find_holder(RealFileSystem(), root)):
        raise run_held(root, holder)
    published = find_published_lease(store)
    if published is not None and published.is_current():
        raise RunHeld(f"The run {store.url} is in use by {published.holder}.", hint="Wait until it ends, or stop it.")


@contextlib.contextmanager
def _both_leases(store: ObjectStore, root: Path) -> Iterator[None]:
    here = take_lease(RealFileSystem(), root)
    try:
        there = take_run_lease(store, root)
        try:
            yield
        finally:
            there.release()
    finally:
        here.release()


class _SpoolCleaning:
    """One cleaning of a spool."""

    def __init__(self, store: ObjectStore, root: Path, *, dry_run: bool) -> None:
        self._store, self._root = store, root
        self.result = CleanedSpool(store.url, str(root), dry_run)
        self._stored: list[Path] = []

    def compare(self) -> None:
        """Compares every file with the store."""
        sizes = {entry.key: entry.size for entry in self._store.list()}
        for path in sorted(self._root.rglob("*")):
            key = str(path.relative_to(self._root))
            if (path.is_dir() and not path.is_symlink()) or self._is_local(key):
                continue
            if reason := self._keep_reason(key, path, sizes):
                self.result.kept.append(KeptFile(key, reason))
            else:
                self._stored.append(path)
                self.result.files += 1
                self.result.bytes += path.stat().st_size

    def _is_local(self, key: str) -> bool:
        """Whether it is not a part of the run: derived from it, or about this spool only."""
        layout = Layout(self._root)
        own = {layout.remote.name, layout.recovered.name}
        return key in _DERIVED | own or key.startswith(("lease", f"{layout.shelf.name}/"))

    def _keep_reason(self, key: str, path: Path, sizes: dict[str, int]) -> str:
        if path.is_symlink() or path.name.startswith(".") or not (key in RUN_FILES or key.startswith(RUN_DIRECTORIES)):
            return "it is not a file of a run"
        if key not in sizes:
            return "it is not in the store"
        is_same = sizes[key] == path.stat().st_size and self._store.holds(key, path)
        return "" if is_same else DIFFERS

    def delete(self) -> None:
        if not self._stored:
            return
        # Derived files go first: an index without these segments would report lost records.
        for name in sorted(_DERIVED):
            (self._root / name).unlink(missing_ok=True)
        crashpoints.reach("spool.derived-removed")
        for path in self._stored:
            path.unlink()
            crashpoints.reach("spool.file-removed")

    def remove_if_empty(self) -> None:
        """Removes the directory too, once nothing of the run is left in it.

        Also its lease: a session needs the lease of the store first, and that one is held here.
        """
        if self.result.kept:
            return
        for path in sorted(self._root.rglob("*"), reverse=True):
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
        self._root.rmdir()
