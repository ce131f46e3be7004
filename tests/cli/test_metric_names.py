"""The name of a metric is part of a path in JSON: it is decided by the scorer, and no score changes it."""

from __future__ import annotations

import pytest

from evals import python_eval
from holdfast import Sample, Score, exact, scorer
from holdfast.tasks.scorers.base import is_binary

TASK = """
from holdfast import Sample, Score, Task, exact, scorer, task

async def solve(trial):
    return trial.sample.input

@scorer
def partly(answer, sample):
    return float(answer.text)

@scorer
def wholly(answer, sample) -> bool:
    return answer.text == "1"

@task
def t():
    samples = [Sample(text, target="1", id=text) for text in ("1", "0", "0.5")]
    return Task(samples=samples, solver=solve, scorers=[exact(), partly, wholly], axes={"tier": ["low"]})
"""
NAMES = {"exact": ["accuracy"], "partly": ["mean"], "wholly": ["accuracy"]}


def names_in(group):
    return {scorer: list(named) for scorer, named in group.items()}


def test_the_path_of_a_metric_is_the_same_from_the_first_score_on(holdfast, tmp_path):
    """With scores of 0 and 1 only, and once another value has come; of the axes too, and at the end of a session."""
    file = python_eval(tmp_path, "http://127.0.0.1:9/v1", TASK)
    ended = holdfast.json("run", file, "--limit", "1", "--run-dir", "r", code=0)
    assert names_in(ended["tasks"]["t"]["m"]["metrics"]) == NAMES
    for limit in (2, 3):
        holdfast("resume", "r", "--set", f"tasks.t.limit={limit}", code=0)
        group = holdfast.json("report", "r", code=0)["tasks"]["t"]["m"]
        assert names_in(group["metrics"]) == names_in(group["axes"]["tier"]["low"]) == NAMES
        assert group["metrics"]["partly"]["mean"]["n_samples"] == limit
    holdfast("fork", "r", "--run-dir", "f", code=0)
    assert names_in(holdfast.json("report", "f", code=0)["tasks"]["t"]["m"]["metrics"]) == NAMES


def unannotated(answer, sample):
    return True


def annotated(answer, sample) -> bool:
    return True


async def awaited(answer, sample) -> bool:
    return True


def scored(answer, sample) -> Score:
    return Score(True)


class Declared:
    """A scorer class that says so."""

    name = "declared"
    is_binary = True

    def __call__(self, _answer, _sample):
        return Score(True)

    def identity(self):
        return {}

    def check(self, sample: Sample, place: str):
        pass


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (exact(), True),
        (scorer(unannotated), False),
        (scorer(annotated), True),
        (scorer(awaited), True),
        (scorer(scored), False),
        (scorer(len), False),
        (Declared(), True),
    ],
)
def test_a_scorer_says_whether_it_is_binary(given, expected):
    """Built in, by its annotation, or by an attribute."""
    assert is_binary(given) is expected
