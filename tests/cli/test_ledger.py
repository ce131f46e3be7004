"""The ledger explains every call that a counting server saw: which repeat others, and why."""

from __future__ import annotations

import re
import signal

from evals import http_eval, python_eval
from program import until

TIMED = """
import time
from holdfast import Sample, Task, exact, task

async def solve(trial):
    first = await trial.generate(f"{trial.sample.input} at {time.time_ns()}")
    second = await trial.generate(f"again at {time.time_ns()}")
    third = await trial.generate(f"last at {time.time_ns()}")
    return third.text

@task
def t():
    return Task(samples=[Sample("q", target="q")], solver=solve, scorers=[exact()])
"""
RAISES = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    await trial.generate(trial.sample.input)
    raise ValueError("a bug of its own")

@task
def t():
    return Task(samples=[Sample(f"q{n}", target="x") for n in range(5)], solver=solve, scorers=[exact()])
"""
RAISES_FIRST = """
import os
from holdfast import Sample, Task, exact, task

async def solve(trial):
    if not os.path.exists("begun"):
        open("begun", "w").close()
        raise ValueError("before it asked")
    return (await trial.generate(trial.sample.input)).text

@task
def t():
    return Task(samples=[Sample("q", target="Q")], solver=solve, scorers=[exact()])
"""
RACE = """
import asyncio, os
from holdfast import Sample, Task, exact, task

async def solve(trial):
    async def ask(what):
        if what == "slow" and os.path.exists("again"):
            await asyncio.sleep(60)
        return (await trial.generate(what)).text
    branches = [asyncio.create_task(ask(what)) for what in ("fast", "slow")]
    if os.path.exists("again"):
        await asyncio.wait(branches[:1])
        branches[1].cancel()
    await asyncio.gather(*branches, return_exceptions=True)
    return (await trial.generate("the end")).text

@task
def t():
    return Task(samples=[Sample("q", target="x")], solver=solve, scorers=[exact()])
