"""Uploads as events: what the store takes and refuses; where it decides, no trial is told of before it is there."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Sample, Task, evaluate, exact
from holdfast.events import AttemptEnded, SessionEnded, StepRecorded, UploadReported

SAMPLES = [Sample(f"q{number}", target=f"q{number}", id=f"s{number}") for number in range(3)]


class Outage:
    """An outage of the store, from the first reply on until it has been told."""

    def __init__(self, proxy) -> None:
        self._proxy = proxy
        self.events = []
        self.is_over = asyncio.Event()

    def observe(self, event):
        self.events.append(event)
        if isinstance(event, StepRecorded) and not self.is_over.is_set():
            self._proxy.mode = "503"
        if isinstance(event, UploadReported) and event.failure:
            self._proxy.mode = "pass"
            self.is_over.set()

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


@pytest.mark.parametrize("durability", ["local", "remote"])
def test_an_outage_of_the_store_is_told_with_its_end(place, proxy, durability):
    """Failed and taken segments are events; trials that count in the store only are told of after the outage."""
    outage = Outage(proxy)

    async def solve(trial):
        reply = await trial.generate(trial.sample.input)
        # Under `remote` the session itself waits for the store.
        if durability == "local" and trial.sample.id == "s2":
            await outage.is_over.wait()
        return reply

    task = Task(name="t", samples=SAMPLES, solver=solve, scorers=exact())
    runner = {"upload_interval": 0.2, "durability": durability}
    with evaluate(task, ["scripted/echo"], run=place.url, runner=runner, observers=outage.observe) as run:
        assert run.is_complete
    uploads, events = outage.of(UploadReported), outage.events
    failed = next(event for event in uploads if event.failure)
    told_before = [event for event in events[: events.index(failed)] if isinstance(event, AttemptEnded)]
    assert len(outage.of(AttemptEnded)) == 3
    assert not told_before or durability == "local"
    assert uploads[-1].behind == 0 and uploads[-1].failure == ""
    assert sum(event.uploaded for event in uploads) == len(place.segments())
    assert isinstance(events[-1], SessionEnded)
