"""Creating a run: completely or not at all.

A run is built in a sibling directory, its first session record synced, then renamed to its name, then the parent
directory synced. So a run's directory never exists without a session record. A crash leaves a directory whose name
begins with a dot; the next creation of the same run removes it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import HoldfastError, RunHeld, StorageFailure, UsageError
from holdfast.journal import BlobStore, JournalWriter
from holdfast.run.core.codec import outsource
from holdfast.run.core.config_file import write_config
from holdfast.run.core.display_text import nearby, no_results_text, shell_word
from holdfast.run.core.inputs import InputSource, copy_inputs
from holdfast.run.core.keys.key_free_records import key_free_line
from holdfast.run.core.keys.key_refusals import session_line
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import Record
from holdfast.run.core.session_contents import SessionContents, session_record
from holdfast.run.fold.reader import RunReader
from holdfast.run.session.session import RunSession
from holdfast.run.session.session_lease import held_layout, noticing_loss
from holdfast.run.session.writer_options import DEFAULT_WRITER, WriterOptions
from holdfast.storage import Lease, RealFileSystem, crashpoints, take_lease
from holdfast.storage.filesystem import FileSystem, sync_name

_CREATING = "creating"
_OTHER_PLACE = "Choose another place with --run-dir (in Python: run=), or change its permissions."
_MOST_PLACES = 20


FillRun = Callable[[FileSystem, Layout, str], None]
"""Puts further files into a run that does not have its name yet; gets its place and its id."""


def fill_nothing(fs: FileSystem, layout: Layout, run: str) -> None:
    """Most runs start without other files."""


class _FirstContent(NamedTuple):
    """What a run has before it has a name."""

    contents: SessionContents
    inputs: Mapping[str, InputSource]
    preload: Iterable[Record]
    fill: FillRun


class _BuildingPlace(NamedTuple):
    """Where a run is made before it has its name, under a lease."""

    run: bytes
    layout: Layout
    lease: Lease


def create_run(
    root: Path,
    contents: SessionContents,
    *,
    inputs: Mapping[str, InputSource] | None = None,
    preload: Iterable[Record] = (),
    fill: FillRun = fill_nothing,
    fs: FileSystem | None = None,
    writer: WriterOptions = DEFAULT_WRITER,
) -> RunSession:
    """Makes the run `root` and opens its first session; `inputs` are copied into the run.

    `preload` are records that the run starts with: they are durable before it has its name.
    `fill` is called after them.

    Raises:
        UsageError: something is there already.
        ConfigurationError: the configuration holds the value of a variable that is a key.
        StorageFailure: it could not be written; nothing is left under its name, or a run that can be resumed.
    """
    fs = fs or RealFileSystem()
    root = root.absolute()
    refuse_existing(root)
    try:
        return _create(fs, root, _FirstContent(contents, inputs or {}, preload, fill), writer)
    except OSError as error:
        if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
            # Somebody else has made it meanwhile.
            refuse_existing(root)
        raise StorageFailure(
            f"The run {root} could not be created: {error.strerror or error}.",
            hint=f"Resume it with `holdfast resume {root}`." if root.exists() else "No part of it was left behind.",
        ) from error


def refuse_existing(root: Path, otherwise: str = "add `--or-resume` to the same command") -> None:
    """Raises UsageError unless a run can be put at `root`: nothing is there, or an empty directory."""
    shown = nearby(str(root))
    if Layout(root).journal.exists():
        resume = f"Resume it with `holdfast resume {shell_word(shown)}`, or {otherwise}."
        hint = f"{resume} {no_results_text(shown)}" if _may_be_deleted(root) else resume
        raise UsageError(f"{shown} already holds a run.", hint=hint)
    if root.exists() and not (root.is_dir() and not any(root.iterdir())):
        raise UsageError(f"{shown} exists and is not an empty directory.", hint="Choose another directory for the run.")


def _may_be_deleted(root: Path) -> bool:
    """Whether the run is known to hold no results; one that cannot be read may hold some."""
    with contextlib.suppress(HoldfastError, OSError), contextlib.closing(RunReader(root)) as reader:
        return reader.may_be_deleted()
    return False


def refuse_unwritable(root: Path) -> None:
    """Raises StorageFailure where it is known before anything is done that no run can be made at `root`."""
    above = next((path for path in root.parents if path.exists()), root.parent)
    if not above.is_dir():
        raise StorageFailure(f"The run {root} cannot be created: {above} is not a directory.", hint=_OTHER_PLACE)
    if not os.access(above, os.W_OK | os.X_OK):
        raise StorageFailure(f"The run {root} cannot be created: no permission to write in {above}.", hint=_OTHER_PLACE)


def _claimed_building_place(fs: FileSystem, root: Path) -> _BuildingPlace:
    """A place of this process's own. Until its lease is taken, another creation may take it for one that was killed and
    remove it, or the part that is there: then another place is made.
    """
    make_directories(fs, root.parent)
    for places_left in reversed(range(_MOST_PLACES)):
        run = os.urandom(16)
        building = _building_place(root, run)
        try:
            _make_building_place(fs, root, building)
            lease = take_lease(fs, building.root)
        except (FileNotFoundError, StorageFailure, RunHeld) as error:
            # Nobody but such a creation holds a place that was just made.
            is_taken = isinstance(error, RunHeld) or not building.root.exists()
            if not (is_taken and places_left):
                _remove_building_place(fs, building.root)
                raise
            continue
        if all(directory.is_dir() for directory in _directories(building)):
            return _BuildingPlace(run, building, lease)
        # It was removed between two of its directories, and the second was made anew.
        _remove_building_place(fs, building.root)
        lease.release()
    raise StorageFailure(f"The run {root} could not be created: others remove what is made.")


def _building_place(root: Path, run: bytes) -> Layout:
    return Layout(root.with_name(f".{root.name}.{_CREATING}-{run.hex()[:12]}"))


def _create(fs: FileSystem, root: Path, first: _FirstContent, writer: WriterOptions) -> RunSession:
    run, building, lease = _claimed_building_place(fs, root)
    with contextlib.ExitStack() as undo:
        undo.callback(_remove_building_place, fs, building.root)
        undo.callback(lease.release)
        copied = copy_inputs(BlobStore(fs, building.inputs), first.inputs)
        crashpoints.reach("run.inputs-written")
        session = session_record(run.hex(), 1, [], first.contents.with_inputs(copied))
        journal = writer.configured(session.config).open(fs, building.journal, run, 1)
        undo.callback(journal.abandon)
        journal.queue.commit(session_line(session))
        _preload(journal, BlobStore(fs, building.blobs), first.preload)
        first.fill(fs, building, run.hex())
        write_config(fs, building.config, [session])
        fs.sync_directory(building.root)
        crashpoints.reach("run.session-synced")
        fs.rename(building.root, root)
        crashpoints.reach("run.renamed")
        fs.sync_directory(root.parent)
        crashpoints.reach("run.parent-synced")
        journal.moved_to(Layout(root).journal)
        lease.moved_to(root)
        with noticing_loss(lease):
            reader = RunReader(root, fs, index=held_layout(lease, Layout(root), fs).index_in_use)
            undo.callback(reader.close)
        opened = RunSession(reader, journal, lease, session)
        undo.pop_all()
        return opened


def _make_building_place(fs: FileSystem, root: Path, building: Layout) -> None:
    """Makes the directories of a run, beside the place that it will have."""
    _remove_unfinished_creations(fs, root)
    for directory in _directories(building):
        fs.make_directory(directory)
    crashpoints.reach("run.directory-made")


def _directories(building: Layout) -> tuple[Path, ...]:
    return building.root, building.journal, building.blobs, building.inputs, building.artifacts


def _remove_building_place(fs: FileSystem, building: Path) -> None:
    """Removes what was started; where that fails too, the next creation of the run removes it."""
    with contextlib.suppress(OSError):
        if building.exists():
            fs.remove_tree(building)


def _preload(journal: JournalWriter, blobs: BlobStore, records: Iterable[Record]) -> None:
    """Hands records in one behind the other; the last one is waited for, and with it all before it."""
    last: tuple[bytes, str] | None = None
    for record in records:
        if last is not None:
            journal.queue.append(*last)
        last = outsource(key_free_line(record)[0], blobs), getattr(record, "trial", "")
    if last is not None:
        journal.queue.commit(*last)


def make_directories(fs: FileSystem, path: Path) -> None:
    """Makes a directory and its parents so that they survive a power loss.

    Existing ones are synced too: the process that made them may have died before their names were durable.
    """
    for directory in reversed([path, *path.parents][:-1]):
        with contextlib.suppress(FileExistsError):
            if not directory.exists():
                fs.make_directory(directory)
        sync_name(fs, directory)


def _remove_unfinished_creations(fs: FileSystem, root: Path) -> None:
    """Removes what earlier creations of this run left when they were killed; never one that is still running.

    Each gets another name first: a creation that has just made its place, and has no lease yet, then finds it gone as a
    whole, and never puts its lease into a directory whose files are being deleted.
    """
    prefix = f".{root.name}.{_CREATING}-"
    for name in fs.list(root.parent):
        if not name.startswith(prefix):
            continue
        try:
            lease = take_lease(fs, root.parent / name)
        except HoldfastError:
            continue
        _remove_unfinished(fs, root.parent / name)
        lease.release()


def _remove_unfinished(fs: FileSystem, building: Path) -> None:
    """Removes a place whose lease this process has; a third creation may delete the renamed one at the same time."""
    removed = building.with_name(f"{building.name}-{os.urandom(4).hex()}")
    try:
        fs.rename(building, removed)
        fs.remove_tree(removed)
    except OSError as error:
        if error.errno not in {errno.ENOENT, errno.ENOTEMPTY}:
            raise
