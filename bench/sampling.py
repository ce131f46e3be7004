"""sampling: what lanes and turns cost beside a bare asyncio loop that sends the same requests and checks the same.

The model answers at once, in this process, and nothing is written. Where `.venv-mellea` exists (`make interop` makes
it), Mellea's own figures follow, from its environment.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.measure import Figure, Setting, Target, cpu_of, median_of
from holdfast import ModelSet, sample
from holdfast.models.message import Message, Reply, Request, Usage
from holdfast.sampling import Draft, Place, Repair, Verdict, derive_seed, includes
from holdfast.spec import Generation

_OTHER = Path(__file__).resolve().parent.parent / ".venv-mellea" / "bin" / "python"
_QUESTION = "Name a colour."
_REPAIR = (
    f"{_QUESTION}\n\nAn earlier answer did not meet these requirements:\n* %s\nAnswer once more, and meet all of them."
)
_NEVER = includes("ultraviolet")
_REPLY = Reply("red", "stop", Usage(3, 1))


class _Instant:
    """A model without latency that lets the others have their turn, as one with latency would."""

    async def send(self, request: Request) -> Reply:  # noqa: ARG002 - whatever is asked
        await asyncio.sleep(0)
        return _REPLY

    async def close(self) -> None:
        """Nothing is held."""


def measure(setting: Setting) -> list[Figure]:
    candidates = setting.size(12_000, 1_200)
    figures = [_figure(candidates, loops, lanes, 0, 3.0) for loops, lanes in ((3, 4), (3, 1), (1, 8))]
    figures.append(_figure(candidates, 3, 4, 4, 6.0))
    return figures + _of_mellea(quick=setting.quick)


def _figure(candidates: int, loops: int, lanes: int, observers: int, limit: float) -> Figure:
    count = candidates // (loops * lanes)
    ours, floor = median_of(
        lambda: cpu_of(lambda: asyncio.run(_ours(loops, lanes, count, observers))),
        lambda: cpu_of(lambda: asyncio.run(_bare(loops, lanes, count))),
    )
    told = f", {observers} observers" if observers else ""
    micro = 1e6 / (count * loops * lanes)
    what = f"{loops} turns x {lanes} lanes{told}, a candidate, CPU"
    return Figure("sampling", what, ours * micro, "µs", floor * micro, Target("ratio", "at most", limit))


async def _ours(loops: int, lanes: int, count: int, observers: int) -> None:
    strategy = Repair(loop_budget=loops, concurrency_budget=lanes)
    told: list[Callable[[Any], None]] = [_look] * observers
    async with ModelSet({"instant": _Instant()}, told) as models:
        for _ in range(count):
            await sample(models, _QUESTION, requirements=[_NEVER], strategy=strategy)


def _look(event: object) -> None:
    """What the least of observers does."""


async def _bare(loops: int, lanes: int, count: int) -> None:
    """The same requests, the same check and the same number of tasks, and nothing else."""
    model = _Instant()

    async def lane(number: int) -> list[tuple[Reply, Verdict]]:
        found, messages = [], (Message("user", _QUESTION),)
        for turn in range(loops):
            seed = derive_seed(0, 1, number, turn)
            reply = await model.send(Request(messages, Generation(seed=seed)))
            verdict = _NEVER.check(Draft(reply.text, reply, messages, Place(1, number, turn, turn, seed)))
            found.append((reply, verdict))
            if verdict.is_passed:
                break
            messages = (Message("user", _REPAIR % verdict.reason),)
        return found

    for _ in range(count):
        await asyncio.gather(*(asyncio.create_task(lane(number)) for number in range(lanes)))


def _of_mellea(*, quick: bool) -> list[Figure]:
    """Mellea's side of it, measured in its own environment; nothing where there is none."""
    if not _OTHER.exists():
        return []
    command = [_OTHER, Path(__file__).with_name("mellea_side.py"), "--candidates", "120" if quick else "1200"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return [
        Figure("sampling", f"{side}, {shape}, a candidate, CPU", seconds * 1e3, "µs", found["bare"][shape] * 1e3)
        for side in ("mellea", "adapter")
        for shape, seconds in found[side].items()
    ]
