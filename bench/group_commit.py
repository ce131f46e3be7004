"""group_commit: what it costs to make a record durable, with many producers, against the floor writer."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from pathlib import Path

from bench.floor import write_floor
from bench.material import step_records
from bench.measure import Figure, Setting, Target, cpu_of, median_of
from holdfast.run import SessionContents, create_run
from holdfast.run.core.records import Record
from holdfast.run.session.session import RunSession

PRODUCERS = 200


def measure(setting: Setting) -> list[Figure]:
    records = step_records(setting.size(40_000, 8_000), 170, 270)
    places = (setting.directory / f"commit-{number}" for number in itertools.count())
    ours, floor = median_of(lambda: _ours(next(places), records), lambda: _floor(next(places), records))
    micro = 1e6 / len(records)
    target = Target("ratio", "at most", 3.0)
    what = f"{PRODUCERS} producers, one record, CPU"
    return [Figure("group_commit", what, ours * micro, "µs", floor * micro, target)]


async def _produce(session: RunSession, records: list[Record]) -> None:
    rest = iter(records)

    async def produce() -> None:
        for record in rest:
            await session.sink.keep(record)

    await asyncio.gather(*(produce() for _ in range(PRODUCERS)))


def _ours(place: Path, records: list[Record]) -> float:
    session = create_run(place, SessionContents(name="bench", config={}))
    try:
        return cpu_of(lambda: asyncio.run(_produce(session, records)))
    finally:
        session.close("complete")
        shutil.rmtree(place)


def _floor(place: Path, records: list[Record]) -> float:
    try:
        return cpu_of(lambda: asyncio.run(write_floor(place, records, PRODUCERS)))
    finally:
        place.unlink()
