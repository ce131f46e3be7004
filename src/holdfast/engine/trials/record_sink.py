"""Where trials put their records: all that the engine knows of how they become durable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from holdfast.run.core.records import Record


class RecordSink(Protocol):
    """Takes records. Those of one trial stay in the order in which they were queued."""

    def put(self, record: Record) -> None:
        """Queues a record at once, without waiting for it; for callers that wait for a later record.

        Raises:
            StorageFailure: nothing more can be recorded.
            RunHeld: this process may not write to the run any more.
        """

    async def keep(self, record: Record) -> object:
        """Returns once the record is durable; a cancellation waits until then.

        Raises:
            StorageFailure: it could not be made durable.
            RunHeld: this process may not write to the run any more.
        """

    def when_counted(self, report: Callable[[], None]) -> None:
        """Calls `report` once what was kept so far counts, in the loop of the caller."""
