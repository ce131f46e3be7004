"""Group commit: many producers, one writer, and no acknowledgement before the sync.

One thread takes all the records that wait in the queue, writes them as one frame, syncs, and then wakes every
producer of that frame. There is no timer: during one sync the next frame gathers. Promises:

- Frame n+1 is written only after frame n is synced, so at most the last frame of a segment is ever in doubt.
- A failed write or sync ends the writer: every waiter and every later call gets StorageFailure. Nothing is retried.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from holdfast.errors import RunGone, StorageFailure, UsageError
from holdfast.journal.commit_queue import QUEUE_BYTES, CommitQueue, QueuedRecord
from holdfast.journal.frame import FORMAT, Origin
from holdfast.journal.segment import FrameCopy, SegmentId, SegmentPin, SegmentWriter, parse_name
from holdfast.storage import crashpoints
from holdfast.storage.filesystem import FileSystem

SEGMENT_BYTES = 16 << 20
_SEALING_SECONDS = 5.0
"""Longer than a disk takes to seal a segment; the caller has other work too."""


class JournalWriter:
    """Writes one writer's segments of a run. Producers hand their records to its `queue`, without a layer between."""

    def __init__(  # noqa: PLR0913 - which segments they are, and how large
        self,
        fs: FileSystem,
        directory: Path,
        run: bytes,
        session: int,
        *,
        writer: int = 0,
        format_: int = FORMAT,
        queue_bytes: int = QUEUE_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
        on_sealed: Callable[[SegmentId, int], None] | None = None,
    ) -> None:
        """`on_sealed` is called with every segment that was sealed, and its last frame; in the journal's thread."""
        self.queue = CommitQueue(queue_bytes)
        self.session, self.writer, self._format = session, writer, format_
        self._fs, self._directory, self._run = fs, directory, run
        self._segment_bytes = segment_bytes
        self._on_sealed = on_sealed
        self.on_written: Callable[[Origin, list[QueuedRecord]], None] | None = None
        """Called, in the journal's thread, with every frame that has become durable."""
        self.check_lease: Callable[[], None] = _do_nothing
        """Raises RunGone where the run is not at its place any more; asked before every acknowledgement."""
        self._pins: list[SegmentPin] = []
        self._segment = self._open_first()
        self.acknowledged_seq = 0
        """The last frame that was acknowledged."""
        self._thread = threading.Thread(target=self._run_thread, name="holdfast-journal", daemon=True)
        self._thread.start()

    def _open_first(self) -> SegmentWriter:
        ident = SegmentId(self.session, self.writer, 1)
        try:
            segment = SegmentWriter(self._fs, self._directory, self._run, ident, 1, self._format)
            # Both names: a writer of the same number may have sealed its first segment, which renames it.
            if self._is_alone():
                return segment
            segment.close()
            self._fs.remove(self._directory / ident.filename(sealed=False))
        except FileExistsError:
            pass
        except OSError as error:
            raise _write_failure(self._directory, error) from error
        raise UsageError(
            f"Writer {self.writer} of session {self.session} has already written to {self._directory}.",
            hint="Give every process of a session a writer number of its own; nothing was written.",
        )

    def _is_alone(self) -> bool:
        parsed = (parse_name(name) for name in self._fs.list(self._directory))
        mine = [ident for ident, _ in filter(None, parsed) if ident[:2] == (self.session, self.writer)]
        return len(mine) == 1

    # The thread.

    def _run_thread(self) -> None:
        batch: list[QueuedRecord] | None = []
        # Assumed until the loop below ends in order, so that an unexpected error leaves nobody waiting either.
        failure: StorageFailure | None = StorageFailure("The journal's writer stopped; all synced records are intact.")
        try:
            while (batch := self.queue.take()) is not None:
                if batch:
                    self._write_batch(batch)
                else:
                    self._roll_as_wanted()
            failure = None
        except StorageFailure as error:
            failure = error
        except OSError as error:
            failure = self._failure_of(error)
        finally:
            # Whatever ended this thread, no producer is left waiting.
            if failure is not None:
                self.queue.fail(batch or [], failure)
            self.queue.end_roll()

    def _write_batch(self, batch: list[QueuedRecord]) -> None:
        if self._segment.bytes >= self._segment_bytes:
            self._roll_segment()
        seq = self._segment.append([record.line for record in batch], [record.key for record in batch if record.key])
        frame = Origin(self.session, self.writer, seq)
        # Behind the sync: who has taken the run by now has read this frame, or is noticed here.
        self._check_place()
        # Set first: a producer that is woken may read it.
        self.acknowledged_seq = seq
        self.queue.acknowledge(batch, frame)
        crashpoints.reach("frame.acknowledged")
        if self.on_written is not None:
            self.on_written(frame, batch)

    def _check_place(self) -> None:
        """Lets nothing be acknowledged, or done by name, where another file or run has taken a name.

        Raises:
            RunGone: the run or the segment is not where it was.
        """
        self.check_lease()
        if (loss := self.find_loss()) is not None:
            raise loss

    def _failure_of(self, error: OSError) -> StorageFailure:
        """What is said of a write that failed: it may have been the first to meet a run that is gone."""
        try:
            self._check_place()
        except StorageFailure as failure:
            return failure
        except OSError:
            # Nothing can be said of the place.
            pass
        return _write_failure(self._directory, error)

    def find_loss(self) -> RunGone | None:
        """What became of the segment that is being written, where its name does not lead to it any more; any thread.

        Raises:
            OSError: it cannot be said.
        """
        segment = self._segment
        # Another segment may have begun meanwhile, and this one have got its sealed name.
        if segment.is_in_place() or segment is not self._segment:
            return None
        return RunGone(
            f"The segment {self._directory / segment.ident.filename(sealed=False)} was moved, deleted or replaced"
            " while it was being written.",
            hint="The session has stopped. What is gone is lost unless there is a copy; `holdfast verify` says what is"
            " left.",
        )

    # Segments.

    def _roll_segment(self) -> None:
        """Begins the next segment, then seals the present one, whose footer may then vouch for its successor."""
        self._check_place()
        old = self._segment
        following = self._directory, self._run, old.ident.next, old.next_seq, self._format
        # The successor exists before a footer announces it: an announced segment that is missing counts as a loss.
        self._segment = SegmentWriter(self._fs, *following)
        crashpoints.reach("segment.successor-created")
        try:
            old.seal(successor=True)
        finally:
            old.close()
        self._pins.append(old.pin())
        if self._on_sealed:
            self._on_sealed(old.ident, old.next_seq - 1)

    def _roll_as_wanted(self) -> None:
        if self._segment.frames:
            self._roll_segment()
        self.queue.end_roll()

    def roll(self) -> None:
        """Has the present segment sealed, if anything is in it; waits for that, a few seconds at most."""
        if (begun := self.queue.request_roll()) is not None:
            begun.wait(_SEALING_SECONDS)

    def copy(self, frame: FrameCopy) -> None:
        """Writes a doubtful frame of another segment again; only before any record is queued.

        Raises:
            StorageFailure: the copy could not be made durable.
        """
        try:
            self._segment.append_copy(*frame)
        except OSError as error:
            raise _write_failure(self._directory, error) from error

    def moved_to(self, directory: Path) -> None:
        """The journal's directory has been renamed; only while nothing is being written."""
        self._directory = directory
        self._segment.moved_to(directory)

    @property
    def segment_number(self) -> int:
        """The number of the segment that is being written."""
        return self._segment.ident.number

    @property
    def last_seq(self) -> int:
        """The last frame that was written: everything that is durable now is in it or before it."""
        return self._segment.next_seq - 1

    def close(self, last: Callable[[list[SegmentPin]], bytes] | None = None, copies: Iterable[FrameCopy] = ()) -> None:
        """Writes what waits, the copies, then `last`'s record, given the pins of all segments before it, and seals.

        That record has its own segment, so that neither it nor the segments that it vouches for can vanish unnoticed.

        Raises:
            StorageFailure: something could not be made durable; acknowledged records are intact.
        """
        was_open = self.queue.close()
        # Everything that waits is durable before `last` is made: it counts those records and pins their segments.
        self._thread.join()
        try:
            if was_open and self.queue.failure is None:
                self._check_place()
                for copy in copies:
                    self._segment.append_copy(*copy)
                self._seal_last(last)
        except StorageFailure as error:
            self.queue.fail([], error)
            raise
        except OSError as error:
            failure = self._failure_of(error)
            self.queue.fail([], failure)
            raise failure from error
        finally:
            if was_open:
                self._segment.close()
        if self.queue.failure is not None:
            raise self.queue.failure

    def abandon(self, why: StorageFailure | None = None) -> None:
        """Stops as a crash would: what still waits is refused, and the segment stays unsealed.

        A frame that is being written is still synced and acknowledged. Does nothing after `close`.
        """
        if self.queue.abandon(why or StorageFailure("The journal was released; nothing more can be recorded.")):
            self._thread.join()
            self._segment.close()

    def _seal_last(self, last: Callable[[list[SegmentPin]], bytes] | None) -> None:
        if last is not None:
            # A segment that was just started and is still empty is good enough.
            if self._segment.frames:
                self._roll_segment()
            crashpoints.reach("session.ending")
            self._segment.append([last(list(self._pins))], [])
        self._check_place()
        self._segment.seal(successor=False)
        if self._on_sealed:
            self._on_sealed(self._segment.ident, self._segment.next_seq - 1)


def _do_nothing() -> None:
    pass


def _write_failure(directory: Path, error: OSError) -> StorageFailure:
    return StorageFailure(
        f"The journal {directory} could not be written: {error.strerror or error}.",
        hint="All synced records are intact; fix the storage, then resume.",
    )
