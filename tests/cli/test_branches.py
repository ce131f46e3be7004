"""Rows 1 to 3b of the steps with real processes, a real server and real kills: branches keep their replies."""

from __future__ import annotations

import json
import signal

import pytest

from evals import python_eval

TASK = """
import asyncio, os, random, signal
from pathlib import Path
from holdfast import Message, Sample, Task, includes, task

SAME = [Message("user", "the same question")]

async def branch(trial, number, seen):
    rng = random.Random(os.getpid() * 100 + number)
    await asyncio.sleep(rng.random() * 0.2)
    first = (await trial.generate(SAME)).text
    await asyncio.sleep(rng.random() * 0.2)
    second = (await trial.generate([Message("user", f"more about {first}")])).text
    seen[number] = [first, second]
    return seen[number]

async def solve(trial):
    seen = {}
    async def all_of_them():
        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(branch(trial, number, seen))
        return await asyncio.gather(*(asyncio.wait_for(branch(trial, number, seen), 60) for number in (4, 5)))
    await all_of_them()
    with Path("seen").open("a") as file:
        file.write(repr(sorted(seen.items())) + "\\n")
    if not Path("go-on").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"

@task
def t():
    return Task(samples=[Sample("q", target="done")], solver=solve, scorers=includes())
"""


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_steps_1_and_2_all_recorded_and_killed(holdfast, server, tmp_path, host):
    """By name the client resolves in tasks of its own, and on replay there are none: no call is made all the same."""
    server.behave(drawing=True)
    base_url = server.base_url.replace("127.0.0.1", host)
    assert holdfast("run", python_eval(tmp_path, base_url, TASK), "--run-dir", "r").code == -signal.SIGKILL
    assert server.state()["received"] == 12
    (tmp_path / "go-on").touch()
    holdfast("resume", "r", code=0)
    first, second = (tmp_path / "seen").read_text().splitlines()
    assert (server.state()["received"], first) == (12, second)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize("frames", [3, 6, 9])
def test_steps_2_and_3b_some_recorded_and_killed(holdfast, server, tmp_path, host, frames):
    """Only calls in flight are made again, and every reply on record stays with its branch."""
    server.behave(drawing=True)
    (tmp_path / "go-on").touch()
    base_url = server.base_url.replace("127.0.0.1", host)
    crash = f"frame.acknowledged:{frames}"
    killed = holdfast("run", python_eval(tmp_path, base_url, TASK), "--run-dir", "r", HOLDFAST_CRASH_AT=crash)
    assert killed.code == -signal.SIGKILL
    server.wait_until_idle()
    before = {step["step"]: step["result"]["text"] for step in holdfast.records("r", "step")}
    sent = server.state()["received"]
    holdfast("resume", "r", code=0)
    steps = holdfast.records("r", "step")
    after = {step["step"]: step["result"]["text"] for step in steps}
    assert {key: after[key] for key in before} == before
    assert server.state()["received"] == sent + 12 - len(before)
    assert len(after) == 12 and not any(step.get("lender") for step in steps)
    seen = json.loads((tmp_path / "seen").read_text().replace("(", "[").replace(")", "]").replace("'", '"'))
    assert len({text for _, pair in seen for text in pair}) == 12
