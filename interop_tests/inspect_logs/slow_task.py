"""The task whose eval is killed: two calls in a sample, long texts, metadata, pauses between the calls."""

import asyncio

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageUser
from inspect_ai.scorer import includes
from inspect_ai.solver import solver, system_message


@solver
def two_calls():
    async def solve(state, generate):
        number = int(state.sample_id)
        await asyncio.sleep(0.03 * (number % 7))
        state = await generate(state)
        await asyncio.sleep(0.03 * (number % 5))
        state.messages.append(ChatMessageUser(content="and once more, " + "at length " * 30))
        return await generate(state)

    return solve


@task
def slow(n: int = 200):
    samples = [
        Sample(
            id=number,
            input=f"What is {number}? " + "padding " * 20,
            target="Default" if number % 3 else "other",
            metadata={"number": number, "text": "long " * 400},
        )
        for number in range(1, n + 1)
    ]
    return Task(
        dataset=MemoryDataset(samples, name="numbers"),
        solver=[system_message("Be brief."), two_calls()],
        scorer=includes(),
    )
