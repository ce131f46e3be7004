"""trial: what a durable trial costs beside the reply itself, on a model that answers at once, in this process."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from pathlib import Path

from bench.bare import Ask, carry_out_bare
from bench.evals import carry_out, echo_eval, write_dataset
from bench.measure import Figure, Setting, Target, cpu_of, median_of
from holdfast.models.catalogue import open_provider
from holdfast.models.message import Message, Request, Usage
from holdfast.spec import ModelSpec

IN_FLIGHT = 256


def measure(setting: Setting) -> list[Figure]:
    count = setting.size(20_000, 2_000)
    dataset = write_dataset(setting.directory / f"questions-{count}.jsonl", count)
    places = (setting.directory / f"trial-{number}" for number in itertools.count())
    ours, floor = median_of(lambda: _ours(next(places), dataset), lambda: _floor(next(places), dataset))
    micro = 1e6 / count
    what = f"scripted model, {IN_FLIGHT} in flight, one trial, CPU"
    return [Figure("trial", what, ours * micro, "µs", floor * micro, Target("ratio", "at most", 10.0))]


def _ours(place: Path, dataset: Path) -> float:
    """From the eval to the end of the session: taking the dataset in, planning, asking, scoring, recording, sealing."""
    spec = echo_eval(dataset, IN_FLIGHT)
    try:
        return cpu_of(lambda: carry_out(spec, place))
    finally:
        shutil.rmtree(place)


def _floor(place: Path, dataset: Path) -> float:
    try:
        return cpu_of(lambda: asyncio.run(carry_out_bare(place, dataset, scripted_ask(), IN_FLIGHT)))
    finally:
        place.unlink()


def scripted_ask(**args: float) -> Ask:
    """The scripted model that the engine asks, asked without it."""
    send = open_provider(ModelSpec(provider="scripted", model="echo", args=dict(args))).send

    async def ask(prompt: str) -> tuple[str, Usage]:
        reply = await send(Request((Message("user", prompt),)))
        return reply.text, reply.usage or Usage()

    return ask
