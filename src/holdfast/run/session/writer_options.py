"""How the journal of a session is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.journal import FORMAT, JournalWriter, SegmentId
from holdfast.journal.commit_queue import QUEUE_BYTES
from holdfast.journal.writer import SEGMENT_BYTES
from holdfast.storage.filesystem import FileSystem


@dataclass(frozen=True)
class WriterOptions:
    """The sizes of a session's queue and segments, and who hears of a sealed segment."""

    queue_bytes: int = QUEUE_BYTES
    segment_bytes: int = SEGMENT_BYTES
    on_sealed: Callable[[SegmentId, int], None] | None = None

    def configured(self, config: Mapping[str, Any]) -> WriterOptions:
        """The same, with segments of the size that a session's configuration asks for."""
        runner = config.get("runner")
        size = runner.get("segment_bytes") if isinstance(runner, dict) else None
        return replace(self, segment_bytes=size) if isinstance(size, int) else self

    def open(
        self, fs: FileSystem, journal: Path, run: bytes, session: int, *, writer: int = 0, format_: int = FORMAT
    ) -> JournalWriter:
        """A writer of a session, in the format of its run; the first is the one that holds the run.

        Raises:
            UsageError: it has written already.
            StorageFailure: the disk failed.
        """
        return JournalWriter(
            fs,
            journal,
            run,
            session,
            writer=writer,
            format_=format_,
            queue_bytes=self.queue_bytes,
            segment_bytes=self.segment_bytes,
            on_sealed=self.on_sealed,
        )


DEFAULT_WRITER = WriterOptions()
