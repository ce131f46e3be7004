"""latency: how much of the rate that a slow model allows is reached, against what the floor reaches in the same run."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import time
from pathlib import Path

from bench.bare import carry_out_bare
from bench.evals import echo_eval, execute, write_dataset
from bench.measure import Figure, Setting, Target, median_of
from bench.trial import scripted_ask
from holdfast.engine.opening.new_run import StartedSession, start_run

IN_FLIGHT = 200
SECONDS = 0.05


def measure(setting: Setting) -> list[Figure]:
    count = setting.size(12_000, 1_000)
    dataset = write_dataset(setting.directory / f"questions-{count}.jsonl", count)
    places = (setting.directory / f"latency-{number}" for number in itertools.count())
    ours, floor = median_of(lambda: _ours(next(places), dataset), lambda: _floor(next(places), dataset))
    what = f"{SECONDS * 1e3:.0f} ms model, {IN_FLIGHT} in flight, trials"
    target = Target("ratio", "at least", 0.9)
    ideal = IN_FLIGHT / SECONDS
    return [
        Figure("latency", f"{what} (ideal: {ideal:,.0f})", count / ours, "/s", count / floor, target),
    ]


def _ours(place: Path, dataset: Path) -> float:
    """Wall seconds from the first trial's start to the last one's durable end."""
    model = {"provider": "scripted", "model": "echo", "args": {"latency": SECONDS}}
    started = start_run(echo_eval(dataset, IN_FLIGHT, model), place)
    try:
        return asyncio.run(_timed(started))
    finally:
        shutil.rmtree(place)


async def _timed(started: StartedSession) -> float:
    """Without ending the session, which is not a matter of rate."""
    ended, close = 0.0, started.session.close

    def closing(how: str, exit_code: int = 0, **fields: object) -> None:
        nonlocal ended
        ended = time.perf_counter()
        close(how, exit_code, **fields)

    started.session.close = closing  # type: ignore[method-assign]
    started = time.perf_counter()
    await execute(started)
    return ended - started


def _floor(place: Path, dataset: Path) -> float:
    started = time.perf_counter()
    try:
        asyncio.run(carry_out_bare(place, dataset, scripted_ask(latency=SECONDS), IN_FLIGHT))
        return time.perf_counter() - started
    finally:
        place.unlink()
