"""Filling the index of a run while its session writes, so that nothing has to be read again at its end.

Written records are added a few thousand at a time, in a separate thread. The index is only a cache: a failure costs
time, never data. It is published when the session has ended, and a copy of it now and then before: readers of a
running session, and the next session after a kill, start from that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.journal import Index
from holdfast.journal.commit_queue import QueuedRecord
from holdfast.journal.frame import Origin
from holdfast.journal.index.database import INDEX, INDEX_ERRORS, BrokenIndex, publish_index
from holdfast.run.fold.fold_writer import FoldWriter
from holdfast.run.fold.reader import RunReader

_RECORDS_AT_A_TIME = 20_000


class IndexFeed:
    """Takes in what the journal's thread has written."""

    def __init__(
        self, reader: RunReader, is_in_place: Callable[[], bool] = lambda: True, published: Path | None = None
    ) -> None:
        """`is_in_place` says whether the run is where it was: elsewhere nothing is written by name.

        The index is `published` there, or at its place in the run.
        """
        self._published = published or reader.layout.index
        self._is_in_place = is_in_place
        self._reader, self._path = reader, reader.index.path
        if (published := reader.layout.index).exists() and not published.is_file():
            # Checked now, so that the ledger has it: the ledger is written before the index is published.
            reader.index.failures.note(INDEX, "another file is in its place")
        self._fold = FoldWriter()
        self._index: Index | None = None
        self._waiting = 0
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._is_over = self._is_closed = False

    def written(self, frame: Origin, batch: Sequence[QueuedRecord]) -> None:
        """A frame is durable; called by the journal's thread."""
        if self._path is None or self._is_over:
            # The frame is read from the journal instead.
            return
        self._fold.prepare(frame, batch)
        self._waiting += len(batch)
        if self._waiting >= _RECORDS_AT_A_TIME:
            self._waiting = 0
            self._start_thread()
            self._wake.set()

    def _start_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="holdfast-index", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            while not self._is_over:
                self._wake.wait()
                self._wake.clear()
                if not self._is_over:
                    self.catch_up(growing=True)
        finally:
            # Whatever ended this thread: nobody prepares frames that it would never take in.
            self._is_over = True

    def catch_up(self, *, growing: bool = False) -> bool:
        """Takes in everything that has been written; whether the session's reader knows of it now."""
        try:
            with self._lock:
                if self._is_closed or not self._is_in_place():
                    return False
                index = self._open_index()
                index.refresh(settle=False, again=False, growing=growing)
                if growing:
                    index.publish_copy(self._published)
        except (OSError, *INDEX_ERRORS) as error:
            self._give_up(error)
            return False
        if not growing:
            self._reader.forget()
        # A new index, in a file of its own, may have had to take the place of the old one.
        return index is self._reader.index or not index.note

    def _give_up(self, error: OSError | BrokenIndex) -> None:
        """What is not taken in, the next one who opens the run reads."""
        self._is_over = True
        self._reader.index.failures.note(INDEX, error if isinstance(error, OSError) else str(error))

    def _open_index(self) -> Index:
        """An index of the feed's own on the same file: the session reads from it meanwhile."""
        if self._path is None:
            return self._reader.index
        if self._index is None:
            self._index = Index(self._reader.journal, self._fold, self._path)
            # The first failure of the index is reported, on either of the two connections.
            self._index.failures.listen(lambda failure: self._reader.index.failures.note(INDEX, failure.reason))
        return self._index

    def finish(self) -> None:
        """Takes in the rest, and publishes the index."""
        self.stop()
        self.catch_up()
        self.close()
        self._reader.index.close()
        if self._path is not None and self._is_in_place():
            try:
                publish_index(self._path, self._published)
            except OSError as error:
                self._give_up(error)

    def stop(self) -> None:
        """Ends the thread; what it has not taken in, the next one who opens the run reads."""
        self._is_over = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def close(self) -> None:
        """Ends the thread and closes the index; nothing is taken in any more."""
        self.stop()
        with self._lock:
            self._is_closed = True
            if self._index is not None:
                self._index.close()
