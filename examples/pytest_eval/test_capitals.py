"""An eval as a test: `pytest test_capitals.py`. It fails when the score falls below what you ask for.

With HOLDFAST_RUN set to a directory that is kept, a job that was killed resumes where it stopped when it is started
again. A real model: MODELS = {"small": "openai/gpt-4o-mini"}, and set OPENAI_API_KEY.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Run, Sample, Task, evaluate, generate, includes, task

RULES = [{"contains": "France", "reply": "It is Paris."}, {"contains": "Japan", "reply": "Tokyo"}]
MODELS = {"small": {"provider": "scripted", "model": "table", "args": {"rules": RULES, "default": "I do not know."}}}


@task
def capitals() -> Task:
    """Three questions, of which the scripted model knows two."""
    samples = [
        Sample("What is the capital of France?", target="Paris", id="fr"),
        Sample("What is the capital of Japan?", target="Tokyo", id="jp"),
        Sample("What is the capital of Peru?", target="Lima", id="pe"),
    ]
    return Task(samples=samples, solver=generate(), scorers=includes())


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the run is."""
    return Path(os.environ.get("HOLDFAST_RUN", tmp_path_factory.mktemp("runs") / "capitals"))


@pytest.fixture
def run(place: Path) -> Iterator[Run]:
    """The run: started by the first test that asks for it, and resumed, or found complete, by the others."""
    with evaluate(capitals(), MODELS, run=place) as run:
        yield run


def test_most_capitals_are_known(run: Run) -> None:
    """The score is at least 0.6."""
    accuracy = run.report().tasks["capitals"]["small"].metrics["includes"]["accuracy"].value
    assert run.is_complete
    assert accuracy >= 0.6


def test_france_is_known(run: Run) -> None:
    """Each trial can be looked at, too."""
    (france,) = [trial for trial in run.trials() if trial.sample == "fr"]
    assert "Paris" in france.answer


def test_no_call_is_made_twice(run: Run) -> None:
    """The tests share one run: three calls were made, however many tests asked for it."""
    assert sum(1 for _ in run.steps()) == 3
    assert len(run.lineage) == 1
