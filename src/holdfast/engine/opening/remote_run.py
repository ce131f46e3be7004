"""A run in an object store: started or resumed under the store's lease, from a spool on this machine.

The store is probed first: without conditional writes two sessions could write to one run. A resume downloads
what the spool does not have, and uploads what the store does not have; only then does work start.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from holdfast.engine.opening.comparing.offer import Offer
from holdfast.engine.opening.new_run import CheckPlan, StartedSession, accept_plan, start_run
from holdfast.engine.opening.resume import ALL_TRIALS, resume_run
from holdfast.engine.planning.selection import SelectionRequest
from holdfast.errors import NotARun, StorageFailure, UsageError
from holdfast.run.core.display_text import shell_word
from holdfast.run.core.layout import Layout, spool_root
from holdfast.run.core.run_id import find_run_id
from holdfast.run.fold.states import StateCounts
from holdfast.run.remote.healing import heal_segments, heal_store
from holdfast.run.remote.merged_view import open_merged_view
from holdfast.run.remote.run_objects import list_run_objects, run_id_in_store
from holdfast.run.remote.spool import fill_spool, name_url, take_run_lease
from holdfast.run.remote.upload_lag import segments_text
from holdfast.run.remote.upload_schedule import UploadSchedule
from holdfast.run.remote.upload_set import UploadSet
from holdfast.run.remote.upload_watermark import has_watermark, write_watermark
from holdfast.run.remote.uploader import Uploader
from holdfast.run.session.store_copy import StoreCopy
from holdfast.run.session.writer_options import WriterOptions
from holdfast.spec import EvalSpec
from holdfast.storage.filesystem import RealFileSystem
from holdfast.storage.leases.remote import HolderProgress, RemoteLease
from holdfast.storage.object_store import ObjectStore
from holdfast.tasks.task import Task


def remote_exists(url: str) -> bool:
    """Whether there is a run at the URL, or a spool of it here.

    Raises:
        StorageFailure: the store cannot be reached.
    """
    return Layout(spool_root(url)).journal.is_dir() or bool(ObjectStore(url).list("journal"))


def start_remote_run(
    spec: EvalSpec,
    url: str,
    *,
    tasks: Mapping[str, Task] | None = None,
    source: str = "",
    check_plan: CheckPlan = accept_plan,
    until: str = "",
) -> StartedSession:
    """Makes a new run at the URL; `check_plan` and `until` as for `start_run`.

    Raises:
        UsageError: there is a run already.
        ConfigurationError: the store ignores conditions, or a task, dataset or model is wrong.
        StorageFailure: the store cannot be reached.
        RunHeld: another session is making or executing the run.
    """
    refuse_existing_remote(url)
    store = ObjectStore(url)
    store.probe()
    with contextlib.ExitStack() as undo:
        lease = RemoteLease(store, lifetime=spec.runner.lease)
        undo.callback(lease.release)
        root = spool_root(url)
        uploader = _uploader(UploadSet(store, Layout(root)), spec)
        writer = WriterOptions(on_sealed=uploader.sealed)
        started = start_run(spec, root, tasks=tasks, source=source, writer=writer, check_plan=check_plan, until=until)
        name_url(root, store)
        remote = _attach_store(started, lease, uploader)
        undo.pop_all()
        return remote


def refuse_existing_remote(url: str) -> None:
    """Raises UsageError if there is a run at the URL.

    Raises:
        StorageFailure: the store cannot be reached.
    """
    if remote_exists(url):
        raise UsageError(
            f"{url} already holds a run.",
            hint=f"Resume it with `holdfast resume {shell_word(url)}`, or add `--or-resume` to the same command.",
        )


def open_readable_copy(url: str) -> Path:
    """A directory with the run at the URL, as it is in the store and on this machine.

    Raises:
        NotARun: there is no run.
        UsageError: the store holds another run than the spool of this machine.
        StorageFailure: the store cannot be reached.
    """
    _refuse_other_run(ObjectStore(url), spool_root(url))
    return open_merged_view(url)[0]


def resume_remote_run(
    url: str,
    spec: EvalSpec,
    *,
    offer: Offer | None = None,
    tasks: Mapping[str, Task] | None = None,
    selection: SelectionRequest = ALL_TRIALS,
) -> StartedSession:
    """Opens the run at the URL for its next session, through the gate; `spec` is the eval that it accepted before.

    Raises:
        ResumeAborted: it cannot be resumed with what is offered.
        RunHeld: another session is using it.
        StorageFailure: the store cannot be reached.
        SegmentConflict: trials count only once they are up, and the store holds something else in their place.
    """
    store = ObjectStore(url)
    store.probe()
    with contextlib.ExitStack() as undo:
        root = spool_root(url)
        lease = take_run_lease(store, root, spec.runner.lease)
        undo.callback(lease.release)
        downloaded = fill_spool(store, root)
        healed = heal_segments(store, Layout(root))
        uploads = UploadSet(store, Layout(root))
        warnings = [
            *downloaded.warnings,
            *healed.changes,
            *_upload_earlier(uploads, spec),
            *heal_store(store, Layout(root)),
        ]
        uploader = _uploader(uploads, spec)
        writer = WriterOptions(on_sealed=uploader.sealed)
        started = resume_run(root, offer=offer, tasks=tasks, selection=selection, at_least=lease.session, writer=writer)
        remote = _attach_store(started, lease, uploader, warnings)
        undo.pop_all()
        return remote


def upload_rest(url: str, counts: StateCounts) -> None:
    """Uploads what a spool on this machine has and the store has not; for a run in which no trial remains.

    What is published meanwhile are the counts of the run, which this machine knows.

    Raises:
        RunHeld: a session is using the run.
        SegmentConflict: it holds something else in its place.
        StorageFailure: the store does not take it; it stays in the spool.
    """
    layout = Layout(spool_root(url))
    if not layout.journal.is_dir():
        return
    store = ObjectStore(url)
    uploads = UploadSet(store, layout)
    if not uploads.missing(everything=True):
        return
    try:
        with contextlib.ExitStack() as undo:
            lease = take_run_lease(store, layout.root)
            undo.callback(lease.release)
            run = find_run_id(RealFileSystem(), layout).hex()
            progress = partial(HolderProgress, counts.finished, counts.planned)
            lease.publish(lambda: progress(uploads.lag.segments), lease.session, run)
            uploads.upload(everything=True)
            if has_watermark(layout.root):
                write_watermark(layout.root, uploads.confirmed())
    except StorageFailure as failure:
        left = segments_text(len(uploads.missing(everything=True)))
        raise StorageFailure(
            f"Not in {url} yet, but safe in {layout.root}: {left}. {failure.message}",
            hint=f"Upload them, once the store answers, with: holdfast resume {shell_word(url)}",
        ) from failure
    if uploads.conflict is not None:
        raise uploads.conflict


def _refuse_other_run(store: ObjectStore, root: Path) -> None:
    """Raises UsageError if the store holds another run than the spool: they would be mixed up."""
    layout = Layout(root)
    try:
        here, there = find_run_id(RealFileSystem(), layout), run_id_in_store(store, list_run_objects(store))
    except NotARun:
        # There is nothing here, or nothing there yet.
        return
    if here != there:
        raise UsageError(
            f"{store.url} is not the same run as the spool {root} on this machine.",
            hint=f"To resume the run in the store, move {root} away; the run in it can be read and resumed there.",
        )


def _upload_earlier(uploads: UploadSet, spec: EvalSpec) -> list[str]:
    """Uploads what earlier sessions left in the spool; the warnings for a person."""
    uploads.upload(everything=True)
    if uploads.conflict is None:
        return []
    if spec.runner.durability == "remote":
        raise uploads.conflict
    return [str(uploads.conflict)]


def _uploader(uploads: UploadSet, spec: EvalSpec) -> Uploader:
    is_counted = spec.runner.durability == "remote"
    schedule = UploadSchedule(spec.runner.upload_interval, grows=not is_counted)
    return Uploader(uploads, schedule, keeps_watermark=is_counted)


def _attach_store(
    started: StartedSession, lease: RemoteLease, uploader: Uploader, warnings: Sequence[str] = ()
) -> StartedSession:
    counts_when_uploaded = started.prepared.spec.runner.durability == "remote"
    started.session.attach_store(StoreCopy(lease, uploader, counts_when_uploaded))
    clock = filter(None, [lease.clock_warning()])
    return replace(started, url=uploader.url, warnings=[*warnings, *started.warnings, *clock])
