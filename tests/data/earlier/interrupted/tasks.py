"""A solver with code in a file beside it, and a task of built-in parts."""
# ruff: noqa: I001 - where these modules are depends on who looks

from helpers import asked_politely
from holdfast import Sample, Task, generate, regex, scorer, task


async def solve(trial):
    # As a clerk would.
    return await trial.generate(asked_politely(trial.sample.input) + ", in one word?")


@scorer
def found(answer, sample):
    return regex(r"answer is: (\w+)")(answer, sample).value


@task
def polite():
    samples = [Sample("France", id="fr", target="Paris"), Sample("Norway", id="no", target="Oslo")]
    return Task(samples=samples, solve=solve, score=found, axes={"tone": ["plain", "kind"]})


@task
def variants():
    prompts = {"short": "{input}?", "long": "The capital of {input}?"}
    solver = generate(prompts, system="Be brief.", few_shot=[("Spain?", "Madrid")], temperature=0.5)
    return Task(dataset="rows.jsonl", solve=solver, score="includes", limit=3)
