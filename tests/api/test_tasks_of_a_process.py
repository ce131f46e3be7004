"""Tasks that only one Python program can build: failed trials are run again there, and `status` says how."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys

import pytest

from evals import write_eval
from holdfast import Run, Sample, Task, UsageError, evaluate, exact

ECHO = ["scripted/echo"]
PROGRAM = """
import os, sys
from holdfast import Sample, Task, evaluate, exact, generate, rescore, scorer

async def solve(trial):
    if trial.sample.input == "b" and not os.path.exists("well"):
        raise KeyError("b")
    return trial.sample.input

@scorer
def strict(answer, sample):
    if answer.text == "b" and not os.path.exists("well"):
        raise ValueError("b")
    return answer.text == sample.target

def fixed(answer, sample):
    return answer.text == sample.target

def geo(solver=solve, score=exact()):
    samples = [Sample(text, target=text, id=text) for text in "abc"]
    return Task(name="geo", samples=samples, solver=solver, scorers=score)

if __name__ == "__main__":
    tasks, models = {tasks}, ["scripted/echo"]
    {line}
"""


def run_line(directory, line, tasks="geo()"):
    """Runs a line of Python in the program that makes the task."""
    (directory / "geo.py").write_text(PROGRAM.format(line=line, tasks=tasks))
    done = subprocess.run(
        [sys.executable, "geo.py"], cwd=directory, env={**os.environ}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def python_lines(text):
    """What `status` prints to be run in Python, by what it is for."""
    found = dict(re.findall(r"^ *(.+?): ((?:evaluate|rescore)\(.*)$", text, re.MULTILINE))
    for line in found.values():
        ast.parse(line)
    return found


START = "evaluate(tasks, models, run='r')"


def test_the_way_out_that_status_names_works(tmp_path, holdfast):
    """Each line that it prints can be pasted into the program, and none of them is a command that would be refused."""
    run_line(tmp_path, START)
    told = holdfast("status", "r", code=0).out
    lines = python_lines(told)
    assert set(lines) == {"After fixing the code", "Retry the failed trial"}
    assert "holdfast resume" not in told and "holdfast run" not in told
    (tmp_path / "well").touch()
    run_line(tmp_path, lines["Retry the failed trial"])
    assert Run.open(tmp_path / "r").is_complete


def test_a_resume_on_the_command_line_names_the_same_way_out(tmp_path, holdfast):
    """Nothing remains but failed trials: it says so, and so does its JSON."""
    run_line(tmp_path, START)
    lines = python_lines(holdfast("resume", "r", code=1).out)
    assert "redo='status=failed'" in lines["Retry the failed trial"]
    assert holdfast.json("resume", "r", code=1)["resume"] == lines["Retry the failed trial"]


def test_a_failed_scorer_has_a_way_out_in_python_too(tmp_path, holdfast):
    """The recorded answers are scored by the fixed scorer."""
    run_line(tmp_path, START, "geo(generate(), strict)")
    lines = python_lines(holdfast("status", "r", code=0).out)
    run_line(tmp_path, lines["After fixing the scorer"], "geo(generate(), scorer(name='strict')(fixed))")
    assert Run.open(tmp_path / "r").is_complete


def test_a_refused_resume_says_what_is_missing(tmp_path, holdfast):
    """It is not the file, which there is, but a function with @task."""
    run_line(tmp_path, START)
    told = holdfast("resume", "r", "--redo", "status=failed", code=2).err
    assert "a function with @task in a file" in told and "evaluate(tasks, models, run=PATH)" in told
    assert "not in a file" not in told


def test_a_task_with_a_function_in_a_file_keeps_its_commands(tmp_path, holdfast):
    """An eval file can be resumed from the command line, and `status` says so."""
    (tmp_path / "geo.py").write_text(
        PROGRAM.format(line="pass", tasks="geo()").replace("def geo", "def made") + GEO_TASK
    )
    file = write_eval(tmp_path, {"models": {"m": "scripted/echo"}, "tasks": {"geo": {"use": "geo.py:geo"}}})
    holdfast("run", file, "--run-dir", "r", "--set", "max_retries=0", "--set", "fail_fast=false", code=1)
    told = holdfast("status", "r", code=0).out
    assert "Retry the failed trial: holdfast resume r --redo " in told and not python_lines(told)


GEO_TASK = """
from holdfast import task

@task
def geo():
    return made()
"""


# redo in Python.


async def solve(trial):
    if trial.sample.input == "b":
        raise KeyError("b")
    return trial.sample.input


def evaluated(directory, **arguments):
    samples = [Sample(text, target="a", id=text) for text in "abc"]
    made = Task(name="t", samples=samples, solver=solve, scorers=exact())
    return evaluate(made, ECHO, run=directory / "r", max_retries=0, fail_fast=False, **arguments)


def test_redo_runs_failed_trials_again_and_nothing_else(tmp_path):
    """Without it they stay failed, however often the call is made, and the outcome says what would run them."""
    evaluated(tmp_path)
    again = evaluated(tmp_path)
    assert again.ended is not None
    assert (again.counts.failed, len(again.sessions)) == (1, 1) and "redo='status=failed'" in again.ended.warning
    redone = evaluated(tmp_path, redo="status=failed")
    assert (redone.counts.failed, len(redone.sessions)) == (1, 2)
    assert sorted(attempt.sample for attempt in redone.attempts()) == ["a", "b", "b", "c"]


def test_redo_may_select_finished_trials(tmp_path):
    """Any expression of the command line: the result is kept until there is another."""
    evaluated(tmp_path)
    redone = evaluated(tmp_path, redo="exact<1")
    assert [attempt.sample for attempt in redone.attempts()].count("c") == 2


@pytest.mark.parametrize(
    ("redo", "told"),
    [("status=faild", "redo"), ("status=blocked", "redo 'status=blocked' matches no trial"), (3, "redo is 3")],
)
def test_a_wrong_redo_is_refused_and_nothing_is_run(tmp_path, redo, told):
    evaluated(tmp_path)
    with pytest.raises(UsageError) as refused:
        evaluated(tmp_path, redo=redo)
    assert told in str(refused.value) and "--redo" not in str(refused.value)
    assert len(Run.open(tmp_path / "r").sessions) == 1


def test_redo_of_a_run_that_does_not_exist_is_refused(tmp_path):
    """It may be a mistyped path, and a new run would cost as much as the old one."""
    with pytest.raises(UsageError, match="There is no run at"):
        evaluated(tmp_path, redo="status=failed")
    assert not (tmp_path / "r").exists()
