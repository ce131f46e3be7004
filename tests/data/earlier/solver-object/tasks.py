"""Solvers that are objects and hold structs of Holdfast."""

from dataclasses import dataclass, field

from holdfast import Answer, Limits, Message, Sample, Task, Usage, exact, generate, numeric, task

COUNTRIES = [Sample(name, id=name[:2], target=name) for name in ("France", "Italy", "Norway", "Peru")]


class Conversation:
    """Holds what it says in structs."""

    def __init__(self, *opening, ask, usage):
        self.opening, self.ask, self.usage = opening, ask, usage
        self.example = Sample("Spain", target="Madrid", metadata={"usage": usage})

    async def __call__(self, trial):
        # As a clerk would.
        await self.ask(trial)
        reply = await trial.generate([*self.opening, Message("user", f"{trial.sample.input}, in one word?")])
        return Answer(trial.sample.input, value={"said": reply.text, "example": self.example.input})


@dataclass
class Counted:
    """Asks several times."""

    times: int
    ask: object
    limits: Limits = field(default_factory=lambda: Limits(tokens=1000))
    judges: tuple = (numeric(relative=0.01), exact(ignore_case=True))

    async def __call__(self, trial):
        for number in range(self.times):
            reply = await trial.generate(f"{number}: {trial.sample.input}, in one word?")
        return reply


@task
def asked_by_object():
    opening = [Message("system", "You are a clerk."), Message("assistant", "I am.", name="clerk")]
    ask = generate(["{input}?", "{input}!"], few_shot=[("Spain", "Madrid")], few_shot_template="{input} {output}")
    solve = Conversation(*opening, ask=generate("{input}"), usage=Usage(1, 2))
    solve.variants = ask
    return Task(samples=COUNTRIES, solve=solve, score=exact())


@task
def asked_by_record(times: int = 1):
    return Task(samples=COUNTRIES, solve=Counted(times, generate("{input}")), score="includes")
