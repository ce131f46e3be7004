"""Repairing a run in an object store, under its lease: from the spool of this machine, and from what the store has.

What is missing here is downloaded, the spool is repaired like any run, and what the store lacks or has altered is
written there again. An object is replaced only after its bytes are stored as `backup-<n>/…` beside it, and only if it
has not changed since it was read. A segment is replaced only if the object fails its own checks and the one here does
not.
"""

from __future__ import annotations

import msgspec

from holdfast.errors import StorageFailure
from holdfast.run.core.layout import Layout, spool_root
from holdfast.run.remote.healing import back_up_object, heal_segments, heal_store
from holdfast.run.remote.spool import fill_spool, take_run_lease
from holdfast.run.remote.upload_set import UploadSet
from holdfast.run.repair.recording_session import Planner
from holdfast.run.repair.repair import RepairReport, repair_run
from holdfast.storage.leases.remote import RemoteLease
from holdfast.storage.object_store import ObjectStore

_CONFIG = "config.yaml"


def repair_stored_run(url: str, planner: Planner) -> RepairReport:
    """Repairs the run at the URL, and its spool on this machine.

    Raises:
        NotARun: there is no run.
        RunHeld: a session is using it.
        StorageFailure: the store does not answer, an object was changed by somebody else meanwhile, or the lease could
            not be renewed.
    """
    store, root = ObjectStore(url), spool_root(url)
    store.probe()
    lease = take_run_lease(store, root)
    try:
        downloaded = fill_spool(store, root)
        _require_lease(store, lease)
        found = repair_run(root, planner, at_least=lease.session)
        _require_lease(store, lease)
        # With its backup, before an upload writes the file again.
        rewritten = _write_config(store, Layout(root))
        _require_lease(store, lease)
        changes = [*found.changes, *rewritten, *heal_store(store, Layout(root))]
        _require_lease(store, lease)
        healed = heal_segments(store, Layout(root))
        uploads = UploadSet(store, Layout(root))
        uploads.upload(everything=True)
    finally:
        lease.release()
    notes = [*found.notes, *downloaded.warnings]
    unrepaired = [*found.unrepaired, *healed.unrepaired]
    if uploads.conflict is not None and not healed.unrepaired:
        unrepaired.append(str(uploads.conflict))
    return msgspec.structs.replace(
        found,
        run=store.url,
        ok=found.ok and unrepaired == found.unrepaired,
        changes=[*changes, *healed.changes],
        unrepaired=unrepaired,
        notes=notes,
    )


def _require_lease(store: ObjectStore, lease: RemoteLease) -> None:
    """Before each part that writes: the parts before it may have taken longer than the lease lives."""
    if not lease.is_held():
        raise StorageFailure(
            f"The repair of {store.url} has stopped: its lease could not be renewed; another session may use the run.",
            hint="Repair it again; what was repaired until now stays.",
        )


def _write_config(store: ObjectStore, layout: Layout) -> list[str]:
    """Makes the file in the store the one that the journal makes; what was done, in words."""
    data, found = layout.config.read_bytes(), store.get(_CONFIG)
    if found is not None and found[0] == data:
        return []
    if found is None:
        is_written = store.put_new(_CONFIG, data) is not None
        told = f"{_CONFIG} was missing in {store.url}; it was written from the journal."
    else:
        backup = back_up_object(store, _CONFIG, found[0])
        is_written = store.put_over(_CONFIG, data, found[1]) is not None
        told = f"{_CONFIG} in {store.url} differed from the journal; it was rewritten. As it was: {backup}."
    if not is_written:
        raise StorageFailure(
            f"{store.url}/{_CONFIG} was changed by another process meanwhile.", hint="Repair it again."
        )
    return [told]
