"""Rows 37 to 40: what the two stages of an interrupt promise, with real signals to real processes."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evals import http_eval, python_eval
from holdfast.engine.trials.step_threads import MOST_THREADS
from program import until
from terminal_screen import TerminalProgram

STOPS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


def resumed_cleanly(holdfast, run, planned):
    """A resume finishes the run; its trials all stand once in the journal as valid."""
    holdfast("resume", run, code=0)
    ends = holdfast.records(run, "trial")
    assert len({end["trial"] for end in ends}) == len(ends) == planned
    assert {end["status"] for end in ends} == {"valid"}
    return ends


@pytest.mark.parametrize(("number", "code"), STOPS, ids=["resume_37", "resume_39", "a hangup"])
def test_first_signal_lets_calls_in_flight_finish_and_starts_none(holdfast, server, tmp_path, number, code):
    """After one signal the calls in flight are kept, no new one starts, and the way on is printed."""
    eval_file = http_eval(tmp_path, server.base_url, 12, concurrency_limit=4)
    server.behave(hold=True)
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(in_flight=4)
    started.send(number)
    until(lambda: "to stop immediately" in started.told(), "the signal was taken")
    server.behave()
    ended = started.wait()
    assert ended.code == code
    assert server.state()["received"] == 4
    assert "4 of 12 trials finished, 8 remaining: 8 not started.\n" in ended.out
    assert "holdfast resume r" in ended.out
    assert [end["status"] for end in holdfast.records("r", "trial")] == ["valid"] * 4
    assert holdfast.json("status", "r")["sessions"][0]["exit_code"] == code
    resumed_cleanly(holdfast, "r", 12)
    assert set(server.worked_on().values()) == {1}


def test_a_terminal_that_is_gone_is_an_interrupt_and_no_kill(holdfast, server, tmp_path):
    """Calls in flight are kept: the shell and the kernel both send the signal, and nothing can be printed any more."""
    server.behave(hold=True)
    started = TerminalProgram(tmp_path, "run", http_eval(tmp_path, server.base_url, 6, concurrency_limit=2))
    server.wait_for(in_flight=2)
    started.process.send_signal(signal.SIGHUP)
    started.until(lambda lines: any("waiting for 2 in-flight calls; send SIGTERM to stop" in line for line in lines))
    started.process.send_signal(signal.SIGHUP)
    started.close()
    server.behave()
    assert started.process.wait(30) == 129
    status = holdfast.json("status", "@latest", code=0)
    assert [one["ended_as"] for one in status["sessions"]] == ["interrupted"]
    assert (status["finished"], status["calls"]["in_flight_at_kill"]) == (2, 0)


def test_under_nohup_a_hangup_changes_nothing(holdfast, server, tmp_path):
    """It was ignored when the program started."""
    eval_file = http_eval(tmp_path, server.base_url, 3, concurrency_limit=1)
    server.behave(hold=True)
    command = [sys.executable, "-m", "holdfast", "run", str(eval_file), "--run-dir", "r"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        started = subprocess.Popen(command, cwd=tmp_path, restore_signals=False, **quiet)
    finally:
        signal.signal(signal.SIGHUP, before)
    server.wait_for(in_flight=1)
    started.send_signal(signal.SIGHUP)
    server.behave()
    assert started.wait(30) == 0
    assert holdfast.json("status", "r", code=0)["state"] == "complete"


def test_resume_37_grace_ends_the_wait_for_calls_that_never_finish(holdfast, server, tmp_path):
    """A call that outlasts the grace time is given up and its trial remains; it is not scored."""
    eval_file = http_eval(tmp_path, server.base_url, 4, concurrency_limit=2, grace_period=0.2)
    server.behave(hold=True)
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(in_flight=2)
    started.send(signal.SIGINT)
    ended = started.wait()
    assert ended.code == 130
    assert "0 of 4 trials finished, 4 remaining: 2 interrupted, 2 not started.\n" in ended.out
    assert holdfast.records("r", "trial") == []
    assert holdfast.json("status", "r")["calls"]["in_flight_at_kill"] == 2
    server.behave()
    resumed_cleanly(holdfast, "r", 4)


def test_resume_38_second_signal_stops_at_once(holdfast, server, tmp_path):
    """The second signal ends calls in flight at once: their trials remain, and none is scored."""
    eval_file = http_eval(tmp_path, server.base_url, 6, concurrency_limit=3, grace_period=3600)
    server.behave(hold=True)
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(in_flight=3)
    started.send(signal.SIGINT)
    until(lambda: "to stop immediately" in started.told(), "the first signal was taken")
    started.send(signal.SIGINT)
    ended = started.wait()
    assert ended.code == 130
    assert "0 of 6 trials finished, 6 remaining: 3 interrupted, 3 not started.\n" in ended.out
    assert "holdfast resume" in ended.out
    assert server.wait_until_idle()["aborted"] == 3
    assert holdfast.json("status", "r")["sessions"][0]["ended_as"] == "interrupted"
    assert holdfast.records("r", "trial") == []
    assert holdfast.json("status", "r")["calls"]["in_flight_at_kill"] == 3
    server.behave()
    resumed_cleanly(holdfast, "r", 6)
    assert sorted(server.worked_on().values()) == [1, 1, 1, 2, 2, 2]


STUBBORN = """
import asyncio, contextlib, time
from holdfast import Sample, Task, exact, task

async def solve(trial):
    open("began", "w").close()
    {body}

@task
def t():
    return Task(samples=[Sample("a", target="A")], solver=solve, scorers=exact())
