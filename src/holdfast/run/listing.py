"""What can be recovered: every run below a directory or a prefix of a bucket, and where each of them is.

Nothing is changed by looking. Figures of a run in a store come from its segments, which are kept in the reader's
cache, so a second look fetches only what is new.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast.errors import HoldfastError
from holdfast.run.find import RUNS, all_runs
from holdfast.run.home import wanted
from holdfast.run.lacking import lacking_scores
from holdfast.run.layout import Layout
from holdfast.run.reading import RunReader
from holdfast.run.recover import age_seconds
from holdfast.run.remote import open_view
from holdfast.run.spool import spool_root
from holdfast.storage.filesystem import RealFileSystem
from holdfast.storage.lease import find_holder
from holdfast.storage.remote import RemoteStore, is_url
from holdfast.storage.remote_lease import find_remote_holder


class Recoverable(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run that is there, wholly or in part."""

    run: str
    state: str
    """running, incomplete, complete, or unreadable."""
    finished: int
    planned: int
    source: str
    """local, remote, or both."""
    age_seconds: float | None = None
    """Since it last grew, by this machine's clock."""
    note: str = ""


def list_recoverable(place: str | Path = RUNS) -> list[Recoverable]:
    """The runs below a directory or the URL of a prefix, in the order of their names.

    Raises:
        StorageFailure: the store cannot be reached.
    """
    text = str(place)
    if is_url(text):
        return [_remote(url) for url in _urls_below(RemoteStore(text))]
    root = Path(place)
    return [_local(run) for run in ([root] if Layout(root).journal.is_dir() else all_runs(root))]


def _urls_below(store: RemoteStore) -> list[str]:
    prefixes = {entry.key.rpartition("journal/")[0].rstrip("/") for entry in store.list() if _is_segment(entry.key)}
    return sorted(f"{store.url}/{prefix}".rstrip("/") for prefix in prefixes)


def _is_segment(key: str) -> bool:
    parts = Path(key).parts
    return len(parts) >= 2 and parts[-2] == "journal"


def _remote(url: str) -> Recoverable:
    source = "both" if Layout(spool_root(url)).journal.is_dir() else "remote"
    try:
        root, _ = open_view(url, only=("journal/",))
        return _read(root, url, source, is_running=_is_running(url))
    except HoldfastError as error:
        return Recoverable(url, "unreadable", 0, 0, source, note=error.message)


def _local(root: Path) -> Recoverable:
    try:
        url = Layout(root).remote.read_text(encoding="utf-8").strip() if Layout(root).remote.is_file() else ""
        source = "both" if url and _is_up(url) else "local"
        return _read(root, str(root), source, is_running=find_holder_of(root))
    except HoldfastError as error:
        return Recoverable(str(root), "unreadable", 0, 0, "local", note=error.message)


def _is_up(url: str) -> bool:
    try:
        return bool(wanted(RemoteStore(url), ("journal/",)))
    except HoldfastError:
        return False


def find_holder_of(root: Path) -> bool:
    """Whether a session on this machine executes the run in a directory."""
    return find_holder(RealFileSystem(), root) is not None


def _is_running(url: str) -> bool:
    published = find_remote_holder(RemoteStore(url))
    return published is not None and published.is_current()


def _read(root: Path, name: str, source: str, *, is_running: bool) -> Recoverable:
    reader = RunReader(root)
    try:
        finished = sum(1 for _ in reader.finished()) - len(lacking_scores(reader))
        planned = reader.sessions[-1].planned if reader.sessions else 0
        state = "complete" if 0 < planned <= finished else "running" if is_running else "incomplete"
        return Recoverable(name, state, finished, planned, source, age_seconds(reader.last_written_at()))
    finally:
        reader.close()
