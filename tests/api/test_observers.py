"""Observers that `evaluate` is given: told everything, unable to do harm, refused if they are no plain functions."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Sample, Task, UsageError, evaluate, evaluate_async, exact, generate
from holdfast.events import AttemptEnded, Note, SessionEnded, SessionStarted, StepRecorded, TrialStarted

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")


def three() -> Task:
    samples = [Sample(f"q{number}", target=f"q{number}") for number in range(3)]
    return Task(name="three", samples=samples, solver=generate(), scorers=exact())


@pytest.mark.parametrize("wrap", [lambda observer: observer, lambda observer: [observer], lambda observer: (observer,)])
def test_evaluate_tells_its_observers_what_happens(tmp_path, wrap):
    """One function or several; a second session of the complete run has nothing to tell."""
    events = []
    evaluate(three(), ["scripted/echo"], run=tmp_path / "r", observers=wrap(events.append)).close()
    assert isinstance(events[0], SessionStarted) and isinstance(events[-1], SessionEnded)
    assert sum(isinstance(event, StepRecorded) for event in events) == 3
    assert [event.record.scores for event in events if isinstance(event, AttemptEnded)] == [{"exact": 1.0}] * 3
    seen = len(events)
    evaluate(three(), ["scripted/echo"], run=tmp_path / "r", observers=events.append).close()
    assert len(events) == seen


def test_what_is_planned_cannot_be_changed_by_an_observer(tmp_path):
    """Whatever it does to the maps it gets, the run is as planned."""

    def vandal(event):
        if isinstance(event, TrialStarted):
            event.axes["tone"] = "broken"
        if isinstance(event, AttemptEnded):
            event.record.scores["exact"] = 0.0

    task = Task(
        name="t",
        samples=[Sample("a", target="a"), Sample("b", target="b")],
        solver=generate(),
        scorers=exact(),
        axes={"tone": ["kind", "rude"]},
    )
    with evaluate(task, ["scripted/echo"], run=tmp_path / "r", observers=vandal) as run:
        rows = run.to_dicts()
    assert sorted(row["axes"]["tone"] for row in rows) == ["kind", "kind", "rude", "rude"]
    assert [row["scores"] for row in rows] == [{"exact": 1.0}] * 4


def test_an_observer_that_raises_is_a_warning_of_the_outcome(tmp_path, capfd):
    """Nothing is printed in somebody else's process; the run is complete, the other observers go on."""
    events = []

    def fragile(event):
        raise LookupError("not here")

    with evaluate(three(), ["scripted/echo"], run=tmp_path / "r", observers=[fragile, events.append]) as run:
        assert run.is_complete
        assert run.ended.warning.startswith(f"The observer {__name__}.")
        assert run.ended.warning.count("fragile is disabled for this session: LookupError: not here") == 1
    assert [event.kind for event in events if isinstance(event, Note)] == ["observer"]
    assert sum(isinstance(event, AttemptEnded) for event in events) == 3
    assert capfd.readouterr() == ("", "")


async def coroutine(event):
    """No observer."""


class Awaited:
    """No observer either."""

    async def __call__(self, event): ...


@pytest.mark.parametrize(
    ("wrong", "said"),
    [(coroutine, "coroutine is a coroutine function"), (Awaited(), "Awaited is a coroutine function"), (5, "int")],
)
def test_what_is_no_plain_function_is_refused_before_anything_is_written(tmp_path, wrong, said):
    """The message names it."""
    with pytest.raises(UsageError, match=said):
        evaluate(three(), ["scripted/echo"], run=tmp_path / "r", observers=[wrong])
    assert not (tmp_path / "r").exists()


def test_a_cancelled_evaluation_tells_its_end(tmp_path):
    """Whoever keeps a trace open learns that the session is over."""
    events = []

    async def stay(trial):
        await asyncio.sleep(3600)

    async def cancelled():
        is_started = asyncio.Event()

        def observe(event):
            events.append(event)
            if isinstance(event, TrialStarted):
                is_started.set()

        task = Task(name="t", samples=[Sample("a", target="a")], solver=stay, scorers=exact())
        work = asyncio.ensure_future(evaluate_async(task, ["scripted/echo"], run=tmp_path / "r", observers=observe))
        await is_started.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(cancelled())
    assert isinstance(events[-1], SessionEnded) and events[-1].ended_as == "interrupted"
    assert events[-1].counts.remaining == 1


def test_the_observer_of_the_documentation_works(tmp_path):
    """The block of docs/api.md prints a line for the trial."""
    (block,) = [
        code for code in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if "print_scores" in code
    ]
    (tmp_path / "example.py").write_text(block, encoding="utf-8")
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\w+ valid \{'exact': 1.0\}\n", done.stdout)
