"""Scorers of one's own over those of Holdfast."""

import functools

import holdfast
from holdfast import Sample, Score, Task, choice, exact, generate, includes, numeric, regex, scorer, task

QUESTION = "The capital of {input}, in one word?"
STATED = regex(r"answer is: (\w+)")
SAMPLES = [
    Sample("France", id="fr", target="Paris", choices=["Paris", "Lyon"]),
    Sample("Italy", id="it", target="Rome", choices=["Turin", "Rome"]),
    Sample("Norway", id="no", target="Oslo", choices=["Oslo", "Bergen"]),
]


async def solve(trial):
    # As a clerk would.
    return await trial.generate(QUESTION.replace("{input}", trial.sample.input))


@scorer
def stated(answer, sample):
    return STATED(answer, sample)


@scorer(name="either", needs_target=True)
def stated_or_included(answer, sample):
    # Two judges.
    if holdfast.includes(ignore_case=True)(answer, sample).value:
        return Score(True, explanation="It is included.")
    return Score(exact()(answer, sample).value)


def average(judges):
    def averaged(answer, sample):
        return sum(float(judge(answer, sample).value) for judge in judges) / len(judges)

    return averaged


def length(answer, sample, *, unit, count):
    return float(count(answer.text)) / unit.tokens


class Judge:
    """A scorer that is an object."""

    name = "judge"

    def __init__(self, **judges):
        self.judges = judges

    def __call__(self, answer, sample):
        return all(judge(answer, sample).value for judge in self.judges.values())


@task
def own():
    return Task(samples=SAMPLES, solve=solve, score=[stated, stated_or_included, average([includes(), choice()])])


@task
def made():
    limits = holdfast.Limits(tokens=10)
    judges = [
        scorer(functools.partial(length, unit=limits, count=len), name="length"),
        Judge(pattern=regex("[A-Z]", compare=False), number=includes(name="there")),
        scorer(average([numeric(absolute=1.0, name="near"), stated_or_included]), name="average"),
    ]
    return Task(samples=[Sample("Peru: 5", id="pe", target="5")], solve=generate(QUESTION), score=judges)
