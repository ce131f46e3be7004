"""Solvers and scorers that break: failed trials with their reason, no traceback, and an exit code that tells."""

from __future__ import annotations

import pytest

from evals import python_eval

NOBODY = "http://127.0.0.1:9/v1"
TASK = """
import asyncio, math, os, sys
from holdfast import Answer, Sample, Score, Task, exact, generate, scorer, task

def well():
    return os.path.exists("well")

async def fine(trial):
    return "A"

{code}

@task
def t():
    return Task(samples=[Sample("a", target="A")], solver={solve}, scorers={score})
"""


def write_task(tmp_path, code, solve="broken", score="exact()", **keys):
    return python_eval(
        tmp_path, NOBODY, TASK.format(code=code, solve=solve, score=score), max_retries=1, fail_fast=False, **keys
    )


def solver(body):
    return f"async def broken(trial):\n    if well():\n        return 'A'\n    {body}\n"


def scoring(body, prefix=""):
    return f"@scorer\n{prefix}def broken(answer, sample):\n    if well():\n        return 1\n    {body}\n"


SOLVERS = {
    "raises": ("raise ValueError('boom \\x1b[31m')", "boom"),
    "divides by zero": ("return 1 / 0", "division by zero"),
    "returns a number": ("return 5", "returned int"),
    "returns nothing": ("return None", "returned NoneType"),
    "exits": ("sys.exit(0)", "0"),
    "exits in a thread": ("await asyncio.to_thread(sys.exit, 3)", "3"),
    "exits in a step": ("await trial.step('leave', sys.exit, 0)", "SystemExit"),
    "cancels itself": ("raise asyncio.CancelledError", "CancelledError"),
    "returns what no text can hold": ("return '\\ud800'", "answer"),
    "returns a value that cannot be recorded": ("return Answer('A', value=object())", "answer"),
    "gives a step what cannot be recorded": ("await trial.step('s', len, object())", "'s'"),
    "gets from a step what cannot be recorded": ("await trial.step('s', object)", "'s'"),
    "asks with a wrong parameter": ("await trial.generate('a', temperatur=1)", "temperatur"),
}
SCORERS = {
    "raises": (scoring("raise KeyError('boom')"), "boom"),
    "raises asynchronously": (scoring("raise KeyError('boom')", "async "), "boom"),
    "returns a text": (scoring("return 'good'"), "returned str"),
    "returns NaN": (scoring("return math.nan"), "nan"),
    "returns nothing": (scoring("pass"), "returned NoneType"),
    "exits": (scoring("sys.exit(0)"), "0"),
}


def check_failed(holdfast, eval_file, expected, reason):
    """The trial fails, exit code 1, and everybody tells why."""
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1)
    remaining = f"0 of 1 trials finished, 1 remaining: 1 failed ({reason}).\n"
    assert ("Stopped: the trial failed: " if reason == "task error" else remaining) in ended.out
    assert expected in ended.err and "\x1b" not in ended.err, ended.err
    ends = holdfast.records("r", "trial")
    status = holdfast.json("status", "r", code=0)
    assert (status["state"], status["failed"], status["remaining"]) == ("incomplete", 1, 1)
    assert status["remaining_by_reason"] == {reason: 1}
    shown = holdfast("show", "r", ends[0]["trial"], code=0).out
    assert expected in shown
    return ends, shown


@pytest.mark.parametrize("name", SOLVERS)
def test_broken_solver_is_a_failed_trial(holdfast, tmp_path, name):
    """Whatever a solver does is a failed attempt with its reason; the exit code is 1. A wrong type is not retried."""
    body, expected = SOLVERS[name]
    eval_file = write_task(tmp_path, solver(body))
    ends, shown = check_failed(holdfast, eval_file, expected, "task error")
    attempts = [1] if name.startswith("returns ") else [1, 2]
    assert [(end["status"], end["attempt"]) for end in ends] == [("failed", attempt) for attempt in attempts]
    assert holdfast.records("r", "score") == []
    (tmp_path / "well").touch()
    assert (
        "nothing to run: 0 of 1 trials finished, 1 remaining: 1 failed (task error)."
        in holdfast("resume", "r", code=1).out
    )
    assert len(holdfast.records("r", "trial")) == len(ends)
    holdfast("resume", "r", "--redo", "status=failed", code=0)
    if name == "raises":
        assert "task.py" in shown and "raise ValueError" in shown


@pytest.mark.parametrize("name", SCORERS)
def test_broken_scorer_is_a_failed_trial(holdfast, tmp_path, name):
    """A scorer that breaks scores nothing; the trial is failed, not 0. Mended, a redo asks the scorer alone."""
    code, expected = SCORERS[name]
    eval_file = write_task(tmp_path, code, "fine", "broken")
    ends, _ = check_failed(holdfast, eval_file, expected, "score: broken")
    assert [(end["status"], end["attempt"]) for end in ends] == [("failed", 1)]
    assert ["value" in score for score in holdfast.records("r", "score")] == [False, False]
    (tmp_path / "well").touch()
    holdfast("resume", "r", code=1)
    holdfast("resume", "r", "--redo", "status=failed", code=0)
    assert len(holdfast.records("r", "answer")) == 1


def test_a_task_that_ends_the_loop_does_not_make_the_exit_code_0(holdfast, tmp_path):
    """sys.exit in a task of the event loop's own ends the program; the exit code is not the one it asked for."""
    body = "asyncio.get_running_loop().create_task(leave())\n    await asyncio.sleep(60)"
    eval_file = write_task(tmp_path, f"async def leave():\n    sys.exit(0)\n\n{solver(body)}")
    ended = holdfast("run", eval_file, "--run-dir", "r")
    assert ended.code == 1
    assert "sys.exit" in ended.err and "holdfast resume" in ended.err
    (tmp_path / "well").touch()
    holdfast("resume", "r", code=0)


def test_an_error_that_nobody_awaits_is_a_line_not_a_traceback(holdfast, tmp_path):
    """A task's code that starts something, and never asks how it ended, is told in a line."""
    code = (
        "async def fail():\n    raise ValueError('stray')\n\n"
        "async def careless(trial):\n    asyncio.create_task(fail())\n    await asyncio.sleep(0.01)\n    return 'A'\n"
    )
    ended = holdfast("run", write_task(tmp_path, code, "careless"), "--run-dir", "r", code=0)
    assert "ValueError: stray" in ended.err


def test_a_broken_trial_does_not_hold_up_the_others(holdfast, tmp_path):
    """One failed trial among many: the others are valid, and the report says on how many it rests."""
    code = "async def some(trial):\n    return 1 / (trial.sample.input != 'b') and trial.sample.input\n"
    source = TASK.format(code=code, solve="some", score="exact()")
    samples = "[Sample(x, target=x) for x in 'abcd']"
    eval_file = python_eval(tmp_path, NOBODY, source.replace('[Sample("a", target="A")]', samples), max_retries=0)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert "3 of 4 trials finished, 1 remaining: 1 failed (task error).\n" in ended.out
    report = holdfast.json("report", "r")
    assert report["coverage"]["valid"] == 3 and report["coverage"]["failed"] == 1 and not report["complete"]
    assert "3 of 4 trials valid, 1 remaining: 1 failed (task error)\n" in holdfast("report", "r").out
