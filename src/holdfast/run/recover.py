"""Recovering a run whose machine is gone: from its segments in the store to an ordinary run in a directory.

The run is built beside its place and gets its name when everything is there, so a kill leaves nothing under that
name, and the next try goes on with what was fetched. Doing it twice writes nothing the second time. A directory that
holds something is only touched when merging is asked for, and merging loses no record of either side.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from holdfast.errors import NotARun, StorageFailure, UsageError
from holdfast.journal.frame import HEADER_SIZE, decode_header
from holdfast.journal.segment import parse_name
from holdfast.run.create import make_directories, refuse_existing
from holdfast.run.find import RUNS
from holdfast.run.home import Brought, bring_home, is_here, wanted
from holdfast.run.layout import Layout
from holdfast.run.reading import RunReader, find_run_id
from holdfast.run.slim import origin_of, slim
from holdfast.run.spool import spool_root
from holdfast.storage import RealFileSystem, take_lease
from holdfast.storage.remote import Entry, RemoteStore
from holdfast.storage.remote_lease import find_remote_holder


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
    store = RemoteStore(url)
    entries = wanted(store)
    root = Path(to) if to is not None else RUNS / store.url.rpartition("/")[2]
    run = id_in_store(store, entries)
    if Layout(root).journal.is_dir():
        brought = _into_existing(store, entries, root, run, merge=merge)
    else:
        refuse_existing(root.absolute())
        brought = _into_new(store, entries, root.absolute(), steps=steps)
    return _told(store, root, brought)


async def recover_async(
    url: str, to: str | Path | None = None, *, merge: bool = False, steps: bool = True
) -> Recovered:
    """As `recover`, for a coroutine."""
    return await asyncio.to_thread(recover, url, to, merge=merge, steps=steps)


def id_in_store(store: RemoteStore, entries: list[Entry]) -> bytes:
    """The id of the run in the store, by the first segment whose header is sound."""
    for entry in entries:
        if entry.key.startswith("journal/") and entry.size >= HEADER_SIZE:
            header = decode_header(store.head(entry.key, HEADER_SIZE))
            if header is not None:
                return header.run
    raise NotARun(f"Nothing legible is in the journal at {store.url}.", hint="Its segments are damaged at their start.")


def _into_existing(store: RemoteStore, entries: list[Entry], root: Path, run: bytes, *, merge: bool) -> Brought:
    own = find_run_id(RealFileSystem(), Layout(root))
    if own != run:
        if origin_of(root) == run.hex():
            return Brought(already=len(entries))
        raise UsageError(f"{root} holds another run than {store.url}.", hint="Choose another directory with --to.")
    missing = [entry for entry in entries if not is_here(root, entry)]
    if not merge:
        if missing:
            raise UsageError(
                f"{root} already holds the run, and lacks {len(missing)} objects of {store.url}.",
                hint="Add --merge to bring them in beside what is there, or choose another directory with --to.",
            )
        return Brought(already=len(entries))
    lease = take_lease(RealFileSystem(), root)
    try:
        return bring_home(store, root, entries, merge=True)
    finally:
        lease.release()


def _into_new(store: RemoteStore, entries: list[Entry], root: Path, *, steps: bool) -> Brought:
    fs = RealFileSystem()
    building = Layout(root.with_name(f".{root.name}.recovering"))
    make_directories(fs, building.root)
    building.recovered.write_text(store.url + "\n", encoding="utf-8")
    brought = bring_home(store, building.root, entries)
    if not steps:
        brought.warnings += slim(building.root, root)
        shutil.rmtree(building.root)
        return brought
    if root.is_dir():
        root.rmdir()
    try:
        fs.rename(building.root, root)
        fs.sync_directory(root.parent)
    except OSError as error:
        raise StorageFailure(f"{building.root} could not be renamed to {root}: {error.strerror}.") from error
    return brought


def _told(store: RemoteStore, root: Path, brought: Brought) -> Recovered:
    reader = RunReader(root)
    try:
        finished = sum(1 for _ in reader.finished())
        planned = reader.sessions[-1].planned if reader.sessions else 0
        warnings = brought.warnings + _losses(reader) + _left_in_spool(store)
    finally:
        reader.close()
    published = find_remote_holder(store)
    return Recovered(
        run=str(root),
        url=store.url,
        fetched=brought.fetched,
        bytes=brought.bytes,
        already=brought.already,
        finished=finished,
        planned=planned,
        published=published.finished if published else None,
        published_age_seconds=published.age_seconds() if published else None,
        warnings=warnings,
    )


def _losses(reader: RunReader) -> list[str]:
    never = {f"journal/{ident.filename(sealed=True)}": ident for ident in reader.never_brought()}
    told = []
    for damage in reader.damage():
        if damage.where in never:
            told.append(f"{damage.where} was lost with its machine, before it was uploaded; its trials are owed.")
        elif damage.is_loss:
            told.append(str(damage))
    return told


def _left_in_spool(store: RemoteStore) -> list[str]:
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
