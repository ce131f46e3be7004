"""Rows 41, 46 and 51: killed at any moment, nothing acknowledged is lost and nothing is paid for twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from durable import pieces, segment_paths
from evals import write_dataset, write_eval
from killing import Campaign
from observed import ACKS, acknowledged
from observed import __file__ as witnessed
from program import until


def test_resume_41_killed_at_random_moments_the_grid_is_finished(observed, server, tmp_path):
    """After every SIGKILL each acknowledged trial stands once, and only what was in flight is asked again."""
    campaign = Campaign(observed, server, tmp_path, trials=60, limit=6, seed=random.SystemRandom().randrange(2**32))
    campaign.run(kills=10, most_seconds=30, latency=0.02)
    assert campaign.kills > 2


PRICE = {"input": 0.15, "output": 0.6}
TASK_FILE = """
import asyncio, random
from holdfast import Sample, Task, includes, task

async def branch(trial, name):
    return (await trial.generate(f"{name} of {trial.sample.input}")).text

async def solve(trial):
    first = await trial.generate(trial.sample.input)
    count = await trial.step("count", len, first.text)
    parts = await asyncio.gather(*(branch(trial, f"part {number} " * number) for number in range(1, 4)))
    return f"{count} {parts}"

@task
def own():
    return Task(samples=[Sample(f"word {number} " * number, target="3") for number in range(1, 13)], solver=solve,
                scorers=includes())
"""


def scripted_eval(directory):
    """An eval with axes, epochs, prices, several scorers, rate limits and a task in Python."""
    write_dataset(directory, 12)
    (directory / "own.py").write_text(TASK_FILE)
    errors = [{"contains": "q1", "rate_limited": {"times": 1, "retry_after": 0.01}}]
    args = {"latency": {"seconds": 0.05, "jitter": 0.05}, "errors": errors}
    model = {"provider": "scripted", "model": "echo", "args": args, "price": PRICE}
    prompts = {"plain": "{question}", "polite": "Please: {question}"}
    scorers = ["exact", {"regex": {"pattern": "q([0-9]+)"}}]
    task = {"dataset": "rows", "prompt": prompts, "target": "{question}", "epochs": 2, "scorers": scorers}
    data = {
        "name": "same",
        "concurrency_limit": 3,
        "models": {"m": model, "n": {"base": "m", "price": {"input": 1.0, "output": 3.0}}},
        "datasets": {"rows": {"path": "rows.jsonl"}},
        "tasks": {"declared": task, "own": {"use": "own.py:own"}},
    }
    return write_eval(directory, data)


def comparable(observed, run) -> bytes:
    """The report's bytes without its sections of timing and lineage."""
    report = json.loads(observed("report", run, "--json", code=0).out)
    del report["timing"], report["lineage"]
    return json.dumps(report).encode()


def test_a_kill_that_may_have_cost_something_is_in_the_lineage_of_the_report(holdfast, tmp_path):
    """`status` says "at least"; the report says the same under its lineage, for its cost is that of any other run."""
    model = {"provider": "scripted", "model": "echo", "price": {"input": 1.0, "output": 1.0}}
    write_dataset(tmp_path, 6)
    task = {"dataset": "rows", "prompt": "{question}", "target": "{question}", "scorers": ["exact"]}
    data = {"models": {"m": model}, "datasets": {"rows": {"path": "rows.jsonl"}}, "tasks": {"t": task}}
    eval_file = write_eval(tmp_path, {**data, "concurrency_limit": 2})
    holdfast("run", eval_file, "--run-dir", tmp_path / "whole", code=0)
    killed = tmp_path / "killed"
    assert holdfast("run", eval_file, "--run-dir", killed, HOLDFAST_CRASH_AT="frame.acknowledged:4").code == -9
    line = "lineage: up to 2 calls in flight when the process was killed may have been billed beside this cost"
    assert line in holdfast("report", killed, code=0).out
    holdfast("resume", killed, code=0)
    assert "at least" in holdfast("status", killed).out
    reports = [json.loads(holdfast("report", run, "--json", code=0).out) for run in (killed, tmp_path / "whole")]
    assert [entry.get("in_flight_at_kill") for entry in reports[0].pop("lineage")] == [2, None]
    assert [entry.get("in_flight_at_kill") for entry in reports[1].pop("lineage")] == [None]
    assert [report.pop("timing") for report in reports] and reports[0] == reports[1]
    assert line in holdfast("report", killed).out and "lineage" not in holdfast("report", tmp_path / "whole").out