"""


def repeated(status):
    return {kind: calls for kind, calls in status["calls"]["repeated"].items() if calls}


def killed_after(holdfast, server, eval_file, answered):
    """A session that is killed once so many calls were answered and recorded, and the next one is held."""
    server.behave(hold=True, **{"pass": answered})
    session = holdfast.start("run", eval_file, "--run-dir", "r")
    until(lambda: server.state()["received"] == answered + 1, "the next call is held")
    until(lambda: len([one for one in holdfast.records("r", "step") if not one.get("error")]) == answered, "recorded")
    session.send(signal.SIGKILL)
    session.wait()
    server.behave()


def test_steps_10_a_prompt_with_the_time_of_day_is_counted(holdfast, server, tmp_path):
    """Steps 10: two recorded replies were not used, two calls bought again; the task is named and the page linked."""
    killed_after(holdfast, server, python_eval(tmp_path, server.base_url, TIMED), 2)
    ended = holdfast("resume", "r", code=0)
    sentence = (
        "2 recorded replies were not used and 2 calls were made again (task t): the requests were not the recorded"
        " ones. See docs/solvers.md in Holdfast's repository; holdfast verify"
    )
    assert sentence in ended.err
    status = holdfast.json("status", "r", code=0)
    assert repeated(status) == {"diverged": 2}
    assert (status["calls"]["unused"], status["calls"]["in_flight_at_kill"]) == (2, 1)
    assert sentence in " ".join(holdfast("status", "r", code=0).out.split())
    assert server.state()["received"] == status["calls"]["made"] == 6


def test_steps_10_a_branch_that_lost_is_not_used_and_nothing_diverged(holdfast, server, tmp_path):
    """Steps 10: the recorded reply of a branch that was cancelled is unused; no call is made in its place."""
    killed_after(holdfast, server, python_eval(tmp_path, server.base_url, RACE), 2)
    (tmp_path / "again").touch()
    ended = holdfast("resume", "r", code=0)
    assert "1 recorded reply was not used (task t): nobody asked for it again." in ended.err
    status = holdfast.json("status", "r", code=0)
    assert (repeated(status), status["calls"]["unused"]) == ({"interrupted": 1}, 1)
    assert server.state()["received"] == 4


def test_steps_12_what_a_failing_solver_costs_is_counted(holdfast, server, tmp_path):
    """Steps 12: five trials of a solver that raises after its reply, each tried three times."""
    eval_file = python_eval(tmp_path, server.base_url, RAISES, max_retries=2, fail_fast=False)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert "10 calls were made again, by attempts that started anew (task t)." in ended.err
    status = holdfast.json("status", "r", code=0)
    assert repeated(status) == {"retried": 10} and status["sessions"][0]["repeated"]["retried"] == 10
    assert server.state()["received"] == status["calls"]["made"] == 15


def test_an_attempt_that_failed_before_it_asked_repeats_nothing(holdfast, server, tmp_path):
    """Its next attempt makes the first call."""
    holdfast(
        "run",
        python_eval(tmp_path, server.base_url, RAISES_FIRST, max_retries=1, fail_fast=False),
        "--run-dir",
        "r",
        code=0,
    )
    status = holdfast.json("status", "r", code=0)
    assert (status["calls"]["made"], repeated(status)) == (1, {})


def test_calls_in_flight_at_a_kill_are_counted_when_they_are_made_again(holdfast, server, tmp_path):
    """Those whose sending is on record; the bound for what may have been billed twice is never lower."""
    eval_file = http_eval(tmp_path, server.base_url, 8, concurrency_limit=4)
    server.behave(hold=True, **{"pass": 3})
    session = holdfast.start("run", eval_file, "--run-dir", "r")
    until(lambda: server.state()["in_flight"] == 4 and server.state()["answered"] == 3, "four calls are held")
    until(lambda: len(holdfast.records("r", "call")) == 7, "they are on record")
    session.send(signal.SIGKILL)
    session.wait()
    server.behave()
    ended = holdfast("resume", "r", "--json", code=0)
    assert "4 calls were made again, after a session ended with them in flight." in ended.err
    assert ended.json["calls"] == {
        "repeated": {"retried": 0, "diverged": 0, "interrupted": 4, "takeover": 0},
        "refused_model": 0,
        "unused": 0,
        "saved": {"calls": 0},
    }
    status = holdfast.json("status", "r", code=0)
    assert repeated(status) == {"interrupted": 4} and status["calls"]["in_flight_at_kill"] >= 4
    assert server.state()["received"] == status["calls"]["made"] == 12 == status["requests"]["sent"]
    # A command that starts no session has made no call.
    assert holdfast.json("resume", "r", code=0)["calls"]["repeated"]["interrupted"] == 0


def test_requests_that_fail_are_counted_beside_the_calls(holdfast, server, tmp_path):
    """Each try is a request; the calls are as many as were asked for."""
    server.behave(refuse_times=2, refuse_status=503)
    holdfast("run", http_eval(tmp_path, server.base_url, 3), "--run-dir", "r", code=0)
    status = holdfast.json("status", "r", code=0)
    assert status["requests"] == {"sent": 9, "answered": 3, "failed": 6}
    assert (status["calls"]["made"], status["calls"]["answered"], repeated(status)) == (3, 3, {})
    assert server.state()["received"] == 9


def test_calls_without_a_reply_are_not_counted_as_replies(holdfast, server, tmp_path):
    """A refused call has its end on record, and no reply."""
    server.behave(refuse_times=100, refuse_status=400, refuse_only=["q2"])
    holdfast("run", http_eval(tmp_path, server.base_url, 3), "--run-dir", "r", code=1)
    status = holdfast.json("status", "r", code=0)
    assert (status["calls"]["answered"], status["calls"]["unanswered"]) == (2, 1)
    assert (status["sessions"][0]["replies"], status["sessions"][0]["unanswered"]) == (2, 1)
    assert status["requests"] == {"sent": 3, "answered": 2, "failed": 1}


def test_steps_18_replies_of_another_run_are_saved_calls(holdfast, server, tmp_path):
    """Steps 18: with their tokens and their cost; also of a session that is killed and resumed, and of a fork."""
    price = {"price": {"input": 1000.0, "output": 1000.0}}
    eval_file = http_eval(tmp_path, server.base_url, 4, model=price)
    holdfast("run", eval_file, "--run-dir", "old", code=0)
    told = holdfast("run", eval_file, "--run-dir", "new", "--reuse", "old", code=0)
    assert "4 replies of other runs were used instead of calls." in told.err
    status = holdfast.json("status", "new", code=0)
    assert status["calls"]["made"] == 0 and status["cost"] == 0.0
    assert status["calls"]["saved"] == {"calls": 4, "tokens": 8, "cost": 0.008}
    assert "(8 tokens, $0.0080)" in " ".join(holdfast("status", "new", code=0).out.split())
    assert server.state()["received"] == 4


CODE = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    draft = await trial.generate(trial.sample.input)
    final = await trial.generate("{}")
    return final.text

@task
def t():
    return Task(samples=[Sample(f"q{{n}}", target="x") for n in range(3)], solver=solve, scorers=[exact()])
"""


def test_steps_18_a_fork_replays_identical_requests_of_the_old_run(holdfast, server, tmp_path):
    """Steps 18: a solver whose second question changed pays for that one alone, whoever resumes the fork."""
    eval_file = python_eval(tmp_path, server.base_url, CODE.format("shorter"))
    holdfast("run", eval_file, "--run-dir", "old", code=0)
    (tmp_path / "task.py").write_text(CODE.format("longer"))
    holdfast("fork", "old", "--config", eval_file, "--run-dir", "new", code=0)
    assert server.state()["received"] == 6
    ended = holdfast("resume", "new", code=0)
    assert "3 replies of other runs were used instead of calls." in ended.err
    assert server.state()["received"] == 9
    status = holdfast.json("status", "new", code=0)
    assert (status["calls"]["made"], status["calls"]["saved"]["calls"]) == (3, 3)


