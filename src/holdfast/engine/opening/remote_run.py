"""Beginning a session of a run in an object store: under the store's lease, from a spool on this machine.

The store is probed first: one that ignores conditions on writes could not keep two sessions apart. A resume brings
home what the spool does not have, and uploads what the store does not have; only then does work begin.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from holdfast.engine.opening.start import StartedSession, examine_run, resume_run, start_run
from holdfast.errors import NotARun, UsageError
from holdfast.run.core.layout import Layout
from holdfast.run.core.run_id import find_run_id
from holdfast.run.remote.download import DownloadedRun, download_run, remove_partial_downloads
from holdfast.run.remote.merged_view import open_merged_view
from holdfast.run.remote.run_objects import list_run_objects, run_id_in_store
from holdfast.run.remote.spool import newest_session, spool_root
from holdfast.run.remote.upload_set import UploadSet
from holdfast.run.remote.uploader import Uploader
from holdfast.run.session.store_copy import StoreCopy
from holdfast.run.session.writer_options import WriterOptions
from holdfast.spec import EvalSpec
from holdfast.storage.filesystem import RealFileSystem
from holdfast.storage.leases.remote import RemoteLease
from holdfast.storage.object_store import ObjectStore
from holdfast.tasks import Task


def remote_exists(url: str) -> bool:
    """Whether there is a run at the URL, or a spool of it here.

    Raises:
        StorageFailure: the store cannot be reached.
    """
    return Layout(spool_root(url)).journal.is_dir() or bool(ObjectStore(url).list("journal"))


def start_remote_run(
    spec: EvalSpec, url: str, *, tasks: Mapping[str, Task] | None = None, source: str = ""
) -> StartedSession:
    """Makes a new run at the URL.

    Raises:
        UsageError: there is a run already.
        ConfigurationError: the store ignores conditions, or a task, dataset or model is wrong.
        StorageFailure: the store cannot be reached.
        RunHeld: another session is making or executing the run.
    """
    store = ObjectStore(url)
    store.probe()
    if remote_exists(url):
        raise UsageError(
            f"{url} already holds a run.",
            hint=f"Go on with `holdfast resume {url}`, or add `--or-resume` to the same command.",
        )
    with contextlib.ExitStack() as undo:
        lease = RemoteLease(store)
        undo.callback(lease.release)
        root = spool_root(url)
        uploader = _uploader(UploadSet(store, Layout(root)), spec)
        begun = start_run(spec, root, tasks=tasks, source=source, writer=WriterOptions(on_sealed=uploader.sealed))
        _name_url(root, store)
        _attach_store(begun, lease, uploader, spec)
        undo.pop_all()
        return begun


def resume_remote_run(
    url: str, *, offered: EvalSpec | None = None, tasks: Mapping[str, Task] | None = None
) -> StartedSession:
    """Opens the run at the URL for its next session, through the gate.

    Raises:
        NotARun: there is no run.
        ResumeAborted: it may not go on with what is offered.
        RunHeld: another session executes it.
        StorageFailure: the store cannot be reached.
        SegmentConflict: trials count only once they are up, and the store holds something else in their place.
    """
    store = ObjectStore(url)
    store.probe()
    _refuse_other_run(store, spool_root(url))
    view, _ = open_merged_view(url)
    spec = examine_and_close(view, offered, tasks)
    with contextlib.ExitStack() as undo:
        root = spool_root(url)
        lease = RemoteLease(store, above=newest_session(store, root))
        undo.callback(lease.release)
        brought = _fill_spool(store, root)
        uploads = UploadSet(store, Layout(root))
        brought.warnings += _upload_earlier(uploads, spec)
        uploader = _uploader(uploads, spec)
        writer = WriterOptions(on_sealed=uploader.sealed)
        begun = resume_run(root, offered=offered, tasks=tasks, at_least=lease.session, writer=writer)
        begun.warnings = brought.warnings
        _attach_store(begun, lease, uploader, begun.prepared.spec)
        undo.pop_all()
        return begun


def upload_rest(url: str) -> None:
    """Uploads what a spool on this machine has and the store has not; for a run of which nothing is owed.

    Raises:
        RunHeld: a session executes the run.
        UsageError: the store holds another run.
        SegmentConflict: it holds something else in its place.
        StorageFailure: the store does not take it; it stays in the spool.
    """
    layout = Layout(spool_root(url))
    if not layout.journal.is_dir():
        return
    store = ObjectStore(url)
    _refuse_other_run(store, layout.root)
    uploads = UploadSet(store, layout)
    if not uploads.missing(everything=True):
        return
    lease = RemoteLease(store, above=newest_session(store, layout.root))
    try:
        uploads.upload(everything=True)
    finally:
        lease.release()
    if uploads.conflict is not None:
        raise uploads.conflict


def _refuse_other_run(store: ObjectStore, root: Path) -> None:
    """Raises UsageError if the store holds another run than the spool: they would become one heap."""
    layout = Layout(root)
    try:
        here, there = find_run_id(RealFileSystem(), layout), run_id_in_store(store, list_run_objects(store))
    except NotARun:
        # There is nothing here, or nothing there yet.
        return
    if here != there:
        raise UsageError(
            f"{store.url} holds another run than the spool {root} of this machine.",
            hint=f"To go on with the run in the store, move {root} away; the run in it can be read and resumed there.",
        )


def _upload_earlier(uploads: UploadSet, spec: EvalSpec) -> list[str]:
    """Uploads what earlier sessions left in the spool; what a person has to be told."""
    uploads.upload(everything=True)
    if uploads.conflict is None:
        return []
    if spec.runner.durability == "remote":
        raise uploads.conflict
    return [str(uploads.conflict)]


def _fill_spool(store: ObjectStore, root: Path) -> DownloadedRun:
    """Brings home what the spool does not have; a spool that was not there is marked as brought home."""
    remove_partial_downloads(root)
    if not Layout(root).journal.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        Layout(root).recovered.write_text(store.url + "\n", encoding="utf-8")
        brought = download_run(store, root)
    else:
        try:
            brought = download_run(store, root)
        except NotARun:
            # Its machine was stopped before anything was uploaded, and this is that machine.
            brought = DownloadedRun()
    _name_url(root, store)
    return brought


def _name_url(root: Path, store: ObjectStore) -> None:
    Layout(root).remote.write_text(store.url + "\n", encoding="utf-8")


def examine_and_close(view: Path, offered: EvalSpec | None, tasks: Mapping[str, Task] | None) -> EvalSpec:
    passage = examine_run(view, offered, tasks)
    passage.inputs.close()
    return passage.decision.spec


def _uploader(uploads: UploadSet, spec: EvalSpec) -> Uploader:
    return Uploader(uploads, interval=spec.runner.upload_interval)


def _attach_store(begun: StartedSession, lease: RemoteLease, uploader: Uploader, spec: EvalSpec) -> None:
    begun.url = uploader.url
    counts_when_uploaded = spec.runner.durability == "remote"
    begun.session.attach_store(StoreCopy(lease, uploader, counts_when_uploaded))