"""


@pytest.mark.parametrize(
    "body",
    [
        "await trial.step('wait', time.sleep, 3600)",
        "time.sleep(3600)",
        "while True:\n        with contextlib.suppress(asyncio.CancelledError):\n            await asyncio.sleep(3600)",
    ],
    ids=["step in a thread", "blocks the loop", "swallows cancellation"],
)
def test_resume_38_second_signal_ends_even_code_that_will_not_stop(holdfast, tmp_path, body):
    """No solver can hold the program up after the second signal."""
    eval_file = python_eval(tmp_path, "http://127.0.0.1:9/v1", STUBBORN.format(body=body))
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    until((tmp_path / "began").exists, "the solver began")
    started.send(signal.SIGINT)
    time.sleep(0.05)  # two signals sent in one instant may be delivered as one
    started.send(signal.SIGINT)
    ended = started.wait()
    assert ended.code == 130
    assert "0 of 1 trials finished, 1 remaining: " in ended.out
    assert holdfast.records("r", "trial") == []


CROWDED = """
import asyncio, pathlib, time
from holdfast import Sample, Task, exact, task

def hang(number):
    pathlib.Path(f"began-{number}").touch()
    time.sleep(3600)

async def solve(trial):
    await asyncio.gather(*(trial.step("hang", hang, number) for number in range(70)))

@task
def t():
    return Task(samples=[Sample("a", target="A")], solver=solve, scorers=exact())
"""


@pytest.mark.parametrize("signals", [1, 2])
def test_resume_38_steps_that_wait_for_a_thread_do_not_start_after_a_signal(holdfast, tmp_path, signals):
    """Every thread hangs and others wait: a signal starts none of those, and the process waits for no thread."""
    eval_file = python_eval(tmp_path, "http://127.0.0.1:9/v1", CROWDED)
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    until(lambda: len(list(tmp_path.glob("began-*"))) == MOST_THREADS, "every thread has a step")
    for _ in range(signals):
        started.send(signal.SIGINT)
        time.sleep(0.05)  # two signals sent in one instant may be delivered as one
    ended = started.wait()
    assert ended.code == 130
    assert "0 of 1 trials finished, 1 remaining: " in ended.out
    assert len(list(tmp_path.glob("began-*"))) == MOST_THREADS
    assert holdfast.records("r", "trial") == holdfast.records("r", "step") == []


COMMANDS = """
import asyncio, os, subprocess
from holdfast import Answer, Sample, Task, scorer, task

def command(name):
    seconds = "0" if os.path.exists("fast") else "3600"
    return ["sh", "-c", 'touch "$0"; exec sleep "$1"', name, seconds]

def plain_step(name):
    return subprocess.run(command(name)).returncode

async def async_step(name):
    process = await asyncio.create_subprocess_exec(*command(name))
    return await process.wait()

async def by_step(trial):
    return await trial.step("run", plain_step, trial.sample.input)

async def by_async_step(trial):
    return await trial.step("run", async_step, trial.sample.input)

async def by_hand(trial):
    return await async_step(trial.sample.input)

async def at_once(trial):
    return 0

async def solve(trial):
    if trial.sample.input == "call":
        await trial.generate("call")
        return "0"
    return str(await {solve}(trial))

@scorer
def right(answer, sample):
    return answer.text == "0"

@scorer
async def judged(answer, sample):
    return answer.text == "0" and await async_step(sample.input) == 0

@scorer
def judged_plainly(answer, sample):
    return answer.text == "0" and plain_step(sample.input) == 0

@task
def t():
    return Task(samples=[Sample(name) for name in {names}], solver=solve, scorers={score})
"""
COMMANDED = ["child-1", "child-2", "child-3"]
WAYS = [
    ("by_step", "right", ["call", *COMMANDED]),
    ("by_async_step", "right", ["call", *COMMANDED]),
    ("by_hand", "right", ["call", *COMMANDED]),
    ("at_once", "judged", COMMANDED),
    ("at_once", "judged_plainly", ["child-1"]),
]


@pytest.mark.parametrize(("solve", "score", "names"), WAYS, ids=[f"{way[0]}-{way[1]}" for way in WAYS])
def test_resume_40_signal_to_the_group_leaves_trials_remaining_and_scores_none(
    holdfast, server, tmp_path, solve, score, names
):
    """Commands that a Ctrl-C ended were not answered: their trials remain and are never scored 0; calls are kept."""
    source = COMMANDS.format(names=names, solve=solve, score=score)
    eval_file = python_eval(tmp_path, server.base_url, source)
    calls = names.count("call")
    commands = len(names) - calls
    server.behave(hold=True)
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    until(lambda: len(list(tmp_path.glob("child-*"))) == commands, "every command runs")
    server.wait_for(in_flight=calls)
    started.send_group(signal.SIGINT)
    until(lambda: not children_of(started.pid), "the commands have ended")
    server.behave()
    ended = started.wait()
    assert ended.code == 130
    assert f"{calls} of {len(names)} trials finished, {commands} remaining: " in ended.out
    assert len(holdfast.records("r", "trial")) == len(holdfast.records("r", "score")) == calls
    until(lambda: not started.group_is_alive(), "nothing of it is left")
    (tmp_path / "fast").touch()
    ends = resumed_cleanly(holdfast, "r", len(names))
    assert [list(end["scores"].values()) for end in ends] == [[1.0]] * len(names)
    assert server.state()["received"] == calls


def children_of(pid):
    """The processes that a process has started and that still run; none once it has ended itself."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [child for child in path.read_text().split() if state_of(child) not in {"Z", ""}]
    return found


def state_of(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
