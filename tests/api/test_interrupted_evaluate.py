"""Ctrl-C in `evaluate`: the exception says how to resume, or that nothing was started; nothing is shown above it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from holdfast import Run

PROGRAM = """
import asyncio, os, signal, threading, time
from holdfast import Sample, Task, evaluate, exact, task

def interrupt():
    if os.environ["TIMES"] == "2":
        threading.Timer(0.02, os.kill, [os.getpid(), signal.SIGINT]).start()
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.001)

async def solve(trial):
    if trial.sample.input == "b" and os.path.exists("interrupt"):
        os.remove("interrupt")
        interrupt()
        await asyncio.sleep(60)
    return trial.sample.input

@task
def letters():
    return Task(samples=[Sample(x, target=x) for x in "abc"], solver=solve, scorers=exact())

def work():
    return evaluate({task}, ["scripted/echo"], run="r", concurrency_limit=1, observers=[])

async def cell():
    return work()

def again():
    try:
        work()
    except KeyboardInterrupt:
        pass
    while True:
        try:
            return work()
        except KeyboardInterrupt:  # the second one, if the first was dealt with before it came
            pass

if __name__ == "__main__":
    from holdfast.storage import crashpoints
    crashpoints.reach = lambda name: (interrupt(), time.sleep(0.05)) if name == "{point}" else None
    print(({call}).finished)
"""


def run_program(directory, times=1, **parts) -> subprocess.CompletedProcess[str]:
    text = PROGRAM.format(**{"task": "letters()", "point": "", "call": "work()", **parts})
    (directory / "work.py").write_text(text)
    command = [sys.executable, "work.py"]
    environment = {**os.environ, "TIMES": str(times)}
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """The exception, of which there is one."""
    assert done.returncode == -signal.SIGINT, done.stderr
    # A second interrupt may find a task of the loop in its clean-up, whose own trace comes first.
    assert re.search("Traceback", done.stderr), done.stderr
    assert "During handling" not in done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("call", "times"),
    [("work()", 1), ("asyncio.run(cell())", 1), ("asyncio.run(cell())", 2)],
    ids=["script", "in a loop", "in a loop, twice"],
)
def test_in_the_middle_of_a_run(tmp_path, call, times):
    """The message has both ways to resume, and both work."""
    (tmp_path / "interrupt").touch()
    told = last_line(run_program(tmp_path, times=times, call=call))
    place = str(tmp_path / "r")
    assert told == (
        "KeyboardInterrupt: Finished trials are kept. Resume with the same call and "
        f"run={place!r}, or with: holdfast resume {place}"
    )
    assert Run.open(place).finished == 1
    assert run_program(tmp_path, call=call).stdout == "3\n"


def test_a_task_that_is_in_no_file_can_only_be_resumed_by_the_same_call(tmp_path):
    """The command line is not named: it could not."""
    (tmp_path / "interrupt").touch()
    told = last_line(run_program(tmp_path, task="letters.function()"))
    assert told.endswith(f"Resume with the same call and run={str(tmp_path / 'r')!r}.")


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("point", ["run.inputs-written", "run.session-synced", "run.renamed"])
def test_while_the_run_is_created(tmp_path, point, times):
    """Whatever is said of the run is true."""
    told = last_line(run_program(tmp_path, times, point=point))
    if "Nothing was started." in told:
        assert not (tmp_path / "r").exists()
    else:
        assert "Resume with the same call" in told
    assert run_program(tmp_path).stdout == "3\n"


def test_after_two_interrupts_the_same_process_can_resume(tmp_path):
    """Also when the second comes while the first is being recorded, the run is let go."""
    (tmp_path / "interrupt").touch()
    done = run_program(tmp_path, times=2, call="again()")
    assert done.stdout == "3\n", done.stderr
