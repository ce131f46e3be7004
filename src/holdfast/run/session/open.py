"""Opening a run for executing.

It resolves what the session before left in doubt: the last whole frame of an unsealed segment may have been written
and never synced, so it is rewritten and synced before anything in it counts. Then the session record follows, with the
whole configuration and pins on earlier segments. Only after that may work begin.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from holdfast.errors import StorageFailure
from holdfast.journal import SegmentPin
from holdfast.run.core.keys.key_refusals import session_line
from holdfast.run.core.layout import Layout, reader_index_path
from holdfast.run.core.records import SessionRecord
from holdfast.run.core.run_id import check_openable, find_run_id
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.reader_index import adopt_indexes
from holdfast.run.session.session import RunSession
from holdfast.run.session.session_lease import held_layout, noticing_loss
from holdfast.run.session.writer_options import DEFAULT_WRITER, WriterOptions
from holdfast.storage import Lease, RealFileSystem, crashpoints, take_lease
from holdfast.storage.filesystem import FileSystem, sync_name

_VOUCHING = 2
"""How many records vouch for a segment in the end."""
MakeSessionRecord = Callable[[RunReader, int, list[SegmentPin]], SessionRecord]
"""Makes a session's record, given its number and pins on all that is there."""


def open_session(
    root: Path,
    make: MakeSessionRecord,
    fs: FileSystem | None = None,
    *,
    at_least: int = 1,
    writer: WriterOptions = DEFAULT_WRITER,
) -> RunSession:
    """Opens the run in `root` for executing; `make` gives this session's record, whose number is `at_least` or higher.

    Raises:
        NotARun: there is no run.
        RunHeld: another session is using it.
        NewerFormat: a newer version wrote it.
        StorageFailure: the session's record could not be made durable.
        RunGone: the run was moved, deleted or replaced meanwhile; nothing was written to another.
    """
    fs = fs or RealFileSystem()
    check_openable(root, fs)
    with contextlib.ExitStack() as undo:
        lease = take_lease(fs, root)
        undo.callback(lease.release)
        with noticing_loss(lease):
            _sync_run_name(fs, root)
            reader = _read_held(fs, Layout(root), lease)
            undo.callback(reader.close)
            session = _open_under_lease(reader, lease, max(_next_number(reader), at_least), make, writer)
        undo.pop_all()
        return session


def _read_held(fs: FileSystem, layout: Layout, lease: Lease) -> RunReader:
    """A reader of the run whose lease is held, and of no other that has its name by now."""
    held = held_layout(lease, layout, fs)
    run = find_run_id(fs, held)
    adopt_indexes(held.index, held.index_in_use, reader_index_path(layout.root, run))
    with contextlib.ExitStack() as undo:
        reader = RunReader(layout.root, fs, index=held.index_in_use)
        undo.callback(reader.close)
        lease.check()
        if reader.run != run:
            raise StorageFailure(
                f"Another run was at {layout.root} while it was being opened.", hint="Resume it again."
            )
        undo.pop_all()
    return reader


def _sync_run_name(fs: FileSystem, root: Path) -> None:
    """The process that made the run may have died between renaming it and syncing its parent."""
    try:
        sync_name(fs, root.absolute())
    except OSError as error:
        raise StorageFailure(
            f"The directory of {root} could not be synced: {error.strerror}.",
            hint="All synced records are intact; fix the storage, then resume.",
        ) from error


def _open_under_lease(
    reader: RunReader, lease: Lease, number: int, make: MakeSessionRecord, writer: WriterOptions
) -> RunSession:
    pins = _missing_pins(reader)
    session = msgspec.structs.replace(make(reader, number, pins), unrecorded_end=lease.unrecorded)
    line = session_line(session, reader.sessions[-1] if reader.sessions else None)
    options = writer.configured(session.config)
    # After a failed sync these bytes may be in memory only, and a second sync would not write them: a copy is sure.
    copies = [doubtful.copy for doubtful in reader.index.doubtful()]
    lease.check()
    directory = held_layout(lease, reader.layout, reader.fs).journal
    journal = options.open(reader.fs, directory.absolute(), reader.run, number, format_=reader.format)
    with contextlib.ExitStack() as undo:
        undo.callback(journal.abandon)
        for copy in copies:
            journal.copy(copy)
        crashpoints.reach("session.settled")
        journal.queue.commit(line)
        lease.note_end(None)
        crashpoints.reach("session.opened")
        # What was there before has just been read, under the lease.
        reader.refresh(again=False)
        # From now on by its name, absolute because a task may change the working directory: so a loss is noticed.
        journal.moved_to(reader.layout.journal.absolute())
        lease.check()
        undo.pop_all()
    return RunSession(reader, journal, lease, session)


def _missing_pins(reader: RunReader) -> list[SegmentPin]:
    """Pins on the segments for which fewer than two records vouch: if one vanishes or shrinks later, that is noticed.

    Not on all of them: the records of a thousand sessions would then be as long as a million pins. A record that
    vouches is itself vouched for by those after it.
    """
    known = Counter(reader.pins())
    return [pin for state in reader.index.states() if known[pin := state.pin()] < _VOUCHING]


def _next_number(reader: RunReader) -> int:
    numbers = [state.ident.session for state in reader.index.states()]
    numbers += [pin.session for pin in (*reader.pins(), *reader.index.gone())]
    return max(numbers, default=0) + 1
