"""Rows 47, 48 and 50: what a resume tries again, what it never does, and what it finds on record."""

from __future__ import annotations

import signal

import pytest

from evals import http_eval, python_eval
from program import until


def test_resume_47_infrastructure_is_tried_again_and_a_bad_grade_never(holdfast, server, tmp_path):
    """A trial that the server failed is asked again by a resume; one that was answered wrongly is not."""
    eval_file = http_eval(tmp_path, server.base_url, 6, retry_deadline=0.01, concurrency_limit=6)
    server.behave(refuse_status=503, refuse_times=1, refuse_only=["q1", "q2"])
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert "4 of 6 valid; 2 got no reply: " in ended.out
    status = holdfast.json("status", "r")
    assert (status["state"], status["finished"], status["remaining"]) == ("incomplete", 4, 2)
    assert holdfast.json("report", "r")["coverage"] == {
        "planned": 6, "finished": 4, "valid": 4, "limited": 0, "blocked": 0, "failed": 0, "unfinished": 2,
        "not_started": 0, "remaining": 2, "remaining_by_reason": {"no reply": 2}, "limited_by_reason": {},
    }  # fmt: skip
    server.behave()
    assert "2 remaining: 2 no reply." in holdfast("resume", "r", code=0).err
    assert server.worked_on() == {f"q{number}": 1 for number in range(1, 7)}
    report = holdfast.json("report", "r")
    assert report["coverage"]["valid"] == 6 and report["complete"]
    assert report["tasks"]["t"]["m"]["metrics"]["exact"]["accuracy"]["value"] == pytest.approx(4 / 6)


RETRIED = """
import os
from holdfast import Answer, Sample, Task, exact, task

async def solve(trial):
    first = await trial.generate("one")
    second = await trial.generate("two")
    if not os.path.exists("well"):
        raise ValueError("not today")
    third = await trial.generate("three")
    return first.text + second.text + third.text

@task
def t():
    return Task(samples=[Sample("a", target="ONETWOTHREE")], solver=solve, scorers=exact())
"""


def test_resume_48_killed_during_a_retry_keeps_every_earlier_step(holdfast, server, tmp_path):
    """The first attempt failed, the second was killed half-way: a resume repeats no step of the second."""
    eval_file = python_eval(tmp_path, server.base_url, RETRIED, max_retries=1, fail_fast=False)
    server.behave(hold=True, **{"pass": 3})
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(answered=3, in_flight=1)
    started.send(signal.SIGKILL)
    started.wait()
    before = [(step["attempt"], step["step"]) for step in holdfast.records("r", "step")]
    assert [attempt for attempt, _ in before] == [1, 1, 2]
    server.behave()
    (tmp_path / "well").touch()
    holdfast("resume", "r", code=0)
    steps = [(step["attempt"], step["step"]) for step in holdfast.records("r", "step")]
    assert steps[:3] == before
    assert [attempt for attempt, _ in steps] == [1, 1, 2, 2, 2]
    last = holdfast.records("r", "trial")[-1]
    assert (last["status"], last["attempt"], last["replayed"]) == ("valid", 2, 1)
    # Each attempt asked for one and two; what was in flight at the kill was asked once more.
    assert [count for _, count in sorted(server.worked_on().items())] == [2, 1, 3]


BROKEN_SCORER = """
import os, time
from holdfast import Sample, Task, generate, scorer, task

@scorer
def first(answer, sample):
    return True

@scorer
async def second(answer, sample):
    open("asked", "a").write("x")
    if os.path.exists("well"):
        return True
    if os.path.getsize("asked") == 1:
        raise ValueError("not today")
    time.sleep(3600)

@task
def t():
    return Task(samples=[Sample("a")], solver=generate(), scorers=[first, second])
"""


def test_resume_48_an_answer_outlives_attempts_in_which_only_a_scorer_broke(holdfast, server, tmp_path):
    """However often a scorer breaks or is killed, the model is asked once."""
    eval_file = python_eval(tmp_path, server.base_url, BROKEN_SCORER)
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    asked = tmp_path / "asked"
    until(lambda: asked.exists() and asked.stat().st_size == 2, "the scorer is asked a second time")
    until(lambda: len(holdfast.records("r", "score")) == 2, "a judgement and a failed attempt at one are on record")
    started.send(signal.SIGKILL)
    started.wait()
    (tmp_path / "well").touch()
    holdfast("resume", "r", code=0)
    assert server.worked_on() == {"a": 1}
    assert holdfast.json("report", "r")["usage"]["output_tokens"] == 1


BRANCHES = """
import asyncio, os, random
from holdfast import Answer, Sample, Task, exact, task

async def branch(trial, name):
    texts = []
    for number in (1, 2, 3):
        await asyncio.sleep(random.random() * 0.02)
        texts.append((await trial.generate(f"{name} {number}")).text)
    return texts[-1]

async def solve(trial):
    names = ["a", "b"]
    random.shuffle(names)
    found = await asyncio.gather(*(branch(trial, name) for name in names))
    while not os.path.exists("well"):
        open("all", "w").close()
        await asyncio.sleep(0.01)
    return " ".join(sorted(found))

@task
def t():
    return Task(samples=[Sample("x", target="A 3 B 3")], solver=solve, scorers=exact())
"""


def test_resume_50_branches_replay_in_whatever_order_they_arrive(holdfast, server, tmp_path):
    """Two branches with three calls each, all on record: a resume calls no model."""
    started = holdfast.start("run", python_eval(tmp_path, server.base_url, BRANCHES), "--run-dir", "r")
    until((tmp_path / "all").exists, "all calls have been made")
    started.send(signal.SIGKILL)
    started.wait()
    assert server.state()["received"] == 6
    (tmp_path / "well").touch()
    holdfast("resume", "r", code=0)
    assert server.state()["received"] == 6
    end = holdfast.records("r", "trial")[-1]
    assert (end["scores"], end["replayed"], end.get("calls", 0)) == ({"exact": 1.0}, 6, 0)
    calls = holdfast.json("status", "r")["calls"]
    # All replies were durable; but what a killed process did last may not be on record, so the bound is how many calls
    # it ever let out at once: two, or one where they never met.
    assert (calls["made"], calls["replayed"], calls["in_flight_at_kill"] in {1, 2}) == (6, 6, True)
