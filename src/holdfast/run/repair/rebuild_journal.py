"""A new journal for a run that has lost its own: built beside it, with its session record synced, then renamed.

The rest of the old journal is moved to the backup. The new one has a new id, so that no index, pin or copy in a store
that refers to the lost journal is taken for this one.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from holdfast.journal import BlobStore, JournalWriter
from holdfast.journal.index.database import remove_index, sum_path
from holdfast.run.core.codec import encode
from holdfast.run.core.inputs import copy_inputs
from holdfast.run.core.layout import Layout
from holdfast.run.core.session_contents import session_record
from holdfast.run.fold.reader import RunReader
from holdfast.run.repair.backup import Backup
from holdfast.run.repair.recording_session import RepairSession
from holdfast.run.session.session import RunSession
from holdfast.storage import Lease, crashpoints
from holdfast.storage.filesystem import FileSystem

_REBUILDING_PREFIX = ".journal.building-"


def rebuild_journal(
    fs: FileSystem,
    layout: Layout,
    lease: Lease,
    backup: Backup,
    repair: RepairSession,
) -> RunSession:
    """The first session of the new journal; the lease is its own from here on.

    Raises:
        OSError, StorageFailure: it could not be written; the run is as it was, or ready for another repair.
    """
    run = os.urandom(16)
    building = layout.root / f"{_REBUILDING_PREFIX}{run.hex()[:12]}"
    with contextlib.ExitStack() as undo:
        undo.callback(lease.release)
        _make_directories(fs, layout, building)
        copied = copy_inputs(BlobStore(fs, layout.inputs), repair.inputs)
        session = session_record(run.hex(), 1, [], repair.contents.with_inputs(copied))
        journal = JournalWriter(fs, building, run, 1)
        undo.callback(journal.abandon)
        journal.queue.commit(encode(session))
        crashpoints.reach("repair.rebuilding")
        _back_up_old_journal(fs, layout, backup)
        fs.rename(building, layout.journal)
        fs.sync_directory(layout.root)
        crashpoints.reach("repair.rebuilt")
        journal.moved_to(layout.journal)
        opened = RunSession(RunReader(layout.root, fs, index=layout.index_in_use), journal, lease, session)
        undo.pop_all()
        return opened


def _make_directories(fs: FileSystem, layout: Layout, building: Path) -> None:
    for name in fs.list(layout.root):
        if name.startswith(_REBUILDING_PREFIX):
            fs.remove_tree(layout.root / name)
    for directory in (building, layout.blobs, layout.inputs, layout.artifacts):
        with contextlib.suppress(FileExistsError):
            fs.make_directory(directory)
    fs.sync_directory(layout.root)


def _back_up_old_journal(fs: FileSystem, layout: Layout, backup: Backup) -> None:
    if layout.journal.is_dir() and not fs.list(layout.journal):
        # An empty directory gives way to the new one by itself.
        pass
    elif os.path.lexists(layout.journal):
        backup.move(layout.journal)
    back_up_index(layout, backup)


def back_up_index(layout: Layout, backup: Backup) -> None:
    """Puts an index that is unusable, and what SQLite left beside it, into the backup."""
    remove_index(layout.index_in_use)
    for path in (layout.index, sum_path(layout.index)):
        if os.path.lexists(path):
            backup.move(path)
