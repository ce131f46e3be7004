"""What a sampling costs in Mellea, through the adapter, and in a bare loop; prints JSON.

Run by the interpreter of `.venv-mellea` (`make interop` makes it): `.venv-mellea/bin/python bench/mellea_side.py`.
CPU seconds for 1,000 candidates, all invalid, of a model without latency; by shape (turns x lanes), the median of
rounds that take the sides in turn. Logging is quiet and tracing is off.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import statistics
import time

os.environ["MELLEA_LOGS_ENABLED"] = "0"  # before Mellea is loaded

from mellea.core import Backend, CBlock, GenerateLog, ModelOutputThunk, Requirement, ValidationResult
from mellea.stdlib import sampling as mellea
from mellea.stdlib.context import SimpleContext

from holdfast.interop import mellea as adapter

SHAPES = ((1, 1), (3, 1), (3, 4))
UNMET = Requirement("unmet", lambda _context: ValidationResult(False))


class InstantBackend(Backend):
    """Has its reply at once."""

    _model_id = _provider = "instant"

    async def _generate_from_context(self, action, ctx, **_settings):
        thunk = ModelOutputThunk("reply")
        thunk._generate_log = GenerateLog()  # noqa: SLF001 - a backend fills it in
        return thunk, ctx.add(action).add(thunk)

    async def _generate_from_raw(self, actions, ctx, **_settings):
        raise NotImplementedError


async def sampled(module, loops, lanes, count):
    """So many samplings by a strategy of that module."""
    strategy = module.RejectionSamplingStrategy(loop_budget=loops, concurrency_budget=lanes)
    action, context, backend = CBlock("say"), SimpleContext(), InstantBackend()
    for _ in range(count):
        await strategy.sample(action, context, backend, [UNMET], show_progress=False)


async def bare(loops, lanes, count):
    """The same calls and checks in as many tasks, and nothing else."""
    action, context, backend = CBlock("say"), SimpleContext(), InstantBackend()

    async def lane():
        for _ in range(loops):
            thunk, after = await backend.generate_from_context(action, ctx=context)
            await thunk.avalue()
            await UNMET.validate(backend, after)

    for _ in range(count):
        await asyncio.gather(*(asyncio.create_task(lane()) for _ in range(lanes)))


SIDES = {
    "bare": bare,
    "mellea": lambda *shape: sampled(mellea, *shape),
    "adapter": lambda *shape: sampled(adapter, *shape),
}


def seconds(side, loops, lanes, candidates):
    """CPU seconds for 1,000 candidates."""
    count = max(1, candidates // (loops * lanes))
    began = time.process_time()
    asyncio.run(SIDES[side](loops, lanes, count))
    return (time.process_time() - began) * 1000 / (count * loops * lanes)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--candidates", type=int, default=1200)
    parser.add_argument("--rounds", type=int, default=7)
    words = parser.parse_args()
    logging.disable(logging.WARNING)
    found = {side: {} for side in SIDES}
    for loops, lanes in SHAPES:
        for side in SIDES:
            seconds(side, loops, lanes, loops * lanes)  # imports and first calls
        rounds = [{side: seconds(side, loops, lanes, words.candidates) for side in SIDES} for _ in range(words.rounds)]
        for side in SIDES:
            found[side][f"{loops}x{lanes}"] = statistics.median(each[side] for each in rounds)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
