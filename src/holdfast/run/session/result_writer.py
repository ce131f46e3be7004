"""Writing the result files of trials, in a thread: each is on disk before the journal says that its trial is finished.

Results that wait at the same time are written together, and the directory that holds them all is synced once for them.
A file that cannot be written is a tolerated failure: the journal has the result.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from holdfast.errors import RunHeld, StorageFailure, UsageError
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import AnswerRecord, TrialRecord
from holdfast.run.core.result_file import RESULT, encode_result, make_directory_of
from holdfast.storage import crashpoints
from holdfast.storage.filesystem import FileSystem, write_atomically
from holdfast.storage.tolerated_failures import ToleratedFailures

_WHAT = "artifacts/*/result.json"


class _Waiting(NamedTuple):
    trial: TrialRecord
    answer: AnswerRecord | None
    loop: asyncio.AbstractEventLoop
    written: asyncio.Future[None]

    def report(self) -> None:
        """It is written, or could not be; whoever waited may be gone."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if not self.written.done():
            self.written.set_result(None)


class ResultWriter:
    """Writes the result files of one session."""

    def __init__(
        self,
        fs: FileSystem,
        layout: Layout,
        check_lease: Callable[[], None],
        failures: ToleratedFailures,
        run: str,
        earlier: Sequence[str] = (),
    ) -> None:
        """`check_lease` raises where this process may not write to the run any more.

        `run` is its id, `earlier` are those that it had before.
        """
        self._run, self._earlier = run, earlier
        self._fs, self._layout, self._check_lease, self._failures = fs, layout, check_lease, failures
        self._waiting: list[_Waiting] = []
        self._lock = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None

    async def write(self, trial: TrialRecord, answer: AnswerRecord | None) -> None:
        """Returns once the result file of a trial is on disk, or cannot be written."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(trial, answer, loop, loop.create_future())
        with self._lock:
            self._waiting.append(waiting)
            is_first = len(self._waiting) == 1
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="holdfast-results")
        if is_first:
            self._thread.submit(self._write_waiting)
        await waiting.written

    def close(self) -> None:
        """Ends the thread, once it has written what waits."""
        if self._thread is not None:
            self._thread.shutdown()

    def _write_waiting(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        try:
            self._check_lease()
            self._write_files(waiting)
            self._fs.sync_directory(self._layout.artifacts)
            crashpoints.reach("result.written")
        except OSError as error:
            self._failures.note(_WHAT, error)
        except (RunHeld, StorageFailure):
            # The journal says so as well, to whoever waits.
            pass
        finally:
            for one in waiting:
                one.report()

    def _write_files(self, waiting: list[_Waiting]) -> None:
        for one in waiting:
            try:
                directory = make_directory_of(self._fs, self._layout, one.trial)
                data = encode_result(one.trial, one.answer, self._run, self._earlier)
                write_atomically(self._fs, directory / RESULT, data)
            except OSError as error:
                self._failures.note(_WHAT, error)
            except UsageError as error:
                self._failures.note(_WHAT, error.message)
