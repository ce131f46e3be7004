"""Solvers that are partial functions and methods, over functions and classes of Holdfast."""

import functools

import holdfast
import holdfast.tasks.template
from holdfast import Sample, Task, task

COUNTRIES = [Sample(name, id=name[:2], target=name) for name in ("France", "Italy", "Norway")]


async def asked(trial, text, make, parse, *, message):
    # As a clerk would.
    question = parse(text, "question").render(trial.sample.fields())
    made = make(question.replace("{", "{{").replace("}", "}}"))
    first = await made(trial)
    second = await trial.generate([message("user", holdfast.Message("user", first.text).content)])
    return holdfast.Answer(trial.sample.input, value=second.text)


class Asker:
    """Whose method is the solver."""

    def __init__(self, template, make):
        self.template, self.make = template, make

    async def ask(self, trial):
        reply = await trial.generate(self.template.render(trial.sample.fields()))
        return self.make(reply.text)

    def __call__(self):
        return self.ask


@task
def asked_in_parts():
    parse = holdfast.tasks.template.Template.parse
    solve = functools.partial(
        asked,
        text="The capital of {input}, in one word?",
        make=holdfast.generate,
        parse=parse,
        message=holdfast.Message,
    )
    return Task(samples=COUNTRIES, solve=solve, score=holdfast.exact())


@task
def bound():
    template = holdfast.tasks.template.Template.parse("{input}, in one word")
    return Task(samples=COUNTRIES, solve=Asker(template, holdfast.Answer).ask, score="includes")