def test_a_killed_session_with_reuse_still_has_it_when_resumed(holdfast, server, tmp_path):
    """The run remembers whose replies it may use; one that has gone is named."""
    eval_file = http_eval(tmp_path, server.base_url, 6)
    holdfast("run", eval_file, "--run-dir", "old", code=0)
    holdfast("run", eval_file, "--run-dir", "new", "--reuse", "old", HOLDFAST_CRASH_AT="frame.acknowledged:3")
    assert holdfast.json("status", "new", code=0)["finished"] < 6
    holdfast("resume", "new", code=0)
    assert server.state()["received"] == 6
    holdfast("run", eval_file, "--run-dir", "third", "--reuse", "old", HOLDFAST_CRASH_AT="frame.acknowledged:3")
    (tmp_path / "old").rename(tmp_path / "elsewhere")
    told = holdfast("resume", "third", code=0)
    assert re.search(r"The replies of the run .*old were to be used, and are not", told.err)


LONGER = """
import os
from holdfast import Sample, Task, exact, task

async def solve(trial):
    await trial.generate("one")
    await trial.generate("two")
    if not os.path.exists("failed"):
        open("failed", "w").close()
        raise ValueError("at its first attempt")
    return (await trial.generate("three")).text

@task
def t():
    return Task(samples=[Sample("q", target="THREE")], solver=solve, scorers=[exact()])
"""


def test_a_retry_that_is_killed_and_comes_further_repeats_only_what_was_bought(holdfast, server, tmp_path):
    """The first attempt had two replies: the third call of the second attempt is a first one, also after a kill."""
    killed_after(holdfast, server, python_eval(tmp_path, server.base_url, LONGER, max_retries=1, fail_fast=False), 3)
    holdfast("resume", "r", code=0)
    status = holdfast.json("status", "r", code=0)
    assert repeated(status) == {"retried": 2, "interrupted": 1}
    assert server.state()["received"] == status["calls"]["made"] == 6


SWAPPED = """
import asyncio, os
from holdfast import Message, Sample, Task, exact, task

async def solve(trial):
    async def ask(number):
        await trial.generate([Message("user", f"b{number}")])
        return (await trial.generate([Message("user", f"c{number}")])).text
    order = [1, 0] if os.path.exists("again") else [0, 1]
    return " ".join(await asyncio.gather(*[ask(number) for number in order]))

@task
def t():
    return Task(samples=[Sample("q", target="x")], solver=solve, scorers=[exact()])
"""


def test_branches_that_change_places_diverge_from_nothing(holdfast, server, tmp_path):
    """Each borrows the reply that the other had; what they ask after that was never asked before."""
    killed_after_two = python_eval(tmp_path, server.base_url, SWAPPED)
    server.behave(hold=True, **{"pass": 2})
    session = holdfast.start("run", killed_after_two, "--run-dir", "r")
    until(lambda: server.state()["received"] == 4, "both branches ask their second question")
    until(lambda: len([one for one in holdfast.records("r", "step") if not one.get("error")]) == 2, "recorded")
    session.send(signal.SIGKILL)
    session.wait()
    server.behave()
    (tmp_path / "again").touch()
    holdfast("resume", "r", code=0)
    status = holdfast.json("status", "r", code=0)
    assert (repeated(status).get("diverged", 0), status["calls"]["unused"]) == (0, 0)
    assert server.worked_on() == {"b0": 1, "b1": 1, "c0": 2, "c1": 2}


def test_a_prompt_that_changes_at_every_resume_repeats_each_place_once(holdfast, server, tmp_path):
    """What was bought in the place of another is not a second place: the first new question is not counted."""
    eval_file = python_eval(tmp_path, server.base_url, TIMED)
    killed_after(holdfast, server, eval_file, 1)
    server.behave(hold=True, **{"pass": 1})
    session = holdfast.start("resume", "r")
    until(lambda: server.state()["received"] == 4, "the second question is held again")
    until(lambda: len([one for one in holdfast.records("r", "step") if not one.get("error")]) == 2, "recorded")
    session.send(signal.SIGKILL)
    session.wait()
    server.behave()
    holdfast("resume", "r", code=0)
    status = holdfast.json("status", "r", code=0)
    # Bought: the first question three times, the second three times (two of them in flight at a kill), the third once.
    assert server.state()["received"] == status["calls"]["made"] == 7
    assert repeated(status) == {"diverged": 2} and status["calls"]["in_flight_at_kill"] == 2


def test_a_draw_that_was_passed_on_twice_is_still_one(holdfast, server, tmp_path):
    """In a fork of a fork, another epoch is another draw: no reply that is kept is given a second time."""
    holdfast("run", http_eval(tmp_path, server.base_url, 2), "--run-dir", "a", code=0)
    holdfast("fork", "a", "--run-dir", "b", code=0)
    holdfast("fork", "b", "--set", "tasks.t.epochs=2", "--run-dir", "c", code=0)
    holdfast("resume", "c", code=0)
    assert server.worked_on() == {"q1": 2, "q2": 2}
