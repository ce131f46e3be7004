"""Solvers that hold classes: in sets, as keys and as values."""
# ruff: noqa: I001 - where these modules are depends on who looks

from helpers import Early
from holdfast import Answer, Limits, Message, Reply, Run, Sample, Task, Usage, exact, task
from holdfast.analysis.status import RunStatus
from words import Late

COUNTRIES = [Sample(name, id=name[:2], target=name) for name in ("France", "Italy", "Norway", "Peru")]


class Mine:
    """Stands between the classes of the two files beside this one."""


class Other(Mine):
    """Is one, too."""


def by_kind(kinds, named, order):
    async def solve(trial):
        # As a clerk would.
        reply = await trial.generate(f"{trial.sample.input}, in one word?")
        shown = sorted(kind.__name__ for kind in kinds if isinstance(reply, kind))
        return Answer(trial.sample.input, value=[*shown, *map(repr, sorted(named.values())), len(order)])

    return solve


@task
def kinds():
    sets = {Run, RunStatus, Reply, Message, Limits, Early, Late, Mine, Other}
    named = {Limits: "limits", Usage: "usage", Late: "late", Mine: "mine", Early: "early", Run: "run"}
    order = frozenset({Sample, Task, Answer, dict, ValueError, RunStatus})
    return Task(samples=COUNTRIES, solve=by_kind(sets, named, order), score=exact())
