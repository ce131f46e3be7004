"""What lanes buy, and what they cost: wall time against calls and wasted tokens.

    python examples/sampling/tradeoff.py

A model that needs a moment for every answer, and is right in one of three, is asked 20 questions with 1, 2, 4 and 8
lanes. More lanes find a valid answer sooner. Whatever else is in flight then is cancelled, and was paid for.
"""

from __future__ import annotations

import asyncio
import random
import time

from holdfast import ModelSet, Reply, Usage, sample
from holdfast.providers import Request
from holdfast.sampling import Rejection, SamplingResult, regex

QUESTIONS = 20
LANES = (1, 2, 4, 8)
SECONDS = 0.02
"""What one answer takes."""


class Guessing:
    """Right in one of three answers; which ones depends on the request's seed alone."""

    async def send(self, request: Request) -> Reply:
        """One answer, after a moment."""
        await asyncio.sleep(SECONDS)
        is_right = random.Random(request.generation.seed).random() < 1 / 3  # noqa: S311 - a game
        return Reply("42" if is_right else "I am not sure.", "stop", Usage(20, 5))

    async def close(self) -> None:
        """Nothing is held."""


async def ask_all(lanes: int) -> tuple[float, list[SamplingResult]]:
    """Every question, one after the other; the seconds that it took, and the results."""
    strategy = Rejection(loop_budget=8, concurrency_budget=lanes, requirements=[regex(r"^\d+$")])
    began = time.monotonic()
    async with ModelSet({"guessing": Guessing()}) as models:
        asked = [await sample(models, "How many?", strategy=strategy, seed=number) for number in range(QUESTIONS)]
    return time.monotonic() - began, asked


async def main() -> None:
    """Prints one line for each number of lanes."""
    print("lanes   found   seconds   calls   candidates thrown away   tokens wasted")
    for lanes in LANES:
        seconds, results = await ask_all(lanes)
        found = sum(result.success for result in results)
        calls = sum(result.calls for result in results)
        lost = sum(len(result.candidates) - (result.chosen is not None) for result in results)
        used = sum(result.usage.output_tokens for result in results if result.usage)
        wasted = sum(result.wasted.output_tokens for result in results if result.wasted)
        share = wasted / used if used else 0.0
        print(f"{lanes:5}   {found:5}   {seconds:7.2f}   {calls:5}   {lost:22}   {share:12.0%}")
    print("Calls that were cancelled are paid for too: the server had begun them. Their tokens are not known here.")


if __name__ == "__main__":
    asyncio.run(main())
