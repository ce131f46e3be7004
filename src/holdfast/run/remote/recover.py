"""Recovering a run whose machine is gone: from its segments in the store to an ordinary run in a directory.

The run is built beside its place and gets its name when everything is there, so a kill leaves nothing under that
name, and the next try goes on with what was fetched. Doing it twice writes nothing the second time. A directory that
holds something is only touched when merging is asked for, and merging loses no record of either side.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from holdfast.errors import StorageFailure, UsageError
from holdfast.journal.segment import parse_name
from holdfast.run.core.layout import Layout
from holdfast.run.core.run_id import find_run_id
from holdfast.run.fold.survey import Survey
from holdfast.run.locate import RUNS
from holdfast.run.remote.download import DownloadedRun, download_run, remove_leftovers
from holdfast.run.remote.recover_without_steps import copy_without_steps, origin_of
from holdfast.run.remote.run_objects import id_in_store, is_here, wanted
from holdfast.run.remote.uploader import spool_root
from holdfast.run.session.create import make_directories, refuse_existing
from holdfast.storage import RealFileSystem, crashpoints, take_lease
from holdfast.storage.filesystem import FileSystem, write_atomically
from holdfast.storage.leases.remote import find_published_lease
from holdfast.storage.object_store import ObjectStore, StoredObject


class Recovered(msgspec.Struct, frozen=True):
    """What a recovery brought home."""

    run: str
    url: str
    fetched: int
    bytes: int
    already: int
    finished: int
    planned: int
    published: int | None
    """How many trials were finished when the lost machine last published its heartbeat; None if it never did."""
    published_age_seconds: float | None
    warnings: list[str]

    def __str__(self) -> str:
        lost = ""
        if self.published is not None and self.published_age_seconds is not None:
            lost = f" Its machine last told of {self.published}, {_ago(self.published_age_seconds)} ago."
        return f"{self.run}: {self.finished} of {self.planned} trials are finished.{lost}"


def recover(url: str, to: str | Path | None = None, *, merge: bool = False, steps: bool = True) -> Recovered:
    """Brings the run at `url` home into a directory; without `steps`, finished trials come without their transcripts.

    Raises:
        NotARun: there is no run at the URL.
        UsageError: the directory holds something else, or lacks something and `merge` was not given.
        StorageFailure: the store does not answer; what was fetched is kept for the next try.
        RunHeld: the run in the directory is being executed.
    """
    store = ObjectStore(url)
    entries = wanted(store)
    root = Path(to) if to is not None else RUNS / store.url.rpartition("/")[2]
    run = id_in_store(store, entries)
    if Layout(root).journal.is_dir():
        layout, run_here = Layout(root), find_run_id(RealFileSystem(), Layout(root))
        with closing(Survey(layout, run_here)) as survey:
            brought = _into_existing(store, entries, survey, run, merge=merge)
            return _told(store, root, brought, survey)
    refuse_existing(root.absolute())
    with closing(Survey(_building(root.absolute()), run)) as survey:
        brought = _into_new(store, entries, survey, root.absolute(), steps=steps)
        return _told(store, root, brought, survey)


def _building(root: Path) -> Layout:
    """Where a run is put together before it gets its name."""
    return Layout(root.with_name(f".{root.name}.recovering"))


async def recover_async(
    url: str, to: str | Path | None = None, *, merge: bool = False, steps: bool = True
) -> Recovered:
    """As `recover`, for a coroutine."""
    return await asyncio.to_thread(recover, url, to, merge=merge, steps=steps)


def _into_existing(
    store: ObjectStore, entries: list[StoredObject], survey: Survey, run: bytes, *, merge: bool
) -> DownloadedRun:
    root = survey.layout.root
    if survey.run != run:
        if origin_of(root) != run.hex():
            raise UsageError(f"{root} holds another run than {store.url}.", hint="Choose another directory with --to.")
        brought = DownloadedRun(already=len(entries))
    elif merge:
        lease = take_lease(RealFileSystem(), root)
        try:
            brought = download_run(store, root, entries, merge=True, survey=survey)
        finally:
            lease.release()
    else:
        brought = _already(store, entries, root)
    survey.complete()
    brought.warnings += survey.losses()
    return brought


def _already(store: ObjectStore, entries: list[StoredObject], root: Path) -> DownloadedRun:
    if missing := [entry for entry in entries if not is_here(root, entry)]:
        raise UsageError(
            f"{root} already holds the run, and lacks {len(missing)} objects of {store.url}.",
            hint="Add --merge to bring them in beside what is there, or choose another directory with --to.",
        )
    return DownloadedRun(already=len(entries))


def _into_new(
    store: ObjectStore, entries: list[StoredObject], survey: Survey, root: Path, *, steps: bool
) -> DownloadedRun:
    building = survey.layout
    make_directories(survey.fs, building.root)
    lease = take_lease(survey.fs, building.root)
    try:
        remove_leftovers(building.root)
        write_atomically(survey.fs, building.recovered, store.url.encode() + b"\n")
        brought = download_run(store, building.root, entries, survey=survey)
        survey.complete()
        brought.warnings += survey.losses()
        if steps:
            _give_name(survey.fs, building.root, root)
            lease.moved_to(root)
        else:
            brought.warnings += copy_without_steps(survey, root)
            shutil.rmtree(building.root)
    finally:
        lease.release()
    return brought


def _give_name(fs: FileSystem, building: Path, root: Path) -> None:
    if root.is_dir():
        root.rmdir()
    try:
        fs.rename(building, root)
        crashpoints.reach("recover.named")
        fs.sync_directory(root.parent)
    except OSError as error:
        raise StorageFailure(f"{building} could not be renamed to {root}: {error.strerror}.") from error


def _told(store: ObjectStore, root: Path, brought: DownloadedRun, survey: Survey) -> Recovered:
    published = find_published_lease(store)
    return Recovered(
        run=str(root),
        url=store.url,
        fetched=brought.fetched,
        bytes=brought.bytes,
        already=brought.already,
        finished=survey.finished_count(),
        planned=survey.planned(),
        published=published.finished if published else None,
        published_age_seconds=published.age_seconds() if published else None,
        warnings=brought.warnings + _left_in_spool(store),
    )


def _left_in_spool(store: ObjectStore) -> list[str]:
    """What a spool on this very machine still has."""
    journal = Layout(spool_root(store.url)).journal
    names = [path.name for path in journal.iterdir() if parse_name(path.name)] if journal.is_dir() else []
    there = {Path(entry.key).name for entry in store.list("journal")}
    left = [name for name in names if name not in there]
    if not left:
        return []
    return [f"The spool on this machine has {len(left)} segments that the store has not; resume {store.url} uses them."]


def age_seconds(at: str) -> float | None:
    """How long ago a moment was by this machine's clock; for people, who know whose clock it is."""
    try:
        then = datetime.fromisoformat(at)
    except ValueError:
        return None
    return max(time.time() - (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp(), 0.0)


def _ago(seconds: float) -> str:
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {name}"
    return f"{seconds:.0f} seconds"
