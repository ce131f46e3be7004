"""Ctrl-C in `evaluate`: the exception says how to resume, or that nothing was started; nothing is shown above it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from holdfast import Run
from program import until

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
    while True:
        try:
            while True:
                try:
                    return work()
                except KeyboardInterrupt:
                    pass
        except KeyboardInterrupt:  # the second one came in the line above
            pass

if __name__ == "__main__":
    from holdfast.storage import crashpoints
    crashpoints.reach = lambda name: (interrupt(), time.sleep(0.05)) if name == os.environ["POINT"] else None
    print(({call}).finished)
"""


def run_program(directory, times=1, **parts) -> subprocess.CompletedProcess[str]:
    # The program is the same whatever the point is: a patch of its own would be a change of its code.
    point = parts.pop("point", "")
    text = PROGRAM.format(**{"task": "letters()", "call": "work()", **parts})
    (directory / "work.py").write_text(text)
    command = [sys.executable, "work.py"]
    environment = {**os.environ, "TIMES": str(times), "POINT": point}
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


SERVED = """
import asyncio, os, signal, sys, time
from holdfast import Run, Sample, Task, evaluate, exact

async def solve(trial):
    draft = await trial.generate(trial.sample.input)
    return await trial.generate("again " + draft.text)

async def block(trial):
    open("blocked", "w").close()
    while True:
        time.sleep(0.01)

def work(solver=solve):
    samples = [Sample(f"q{number}", target="x") for number in range(8)]
    model = {"provider": "openai", "model": "m", "base_url": sys.argv[1]}
    made = Task(name="t", samples=samples, solver=solver, scorers=exact())
    return evaluate(made, {"m": model}, run="r", concurrency_limit=4)

async def cell():
    return work()

if __name__ == "__main__":
    try:
        print(CALL.finished)
    except KeyboardInterrupt as error:
        print(error)
        print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        print(Run.open("r").lineage[-1].ended_as)
"""
"""A script with four calls at a real server at once, each trial making two."""


class Script:
    """The script as a process, with signals when the server is in a certain state."""

    def __init__(self, directory, server, call):
        (directory / "served.py").write_text(SERVED.replace("CALL", call))
        command = [sys.executable, "served.py", server.base_url]
        environment = {**os.environ, "OPENAI_API_KEY": "none"}
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(command, cwd=directory, env=environment, **streams)

    def interrupt(self):
        self._process.send_signal(signal.SIGINT)

    def told(self, text):
        """Waits for a line on standard error."""
        line = self._process.stderr.readline()
        assert text in line, line

    def end(self):
        """What it printed, and its lines on standard error."""
        out, err = self._process.communicate(timeout=60)
        return out.splitlines(), err


@pytest.fixture(params=["work()", "asyncio.run(cell())"], ids=["script", "in a loop"])
def script(request, tmp_path, server):
    return lambda: Script(tmp_path, server, request.param)


def test_calls_in_flight_are_waited_for_and_nothing_is_asked_twice(tmp_path, server, script):
    """The session ends as interrupted, its replies are kept, and the resume asks for the rest."""
    server.behave(hold=True)
    interrupted = script()
    server.wait_for(in_flight=4)
    interrupted.interrupt()
    interrupted.told("Ctrl-C: waiting for 4 in-flight calls; press Ctrl-C again to stop immediately")
    server.behave()
    (told, *_), err = interrupted.end()
    assert "Resume with the same call" in told and err == ""
    assert {name: server.state()[name] for name in ("received", "answered", "aborted")} == {
        "received": 4,
        "answered": 4,
        "aborted": 0,
    }
    (session,) = Run.open(tmp_path / "r").lineage
    assert (session.ended_as, session.exit_code, session.in_flight_at_kill) == ("interrupted", 130, 0)
    assert session.ended_at is not None
    assert script().end() == (["8"], "")
    assert set(server.worked_on().values()) == {1}


def test_the_second_interrupt_stops_at_once(tmp_path, server, script):
    """The calls are given up, and the session's end is on record all the same."""
    server.behave(hold=True)
    interrupted = script()
    server.wait_for(in_flight=4)
    interrupted.interrupt()
    interrupted.told("Ctrl-C: waiting for 4 in-flight calls")
    interrupted.interrupt()
    (told, *_), _ = interrupted.end()
    assert "Resume with the same call" in told
    (session,) = Run.open(tmp_path / "r").lineage
    assert (session.ended_as, session.in_flight_at_kill) == ("interrupted", 4)


def test_after_an_interrupt_ctrl_c_is_the_programs_own_again(tmp_path, server):
    """The handler that was there before is back."""
    server.behave(hold=True)
    interrupted = Script(tmp_path, server, "work()")
    server.wait_for(in_flight=4)
    interrupted.interrupt()
    interrupted.told("Ctrl-C")
    server.behave()
    assert interrupted.end()[0][1:] == ["True", "interrupted"]


def test_code_that_blocks_the_loop_cannot_keep_the_program_from_stopping(tmp_path, server):
    """After the second Ctrl-C it gets a few seconds; the run is let go, and can be resumed."""
    interrupted = Script(tmp_path, server, "work(block)")
    until((tmp_path / "blocked").exists, "the solver blocks")
    for _ in range(2):
        interrupted.interrupt()
        time.sleep(0.5)  # one for each: two that are pending at once are one
    (told, is_back, ended_as), _ = interrupted.end()
    assert "Resume with the same call" in told and is_back == "True"
    assert ended_as in {"interrupted", "killed"}


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """The exception, of which there is one."""
    assert done.returncode == -signal.SIGINT, done.stderr
    # A second interrupt may find a task of the loop in its clean-up, whose own trace comes first.
    assert re.search("Traceback", done.stderr), done.stderr
    assert "During handling" not in done.stderr
    return done.stderr.splitlines()[-1]


def is_of_python(told: str) -> bool:
    """Whether the second interrupt found Python as it printed the first, when `evaluate` had ended."""
    return told.rstrip(": ") == "KeyboardInterrupt"


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
    if times == 1 or not is_of_python(told):
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
    if times == 2 and is_of_python(told):
        pass
    elif "Nothing was started." in told:
        assert not (tmp_path / "r").exists()
    else:
        assert "Resume with the same call" in told
    assert run_program(tmp_path).stdout == "3\n"


def test_after_two_interrupts_the_same_process_can_resume(tmp_path):
    """Also when the second comes while the first is being recorded, the run is let go."""
    (tmp_path / "interrupt").touch()
    done = run_program(tmp_path, times=2, call="again()")
    assert done.stdout == "3\n", done.stderr
