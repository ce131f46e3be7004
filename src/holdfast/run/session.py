"""A run open for executing: under its lease, with a journal of this session's own.

Opening settles what the session before left in doubt: the last whole frame of an unsealed segment may have been
written and never synced, so it is written again and synced before anything in it counts. Then the session record
follows, with the whole configuration and a pin on every earlier segment. Only after that may work begin.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.errors import RunHeld, StorageFailure
from holdfast.journal import JournalWriter, RecordId, SegmentPin
from holdfast.run.layout import Layout
from holdfast.run.reading import RunReader, check_openable
from holdfast.run.records import Record, Session, SessionEnd, encode, outsource
from holdfast.storage import Lease, RealFileSystem, crashpoints, take_lease
from holdfast.storage.filesystem import FileSystem, sync_name
from holdfast.version import __version__

MakeSession = Callable[[int, list[SegmentPin]], Session]


class RunSession:
    """The one session that executes a run now. Records handed to it become durable, in order."""

    def __init__(self, reader: RunReader, writer: JournalWriter, lease: Lease, session: Session) -> None:
        self.reader, self._writer, self._lease = reader, writer, lease
        self.session = session
        self.run = reader.run
        self.layout = reader.layout

    @property
    def number(self) -> int:
        return self.session.number

    def _line(self, record: Record) -> bytes:
        if not self._lease.is_held():
            raise RunHeld(
                f"This session holds the run {self.layout.root} no more; another may be executing it.",
                hint="What was acknowledged is intact; see `holdfast status`, then resume.",
            )
        try:
            return outsource(encode(record), self.reader.blobs)
        except OSError as error:
            raise StorageFailure(f"A blob of {self.layout.root} could not be written: {error.strerror}.") from error

    def append(self, record: Record) -> None:
        """Hands a record in without waiting; it precedes everything handed in later."""
        self._writer.append(self._line(record), getattr(record, "trial", ""))

    def commit(self, record: Record) -> RecordId:
        """Returns once the record is durable.

        Raises:
            StorageFailure: it could not be made durable.
            RunHeld: the lease ran out, and another session may have taken the run.
        """
        return self._writer.commit(self._line(record), getattr(record, "trial", ""))

    async def commit_async(self, record: Record) -> RecordId:
        """As `commit`, for a coroutine."""
        return await self._writer.commit_async(self._line(record), getattr(record, "trial", ""))

    def put(self, record: Record) -> None:
        """As `append`, and never waits for room; for those who wait for a later record of theirs.

        Raises:
            StorageFailure: the journal has ended.
        """
        self._writer.put(self._line(record), getattr(record, "trial", ""))

    async def keep(self, record: Record) -> RecordId:
        """As `commit`, for a coroutine that may be cancelled: the cancellation waits until the record is durable.

        Raises:
            StorageFailure: it could not be made durable.
            RunHeld: the lease ran out, and another session may have taken the run.
        """
        return await self._writer.keep(self._line(record), getattr(record, "trial", ""))

    async def append_async(self, record: Record) -> None:
        """As `append`, for a coroutine: waits only for room."""
        await self._writer.submit(self._line(record), getattr(record, "trial", ""), wait=False)

    def close(self, how: str, exit_code: int = 0, **fields: Any) -> None:
        """Ends the session in an orderly way: writes what waits, the session's end, and seals.

        Raises:
            StorageFailure: the end could not be recorded; what was acknowledged is intact.
        """

        def last(pins: list[SegmentPin]) -> bytes:
            end = SessionEnd(number=self.number, how=how, exit_code=exit_code, at=now(), pins=pins, **fields)
            return encode(end)

        try:
            self._writer.close(last)
            # The session has ended; an index that cannot be brought up to it costs time, never data.
            with contextlib.suppress(OSError):
                self.reader.index.refresh(settle=False)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Lets go of the run without another word, as a crash would; nothing is written after that."""
        self._writer.abandon()
        self.reader.close()
        self._lease.release()


def now() -> str:
    """This moment, for people to read; never compared."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def open_session(
    root: Path,
    make: Callable[[RunReader, int, list[SegmentPin]], Session],
    fs: FileSystem | None = None,
    **writer: Any,
) -> RunSession:
    """Opens the run in `root` for executing; `make` gives this session's record.

    Raises:
        NotARun: there is no run.
        RunHeld: another session executes it.
        NewerFormat: a newer version wrote it.
        StorageFailure: the session's record could not be made durable.
    """
    fs = fs or RealFileSystem()
    check_openable(root, fs)
    with contextlib.ExitStack() as undo:
        lease = take_lease(fs, root)
        undo.callback(lease.release)
        _settle_name(fs, root)
        reader = RunReader(root, fs, index=Layout(root).index)
        undo.callback(reader.close)
        session = _begin(reader, lease, make, writer)
        undo.pop_all()
        return session


def _settle_name(fs: FileSystem, root: Path) -> None:
    """The process that made the run may have died between renaming it and syncing its parent."""
    try:
        sync_name(fs, root.absolute())
    except OSError as error:
        raise StorageFailure(
            f"The directory of {root} could not be synced: {error.strerror}.",
            hint="What was acknowledged is intact; put the storage right, then resume.",
        ) from error


def _begin(
    reader: RunReader,
    lease: Lease,
    make: Callable[[RunReader, int, list[SegmentPin]], Session],
    options: dict[str, Any],
) -> RunSession:
    number = _next_number(reader)
    pins = [state.pin() for state in reader.index.states()]
    session = make(reader, number, pins)
    journal = JournalWriter(reader.fs, reader.layout.journal, reader.run, number, **options)
    try:
        for doubtful in reader.index.doubtful():
            journal.copy(doubtful.frame.header, doubtful.frame.payload, doubtful.keys)
        crashpoints.reach("session.settled")
        journal.commit(encode(session))
        crashpoints.reach("session.opened")
        reader.refresh()
    except BaseException:
        journal.abandon()
        raise
    return RunSession(reader, journal, lease, session)


def _next_number(reader: RunReader) -> int:
    numbers = [state.ident.session for state in reader.index.states()]
    numbers += [pin.session for pin in (*reader.pins(), *reader.index.gone())]
    return max(numbers, default=0) + 1


def session_record(
    run: str, number: int, pins: list[SegmentPin], *, name: str, config: dict[str, Any], **fields: Any
) -> Session:
    """The record of a session of this process, now."""
    return Session(
        number=number,
        run=run,
        name=name,
        at=now(),
        version=__version__,
        config=config,
        environment={"python": sys.version.split()[0], "platform": sys.platform},
        invocation=list(sys.argv),
        pins=pins,
        **fields,
    )
