"""Solvers that import from inner modules of Holdfast, some of which have moved since."""
# ruff: noqa: I001 - where these modules are depends on who looks

import functools

import holdfast.tasks.choices as options
from holdfast import Sample, Task, task
from holdfast.models.message import Message
from holdfast.spec.task import Limits, Shot
from holdfast.tasks.choices import LETTERS, lettered
from holdfast.tasks.template import Template

SAMPLES = [
    Sample("France", id="fr", target="Paris", choices=["Paris", "Lyon"]),
    Sample("Italy", id="it", target="Rome", choices=["Turin", "Rome"]),
    Sample("Norway", id="no", target="Oslo", choices=["Oslo", "Bergen"]),
    Sample("Peru", id="pe", target="Lima", choices=["Lima", "Cusco"]),
]
QUESTION = Template.parse("The capital of {input}, in one word?")


async def letters(trial):
    # As a clerk would.
    sample = trial.sample
    text = f"{QUESTION.render(sample.fields())}\n{lettered(sample.choices)}\n{LETTERS[: len(sample.choices)]}"
    return await trial.generate([Message("user", text)], max_tokens=Limits(tokens=40).tokens)


async def shown(trial, show, module, shot):
    text = f"{shot.input}: {shot.output}. {trial.sample.input}? {show(trial.sample.choices)}"
    if module.LETTERS != options.LETTERS:
        raise ValueError(text)
    return await trial.generate(text)


@task
def chosen():
    return Task(samples=SAMPLES, solve=letters, score=["includes", "choice"])


@task
def dotted():
    solve = functools.partial(shown, show=lettered, module=options, shot=Shot("Spain", "Madrid"))
    return Task(samples=SAMPLES, solve=solve, score="includes", epochs=2)
