"""http: what a durable trial costs over HTTP, against a bare client that records the same.

The server is a process of its own, and its CPU does not count.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from bench.bare import carry_out_bare
from bench.evals import carry_out, echo_eval, write_dataset
from bench.measure import Figure, Setting, Target, cpu_of, median_of
from bench.server import serving
from holdfast.models.message import Usage

IN_FLIGHT = 256


def measure(setting: Setting) -> list[Figure]:
    count = setting.size(10_000, 1_000)
    dataset = write_dataset(setting.directory / f"questions-{count}.jsonl", count)
    places = (setting.directory / f"http-{number}" for number in itertools.count())
    with serving() as url:
        ours, floor = median_of(
            lambda: _ours(next(places), dataset, url),
            lambda: _floor(next(places), dataset, url),
        )
    micro = 1e6 / count
    what = f"over HTTP, {IN_FLIGHT} in flight, one trial, CPU"
    return [Figure("http", what, ours * micro, "µs", floor * micro, Target("ratio", "at most", 3.0))]


def _ours(place: Path, dataset: Path, url: str) -> float:
    model = {"provider": "openai", "model": "canned", "base_url": url, "generation": {"temperature": 0.0}}
    spec = echo_eval(dataset, IN_FLIGHT, model)
    try:
        return cpu_of(lambda: carry_out(spec, place))
    finally:
        shutil.rmtree(place)


def _floor(place: Path, dataset: Path, url: str) -> float:
    try:
        return cpu_of(lambda: asyncio.run(_bare(place, dataset, url)))
    finally:
        place.unlink()


async def _bare(place: Path, dataset: Path, url: str) -> None:
    address = f"{url}/chat/completions"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def ask(prompt: str) -> tuple[str, Usage]:
            request = {"model": "canned", "messages": [{"role": "user", "content": prompt}], "temperature": 0.0}
            async with session.post(
                address, data=msgspec.json.encode(request), headers={"Content-Type": "application/json"}
            ) as response:
                reply: dict[str, Any] = msgspec.json.decode(await response.read())
            usage = reply["usage"]
            tokens = Usage(usage["prompt_tokens"], usage["completion_tokens"])
            return reply["choices"][0]["message"]["content"], tokens

        await carry_out_bare(place, dataset, ask, IN_FLIGHT)
