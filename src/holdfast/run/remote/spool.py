"""The spool: the directory on this machine that holds a run in an object store while it grows."""

from __future__ import annotations

import contextlib
from pathlib import Path

from holdfast.errors import ConfigurationError, NotARun
from holdfast.journal.segment import parse_name
from holdfast.run.core.layout import Layout
from holdfast.run.remote.download import DownloadedRun, download_run, remove_partial_downloads
from holdfast.storage.leases.local import LIFETIME_SECONDS
from holdfast.storage.leases.remote import RemoteLease
from holdfast.storage.object_store import ObjectStore


def newest_session(store: ObjectStore, root: Path) -> int:
    """The highest number of a session that anything is known of, in the store or in the spool, going by names."""
    names = [Path(entry.key).name for entry in store.list("journal")]
    names += [path.name for path in Layout(root).journal.iterdir()] if Layout(root).journal.is_dir() else []
    return max((parsed[0].session for name in names if (parsed := parse_name(name))), default=0)


def take_run_lease(store: ObjectStore, root: Path, lifetime: float | None = None) -> RemoteLease:
    """The lease of a run that exists, for the lifetime that its configuration sets, unless another one is given.

    Raises:
        RunHeld: another session holds it, or was faster.
        StorageFailure: the store cannot be reached.
    """
    recorded = _recorded_lifetime(store, root)
    above = newest_session(store, root)
    return RemoteLease(store, above=above, lifetime=lifetime or recorded or LIFETIME_SECONDS, recorded=recorded)


def _recorded_lifetime(store: ObjectStore, root: Path) -> float:
    """The longest lifetime of a lease that `config.yaml` sets, here or in the store; 0 where it cannot be read."""
    found = store.get(Layout(root).config.name)
    texts = [found[0]] if found is not None else []
    with contextlib.suppress(OSError):
        texts.append(Layout(root).config.read_bytes())
    return max((_lifetime_in(text) for text in texts), default=0.0)


def _lifetime_in(config: bytes) -> float:
    from holdfast.spec.loading.yaml_document import read_document  # noqa: PLC0415 - PyYAML is needed here only

    try:
        data = read_document(config.decode("utf-8"), "config.yaml")
    except (ConfigurationError, UnicodeDecodeError):
        return 0.0
    runner = data.get("runner") if isinstance(data, dict) else None
    seconds = runner.get("lease") if isinstance(runner, dict) else None
    return float(seconds) if isinstance(seconds, int | float) else 0.0


def fill_spool(store: ObjectStore, root: Path) -> DownloadedRun:
    """Downloads what the spool does not have; a spool that did not exist is marked as downloaded.

    Raises:
        NotARun: there is nothing of the run, neither here nor in the store.
        StorageFailure: the store does not answer, or the spool cannot be written.
    """
    remove_partial_downloads(root)
    if not Layout(root).journal.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        Layout(root).recovered.write_text(store.url + "\n", encoding="utf-8")
        downloaded = download_run(store, root)
    else:
        try:
            downloaded = download_run(store, root)
        except NotARun:
            # Its machine was stopped before anything was uploaded, and this is that machine.
            downloaded = DownloadedRun()
    name_url(root, store)
    return downloaded


def name_url(root: Path, store: ObjectStore) -> None:
    """Writes down which run the spool is of."""
    Layout(root).remote.write_text(store.url + "\n", encoding="utf-8")
