"""Writing for a session that another process holds: one more writer, with its own segments.

Records that this process acknowledges are as durable as the holder's. It may write as long as the holder does: a
thread checks a few times a second whether the session still runs (`storage/leases/writers.py`), and stops the writer
if not.
"""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

from holdfast.errors import StorageFailure
from holdfast.journal import BlobStore, JournalWriter
from holdfast.run.core.layout import Layout
from holdfast.run.core.run_id import find_run_id
from holdfast.run.session.journal_sink import JournalSink
from holdfast.run.session.session_lease import INTACT_HINT, SessionLease
from holdfast.run.session.watermarks import Watermarks
from holdfast.run.session.writer_options import DEFAULT_WRITER, WriterOptions
from holdfast.storage import RealFileSystem
from holdfast.storage.filesystem import FileSystem
from holdfast.storage.leases.writers import JoinedLease, WriterTerms

_LOOK_SECONDS = 0.1


def join_session(
    root: Path,
    session: int,
    writer: int,
    fs: FileSystem | None = None,
    *,
    options: WriterOptions = DEFAULT_WRITER,
) -> JoinedSession:
    """Joins a session of the run in `root` under a writer number that its holder has issued.

    Raises:
        NotARun: there is no run.
        RunHeld: the session has ended, or its holder is gone.
        UsageError: the number was not issued, or has been used.
        StorageFailure: nothing can be written there.
    """
    # Absolute, because a task may change the working directory.
    fs, layout = fs or RealFileSystem(), Layout(root.absolute())
    run = find_run_id(fs, layout)
    lease = JoinedLease(fs, root, session, writer)
    with contextlib.ExitStack() as undo:
        undo.callback(lease.release)
        journal = options.open(fs, layout.journal, run, session, writer=writer)
        undo.pop_all()
    return JoinedSession(lease, journal, BlobStore(fs, layout.blobs), str(root))


class JoinedSession:
    """This process's part in a session: a sink, for as long as the session runs."""

    def __init__(self, lease: JoinedLease, journal: JournalWriter, blobs: BlobStore, place: str) -> None:
        self._lease, self._journal, self.number = lease, journal, journal.session
        ended = f"Session {self.number} of {place} has ended, or the process that held it is gone"
        self._over = f"{ended}; nothing more can be recorded."
        self._watermarks = Watermarks()
        self._sealed_at = time.monotonic()
        self.sink = JournalSink(journal, blobs, SessionLease(lease, place, self._over))
        journal.check_lease = lease.check
        if lease.terms.counts_when_uploaded:
            self.sink.count_when_uploaded(self._watermarks)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="holdfast-joined", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        try:
            while not self._stop.wait(_LOOK_SECONDS):
                if (terms := self._lease.look()) is None:
                    break
                self._follow(terms)
        finally:
            if not self._stop.is_set():
                self._leave()

    def _follow(self, terms: WriterTerms) -> None:
        """Takes note of what is in the store, and seals what is to be uploaded."""
        self._watermarks.confirm(self._journal.writer, terms.uploaded.get(self._journal.writer, 0))
        if terms.seal_seconds and time.monotonic() - self._sealed_at >= terms.seal_seconds:
            self._journal.roll()
            self._sealed_at = time.monotonic()

    def _leave(self) -> None:
        """Stops writing; what still waited is refused. The share is given back only after the last write."""
        self._journal.abandon(StorageFailure(self._over, hint=INTACT_HINT))
        self._lease.release()

    def close(self) -> None:
        """Writes what waits, seals, and leaves the session.

        Raises:
            StorageFailure: something could not be made durable; acknowledged records are intact.
        """
        self._end_thread()
        try:
            self._journal.close()
        finally:
            self._leave()

    def abandon(self) -> None:
        """Leaves the session without writing anything more, as a crash would."""
        self._end_thread()
        self._leave()

    def _end_thread(self) -> None:
        self._stop.set()
        self._thread.join()