def test_resume_46_report_is_the_same_after_20_interrupts(observed, tmp_path):
    """Stopped twenty times by any signal at any moment, a run reports what an undisturbed one does, byte for byte."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    eval_file = scripted_eval(tmp_path)
    clean = observed("run", eval_file, "--run-dir", "clean", "--set", "concurrency_limit=50", code=0)
    assert "Complete: 120 of 120" in clean.out
    command = ("run", eval_file, "--run-dir", "torn", "--or-resume")
    codes = []
    for _ in range(20):
        process = observed.start(*command)
        if rng.random() < 0.7:
            until(lambda process=process: not process.is_running or "trials" in process.told(), "a session begins")
        time.sleep(rng.uniform(0.0, 0.15))
        process.send(rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM]))
        ended = process.wait()
        assert ended.code != 0, ended
        codes.append(ended.code)
    print(codes)
    assert "120 of 120" in observed(*command, code=0).out
    assert comparable(observed, "torn") == comparable(observed, "clean")
    report = json.loads(observed("report", "torn", "--json").out)
    assert len(report["lineage"]) > 1
    assert report["cost"] > 0
    kept = [record["trial"] for record in observed.records("torn") if record["type"] == "trial"]
    assert len(kept) == len(set(kept)) == 120


def observed_run(directory, *arguments, crash_at=""):
    """The program with its witness, killed at a crash point."""
    environment = {**os.environ, ACKS: str(directory / "acks"), "HOLDFAST_CRASH_AT": crash_at}
    command = [sys.executable, witnessed, *arguments]
    process = subprocess.run(command, cwd=directory, env=environment, check=False)
    assert process.returncode == (-signal.SIGKILL if crash_at else 0)


def unsynced_run(holdfast, tmp_path, point):
    """A run killed with its last frame whole and not synced; the trials that it acknowledged."""
    write_dataset(tmp_path, 20)
    task = {"dataset": "rows", "prompt": "{question}", "target": "{question}", "scorers": ["exact"]}
    model = {"provider": "scripted", "model": "echo", "args": {"latency": {"seconds": 0.002, "jitter": 0.01}}}
    data = {"models": {"m": model}, "datasets": {"rows": {"path": "rows.jsonl"}}, "tasks": {"t": task}}
    eval_file = write_eval(tmp_path, {**data, "concurrency_limit": 3})
    observed_run(tmp_path, "run", eval_file, "--run-dir", "r", crash_at=point)
    return acknowledged(tmp_path / "acks")


def lose_last_frame(path):
    """What a power loss does to a frame that was written and never synced."""
    data = path.read_bytes()
    path.write_bytes(data[: pieces(data)[-1].start])


def finished(holdfast, run):
    """The trials with a final record, of a run in any state."""
    records = [json.loads(line) for line in holdfast("cat", run).out.splitlines()]
    ends = [record["trial"] for record in records if record["type"] == "trial"]
    assert len(ends) == len(set(ends))
    return set(ends)


@pytest.mark.parametrize("number", [10, 20])
def test_resume_51_power_loss_takes_nothing_that_was_acknowledged(holdfast, tmp_path, number):
    """A frame that was not synced held nothing that anybody was told is finished."""
    acks = unsynced_run(holdfast, tmp_path, f"frame.written:{number}")
    lose_last_frame(segment_paths(tmp_path / "r")[-1])
    kept = [end["trial"] for end in holdfast.records("r", "trial")]
    assert acks and set(acks) <= set(kept)
    holdfast("resume", "r", code=0)
    ends = [end["trial"] for end in holdfast.records("r", "trial")]
    assert len(set(ends)) == len(ends) == 20
    assert holdfast.json("verify", "r", code=0)["ok"]


def test_resume_51_a_resume_writes_doubtful_frames_again_before_it_counts_them(holdfast, tmp_path):
    """What the next session counted stays counted though the frame it came from is lost afterwards."""
    unsynced_run(holdfast, tmp_path, "frame.written:12")
    doubtful = segment_paths(tmp_path / "r")[-1]
    observed_run(tmp_path, "resume", "r", crash_at="session.opened")
    counted = {end["trial"] for end in holdfast.records("r", "trial")}
    lose_last_frame(doubtful)
    assert finished(holdfast, "r") >= counted
    holdfast("resume", "r", code=0)
    assert len(finished(holdfast, "r")) == 20
