"""Solvers whose digests name the place of this file."""

import contextlib

from holdfast import Sample, Task, exact, generate, task

COUNTRIES = [Sample(name, id=name[:2], target=name) for name in ("France", "Italy", "Norway", "Peru")]


@contextlib.contextmanager
def quoted(text):
    """A function of Python's own library stands for it, under the name of this module."""
    yield f"'{text}', in one word?"


def within(frame):
    async def solve(trial):
        # As a clerk would.
        with frame(trial.sample.input) as text:
            reply = await trial.generate(text)
        return f"{trial.sample.input}{reply.text[:0]}"

    return solve


def beside(other):
    async def solve(trial):
        reply = await other.solve(trial)
        return f"{other.name}: {reply.text}"

    return solve


@task
def inner():
    return Task(dataset="rows.jsonl", solve=generate("{country}"), score=exact())


@task
def wrapped():
    return Task(samples=COUNTRIES, solve=within(quoted), score=exact())


@task
def nested():
    samples = [Sample(item.input, id=item.id, metadata={"country": item.input}) for item in COUNTRIES]
    return Task(samples=samples, solve=beside(inner()), score=lambda answer, sample: sample.input in answer.text)
