"""A task that was given a second scorer after its run was complete."""

from holdfast import Limits, Sample, Task, numeric, regex, scorer, task

SAMPLES = [
    Sample("France", id="fr", target="Paris"),
    Sample("Italy", id="it", target="Rome"),
    Sample("Norway", id="no", target="Oslo"),
    Sample("Peru", id="pe", target="Lima"),
]


def bounded(limits):
    async def solve(trial):
        # As a clerk would.
        return await trial.generate(f"The capital of {trial.sample.input}, in one word?", max_tokens=limits.tokens)

    return solve


def having(judge):
    def judged(answer, sample):
        return judge(answer, sample).value

    return judged


@task
def capitals():
    first = scorer(having(regex(r"answer is: (\w+)")), name="stated")
    second = scorer(having(numeric(absolute=1.0)), name="near")
    return Task(samples=SAMPLES, solve=bounded(Limits(tokens=99)), score=[first, second], epochs=2)
