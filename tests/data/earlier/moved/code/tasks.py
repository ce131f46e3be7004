"""As in another place, in a directory of its own."""

from holdfast import Limits, Sample, Task, exact, generate, task

COUNTRIES = [Sample(name, id=name[:2], target=name) for name in ("France", "Italy", "Norway")]


def bounded(ask, limits):
    async def solve(trial):
        # As a clerk would.
        await ask(trial)
        await trial.generate("And in two?", max_tokens=limits.tokens)
        return trial.sample.input

    return solve


@task
def asked():
    ask = generate("The capital of {input}, in one word?", few_shot=[("Spain", "Madrid")])
    return Task(samples=COUNTRIES, solve=bounded(ask, Limits(tokens=10)), score=exact(), epochs=2)
