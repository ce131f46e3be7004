"""A script that carries out its own task."""

from holdfast import Limits, Sample, Task, evaluate, generate, task

COUNTRIES = [Sample(name, id=name[:2], target=name) for name in ("France", "Italy", "Norway", "Peru")]
MODELS = {"echo": {"provider": "scripted", "model": "echo"}}


def bounded(ask, limits):
    async def solve(trial):
        # As a clerk would.
        first = await ask(trial)
        second = await trial.generate(f"And in two? {first.text}", max_tokens=limits.tokens)
        return second.text

    return solve


@task
def asked():
    ask = generate("The capital of {input}, in one word?", few_shot=[("Spain", "Madrid")])
    return Task(samples=COUNTRIES, solve=bounded(ask, Limits(tokens=10)), score="includes", epochs=2)


if __name__ == "__main__":
    evaluate(asked(), MODELS, run="run", name="script", concurrency_limit=1, deadline=50, grace=3)
