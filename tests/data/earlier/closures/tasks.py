"""Solvers that close over parts of Holdfast: a solver, templates, scorers, limits."""

from holdfast import Limits, Sample, Task, choice, exact, generate, includes, numeric, regex, task
from holdfast.tasks.template import Template

CAPITALS = [
    Sample("France", id="fr", target="Paris"),
    Sample("Italy", id="it", target="Rome"),
    Sample("Norway", id="no", target="Oslo"),
    Sample("Peru", id="pe", target="Lima"),
]


def asked_twice(ask, reader, judges):
    async def solve(trial):
        # As a clerk would.
        reply = await ask(trial)
        found = reader.extract(reply.text) or "nothing"
        second = await trial.generate(f"Is it {found}, {len(judges)} judges ask?")
        return found if "know" in second.text else second.text

    return solve


def from_template(template, limits):
    closing = Template.parse("Answer {input} briefly.")

    async def solve(trial, *, after=closing):
        text = template.render(trial.sample.fields()) + after.render(trial.sample.fields())
        return await trial.generate(text, max_tokens=limits.tokens)

    return solve


@task
def twice():
    ask = generate("The capital of {input}, in one word?", system="You are {id}.", few_shot=[("Spain", "Madrid")])
    reader = regex(r"answer is: (\w+)", ignore_case=True)
    solve = asked_twice(ask, reader, [choice(), numeric(absolute=0.5), exact()])
    return Task(samples=CAPITALS, solve=solve, score=[includes()])


@task
def templated():
    template = Template.parse("{input}, in one word. ", "question")
    return Task(samples=CAPITALS, solve=from_template(template, Limits(tokens=50)), score=["includes", "exact"])
