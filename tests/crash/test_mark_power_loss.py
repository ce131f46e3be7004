"""The admission mark and power loss: whatever the disk keeps, a mark that allowed the calls in flight is kept."""

from __future__ import annotations

import asyncio
import random
import shutil
from itertools import islice

from power import materialise

from holdfast.engine.scheduling.admission_mark import AdmissionMark
from holdfast.engine.scheduling.concurrency_limits import Limit
from holdfast.run import RunReader, SessionContents, create_run
from holdfast.run.core.records import MarkRecord
from holdfast.storage.filesystem import RealFileSystem
from holdfast.testing import RecordingFileSystem, crash_states, random_crash_state

SEED = 20261117
CALLS, FIRST_MARK = 40, 2
STATES = 12
"""How many states of the disk are opened at each moment."""


class Watched:
    """A session on a recorded disk, whose calls pass the mark; at every call that may be sent the power may go."""

    def __init__(self, directory) -> None:
        print(f"seed {SEED}")
        self._chance, self._directory = random.Random(SEED), directory
        self.disk = directory / "disk"
        self.disk.mkdir()
        self.recording = RecordingFileSystem(RealFileSystem(), self.disk)
        contents = SessionContents(name="marked", config={}, mark=FIRST_MARK)
        self.session = create_run(self.disk / "run", contents, fs=self.recording)
        self.mark = AdmissionMark(FIRST_MARK, self.write, Limit("run", None))
        self.examined = 0

    async def write(self, calls: int) -> None:
        await self.session.sink.keep(MarkRecord(calls=calls))

    async def call(self) -> None:
        if not self.mark.enter_nowait():
            await self.mark.enter()
        self.lose_power(self.mark.in_flight)
        await asyncio.sleep(self._chance.uniform(0.0, 0.01))
        if self._chance.random() < 0.3:
            self.mark.leave()

    def lose_power(self, in_flight: int) -> None:
        """Every state that is left, or some of them, says that so many calls may have been in flight."""
        with self.recording._lock:
            states = list(islice(crash_states(self.recording.tree), STATES))
            states += [random_crash_state(self.recording.tree, self._chance) for _ in range(3)]
        for state in states:
            place = self._directory / "state"
            materialise(state, place)
            reader = RunReader(place / "run")
            try:
                assert reader.marks()[1] >= in_flight
            finally:
                reader.close()
                shutil.rmtree(place)
            self.examined += 1


def test_a_mark_is_durable_before_the_calls_it_allows(memory_path, no_cache):
    """At the moment each call may be sent, no power loss leaves a mark below the calls in flight."""
    watched = Watched(memory_path)

    async def work() -> None:
        calls = [asyncio.ensure_future(watched.call()) for _ in range(CALLS)]
        await asyncio.gather(*calls)

    asyncio.run(work())
    watched.session.abandon()
    assert watched.examined >= CALLS
    assert watched.mark.calls >= 16
