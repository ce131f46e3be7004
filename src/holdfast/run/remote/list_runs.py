"""Listing the runs that can be recovered, in a directory or under a prefix of a bucket.

Listing changes nothing. A run in a directory is read; of one in a store only a few small pieces are, so a bucket
of large runs is listed as fast as one of small ones.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from holdfast.errors import HoldfastError, NotARun
from holdfast.journal.segment import parse_name
from holdfast.run.core.layout import RUNS, Layout, all_runs, spool_root
from holdfast.run.fold.reader import RunReader
from holdfast.run.remote.quick_status import quick_status
from holdfast.storage.leases.remote import seconds_since
from holdfast.storage.object_store import ObjectStore, StoredObject
from holdfast.storage.store_url import is_url

_LISTED_AT_A_TIME = 8


class Recoverable(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run that was found, complete or in part."""

    run: str
    state: str
    """running, incomplete, complete, or unreadable."""
    finished: int | None
    """None where that is unknown without reading the run; `note` says so, or whose count it is."""
    planned: int | None
    source: str
    """local, remote, or both."""
    age_seconds: float | None = None
    """Since it last grew, by this machine's clock."""
    note: str = ""
    states: dict[str, int] = {}
    """How many trials are in which state, where that is known."""


def list_recoverable(place: str | Path = RUNS) -> list[Recoverable]:
    """The runs below a directory or the URL of a prefix, in the order of their names.

    Raises:
        NotARun: the directory does not exist.
        StorageFailure: the store cannot be reached.
    """
    text = str(place)
    if is_url(text):
        runs = _runs_below(ObjectStore(text))
        with ThreadPoolExecutor(_LISTED_AT_A_TIME) as pool:
            return list(pool.map(_describe_remote, runs, runs.values()))
    root = Path(place)
    if not root.is_dir() and root != RUNS:
        raise NotARun(f"{root} is not a directory.", hint="Give the directory or the URL that contains the runs.")
    return [_describe_local(run) for run in ([root] if Layout(root).journal.is_dir() else all_runs(root))]


def _runs_below(store: ObjectStore) -> dict[str, list[StoredObject]]:
    """The URLs of the runs below a prefix, with the segments of each, in order."""
    found: dict[str, list[StoredObject]] = {}
    for entry in store.list():
        prefix, _, name = entry.key.rpartition("journal/")
        if parse_name(name) and (not prefix or prefix.endswith("/")):
            url = f"{store.url}/{prefix}".rstrip("/")
            found.setdefault(url, []).append(entry._replace(key=f"journal/{name}"))
    return dict(sorted(found.items()))


def _describe_remote(url: str, segments: list[StoredObject]) -> Recoverable:
    source = "both" if Layout(spool_root(url)).journal.is_dir() else "remote"
    try:
        status = quick_status(ObjectStore(url), segments)
    except HoldfastError as error:
        return Recoverable(url, "unreadable", None, None, source, note=error.message)
    return Recoverable(
        url, status.state, status.finished, status.planned, source, status.age_seconds, status.note, status.states or {}
    )


def _describe_local(root: Path) -> Recoverable:
    try:
        url = Layout(root).read_url()
        source = "both" if url and _has_segments(url) else "local"
        return _read_progress(root, source)
    except HoldfastError as error:
        return Recoverable(str(root), "unreadable", None, None, "local", note=error.message)


def _has_segments(url: str) -> bool:
    try:
        return any(parse_name(entry.key.rpartition("/")[2]) for entry in ObjectStore(url).list("journal"))
    except HoldfastError:
        return False


def _read_progress(root: Path, source: str) -> Recoverable:
    reader = RunReader(root)
    try:
        counts = reader.fold.counts
        state = "complete" if counts.is_complete else "running" if reader.holder else "incomplete"
        age = seconds_since(reader.last_written_at())
        return Recoverable(str(root), state, counts.finished, counts.planned, source, age, states=counts.states())
    finally:
        reader.close()
