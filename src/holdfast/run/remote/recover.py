"""Recovering a run whose machine is lost: from its segments in the store to an ordinary run in a directory.

The run is built in a sibling directory and renamed when it is complete, so a kill leaves nothing under that name, and
the next try continues with what was downloaded. Doing it twice writes nothing the second time. An existing directory
is only changed with `merge`, and merging loses no record of either side.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import closing
from pathlib import Path

import msgspec

from holdfast.errors import StorageFailure, UsageError
from holdfast.journal.segment import parse_name
from holdfast.run.core.config_file import rewrite_truncated
from holdfast.run.core.display_text import shell_word
from holdfast.run.core.layout import RUNS, Layout, spool_root
from holdfast.run.core.run_id import find_run_id, identify_run
from holdfast.run.fold.run_scan import RunScan
from holdfast.run.remote.download import DownloadedRun, download_run, remove_partial_downloads
from holdfast.run.remote.recover_without_steps import copy_without_steps, origin_run_id
from holdfast.run.remote.run_objects import content_digest_of, is_downloaded, list_run_objects, run_id_in_store
from holdfast.run.session.create import make_directories, refuse_existing
from holdfast.storage import RealFileSystem, crashpoints, take_lease
from holdfast.storage.filesystem import FileSystem, write_atomically
from holdfast.storage.leases.remote import find_published_lease
from holdfast.storage.object_store import ObjectStore, StoredObject


class Recovered(msgspec.Struct, frozen=True):
    """What a recovery downloaded."""

    run: str
    url: str
    format: int
    """Of its records: an older one can be read and forked, and not resumed."""
    fetched: int
    bytes: int
    already: int
    finished: int
    planned: int
    published: int | None
    """The number of finished trials when the lost machine last published its heartbeat; None if it never did."""
    published_age_seconds: float | None
    warnings: list[str]
    held_by: str | None = None
    """Who is executing the run, and since when; then this is a copy of what was uploaded so far."""

    def __str__(self) -> str:
        lost = ""
        if self.published is not None and self.published_age_seconds is not None and not self.held_by:
            lost = f" Its machine last reported {self.published}, {_age_text(self.published_age_seconds)} ago."
        if not self.planned:
            unknown = "the number of planned trials is unknown, because no session record can be read"
            return f"{self.run}: {self.finished} trials are finished; {unknown}.{lost}"
        return f"{self.run}: {self.finished} of {self.planned} trials are finished.{lost}"


def recover(url: str, to: str | Path | None = None, *, merge: bool = False, steps: bool = True) -> Recovered:
    """Downloads the run at `url` into a directory; without `steps`, finished trials come without their transcripts.

    Raises:
        NotARun: there is no run at the URL.
        UsageError: the directory holds something else, or does not have everything and `merge` was not given.
        StorageFailure: the store does not answer; what was downloaded is kept for the next try.
        RunHeld: the run in the directory is in use.
    """
    store = ObjectStore(url)
    entries = list_run_objects(store)
    root = Path(to) if to is not None else RUNS / store.url.rpartition("/")[2]
    run = run_id_in_store(store, entries)
    if Layout(root).journal.is_dir():
        layout, run_here = Layout(root), find_run_id(RealFileSystem(), Layout(root))
        with closing(RunScan(layout, run_here)) as scan:
            downloaded = _into_existing(store, entries, scan, run, merge=merge)
            return _recovered(store, root, downloaded, scan)
    refuse_existing(root.absolute())
    with closing(RunScan(_building_layout(root.absolute()), run)) as scan:
        downloaded = _into_new(store, entries, scan, root.absolute(), steps=steps)
        return _recovered(store, root, downloaded, scan)


def _building_layout(root: Path) -> Layout:
    """Where a run is assembled before it gets its name."""
    return Layout(root.with_name(f".{root.name}.recovering"))


async def recover_async(
    url: str, to: str | Path | None = None, *, merge: bool = False, steps: bool = True
) -> Recovered:
    """As `recover`, for a coroutine."""
    return await asyncio.to_thread(recover, url, to, merge=merge, steps=steps)


def _into_existing(
    store: ObjectStore, entries: list[StoredObject], scan: RunScan, run: bytes, *, merge: bool
) -> DownloadedRun:
    root = scan.layout.root
    if scan.run != run:
        if origin_run_id(root) != run.hex():
            raise UsageError(
                f"{root} does not hold the run {store.url}, but another one.",
                hint="Choose another directory with --to.",
            )
        downloaded = DownloadedRun(already=len(entries))
    elif merge:
        lease = take_lease(RealFileSystem(), root)
        try:
            downloaded = download_run(store, root, entries, merge=True, run_scan=scan)
        finally:
            lease.release()
    else:
        downloaded = _require_complete(store, entries, root)
    scan.scan_rest()
    _add_losses(store, downloaded, scan)
    return downloaded


def _working_session(store: ObjectStore) -> int:
    """The number of the session that is executing the run; 0 if there is none."""
    published = find_published_lease(store)
    return published.session if published is not None and published.is_current() else 0


def _add_losses(store: ObjectStore, downloaded: DownloadedRun, scan: RunScan) -> None:
    """What is lost, each damage once: one that the download has named is not named again."""
    named = " ".join(downloaded.warnings)
    downloaded.warnings += [text for where, text in scan.losses(_working_session(store)).items() if where not in named]
    for name, digest in scan.cited_files():
        found = content_digest_of(scan.layout.root / name)
        if found != digest and name not in named:
            state = "differs from what the run has recorded of it" if found else "is missing"
            downloaded.warnings.append(f"{name} {state}, here and in the store; the run refers to it.")


def _require_complete(store: ObjectStore, entries: list[StoredObject], root: Path) -> DownloadedRun:
    if missing := [entry for entry in entries if not is_downloaded(root, entry)]:
        raise UsageError(
            f"{root} already holds the run, but {len(missing)} objects of {store.url} are missing there.",
            hint="Add --merge to download them into it, or choose another directory with --to.",
        )
    return DownloadedRun(already=len(entries))


def _into_new(
    store: ObjectStore, entries: list[StoredObject], scan: RunScan, root: Path, *, steps: bool
) -> DownloadedRun:
    building = scan.layout
    make_directories(scan.fs, building.root)
    lease = take_lease(scan.fs, building.root)
    try:
        remove_partial_downloads(building.root)
        write_atomically(scan.fs, building.recovered, store.url.encode() + b"\n")
        downloaded = download_run(store, building.root, entries, run_scan=scan)
        scan.scan_rest()
        _add_losses(store, downloaded, scan)
        if scan.sessions and rewrite_truncated(scan.fs, building.config, scan.sessions):
            downloaded.warnings.append(
                "config.yaml is truncated or missing in the store; it was written from the journal."
            )
        if steps:
            _rename_to(scan.fs, building.root, root)
            lease.moved_to(root)
        else:
            downloaded.warnings += copy_without_steps(scan, root)
            shutil.rmtree(building.root)
    finally:
        lease.release()
    return downloaded


def _rename_to(fs: FileSystem, building: Path, root: Path) -> None:
    if root.is_dir():
        root.rmdir()
    try:
        fs.rename(building, root)
        crashpoints.reach("recover.named")
        fs.sync_directory(root.parent)
    except OSError as error:
        raise StorageFailure(f"{building} could not be renamed to {root}: {error.strerror}.") from error


def _recovered(store: ObjectStore, root: Path, downloaded: DownloadedRun, scan: RunScan) -> Recovered:
    published = find_published_lease(store)
    # Whoever only checked or repaired the run has counted nothing.
    counted = published if published is not None and published.planned else None
    return Recovered(
        run=str(root),
        url=store.url,
        format=identify_run(RealFileSystem(), Layout(root)).format,
        fetched=downloaded.fetched,
        bytes=downloaded.bytes,
        already=downloaded.already,
        finished=scan.fold.counts.finished,
        planned=scan.fold.counts.planned,
        published=counted.finished if counted else None,
        published_age_seconds=counted.age_seconds() if counted else None,
        warnings=downloaded.warnings + _spool_warnings(store),
        held_by=str(published.holder) if published and published.is_current() else None,
    )


def _spool_warnings(store: ObjectStore) -> list[str]:
    """What a spool on this very machine still has."""
    journal = Layout(spool_root(store.url)).journal
    names = [path.name for path in journal.iterdir() if parse_name(path.name)] if journal.is_dir() else []
    there = {Path(entry.key).name for entry in store.list("journal")}
    left = [name for name in names if name not in there]
    if not left:
        return []
    waiting = f"The spool on this machine has {len(left)} segments that are not in the store"
    return [f"{waiting}; `holdfast resume {shell_word(store.url)}` uses them."]


def _age_text(seconds: float) -> str:
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {name}"
    return f"{seconds:.0f} seconds"
