"""Sampling 26 and 31, end to end: report, show and status of runs that have sampled, killed or not."""

from __future__ import annotations

import json
import re
import signal

import pytest

from evals import http_eval, python_eval
from holdfast.sampling.strategies.repair import _ONCE_MORE, _UNMET

TASK = """
import re
from holdfast import Sample, Task, exact, task
from holdfast.sampling import Repair, function

def obeys(text):
    wanted = int(re.search(r"Q(\\d+)", text)[1]) % 4
    if wanted and "SAY ONE" not in text and "SAY TWO" not in text:
        return "say one"
    if wanted >= 2 and "SAY TWO" not in text:
        return "say two"
    return "say nothing" if wanted == 3 else True

async def solve(trial):
    strategy = Repair(loop_budget=3, concurrency_budget=2, selection="best", requirements=[function(obeys, id="obeys")])
    return await trial.generate(trial.sample.input, strategy=strategy)

@task
def t():
    samples = [Sample(f"q{n}", target=f"Q{n}", id=f"s{n}") for n in range(8)]
    return Task(samples=samples, solver=solve, scorers=exact())
"""
CALLS = 2 * 2 * (1 + 2 + 3 + 3)
"""Two lanes, two samples of each kind, so many turns."""


def report_of(holdfast) -> dict:
    found = holdfast("report", "r", "--json", code=0).json
    return {name: value for name, value in found.items() if name not in {"timing", "lineage"}}


@pytest.fixture
def eval_file(tmp_path, server):
    return python_eval(tmp_path, server.base_url, TASK, concurrency_limit=2)


def test_sampling_31_report_status_and_progress_count_every_lane(holdfast, server, eval_file):
    """The same figures everywhere, and those of the server."""
    ended = holdfast("run", eval_file, "--run-dir", "r", code=0)
    report = report_of(holdfast)
    found = report["tasks"]["t"]["m"]["sampling"]
    assert (found["samplings"], found["successes"], found["success_by_turn"]) == (8, 6, [0.25, 0.5, 0.75])
    assert (found["mean_turns"], found["strategies"], found["capped"]) == (2.25, {"repair": 8}, {})
    assert found["candidates"] == {"invalid": CALLS - 12, "valid": 12}
    assert found["calls"] == CALLS == server.state()["answered"]
    status = holdfast("status", "r", "--json", code=0).json
    assert status["samplings"] == {"count": 8, "successes": 6, "capped": 0}
    assert status["calls"]["made"] == CALLS
    tokens = report["usage"]["input_tokens"] + report["usage"]["output_tokens"]
    assert f"{tokens:,} tokens" in ended.err
    lost = found["losers"]["usage"]
    assert found["losers"]["share"] == (lost["input_tokens"] + lost["output_tokens"]) / tokens > 0.5


@pytest.mark.parametrize("replies", [1, 5, 13, CALLS - 1])
def test_sampling_26_a_kill_changes_no_byte_of_the_report(holdfast, server, eval_file, replies):
    """Losers are counted once; meanwhile `show` has what is on record."""
    server.behave(hold=True, **{"pass": replies})
    session = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(answered=replies, received=replies + 1)
    session.send(signal.SIGKILL)
    session.wait()
    drawn = 0
    for row in holdfast("show", "r", "--json", code=0).json["trials"]:
        found = holdfast("show", "r", row["trial"], "--json", code=0).json.get("samplings", [])
        assert all(one["choice"] is not None for one in found if row["state"] == "valid")
        assert holdfast("show", "r", row["trial"], code=0).out.count("── sampling 1 ") == len(found) <= 1
        drawn += sum(one["text"] is not None for sampling in found for one in sampling["candidates"])
    # Each of the two lanes of two trials may not have lived to record its last reply.
    assert replies - 4 <= drawn <= replies
    server.behave()
    holdfast("resume", "r", code=0)
    killed = report_of(holdfast)
    holdfast("run", eval_file, "--run-dir", "whole", code=0)
    whole = holdfast("report", "whole", "--json", code=0).json
    assert killed == {name: value for name, value in whole.items() if name in killed}


def test_sampling_31_show_has_lanes_and_turns(holdfast, eval_file):
    """As a person reads them, in 80 columns."""
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    out = holdfast("show", "r", "s2", code=0).out
    grid = out.partition("── sampling 1 (repair, attempt 1): 2 lanes, 3 turns\n")[2]
    assert re.search(
        r"^ +lane 0 +lane 1\n  turn 0  invalid +invalid\n +failed: obeys +failed: obeys\n +Q2 +Q2$", grid, re.MULTILINE
    )
    assert re.search(r"^  turn 2  valid ← chosen +valid$", grid, re.MULTILINE)
    (sampling,) = json.loads(holdfast("show", "r", "s2", "--json", code=0).out)["samplings"]
    assert [one["turn"] for one in sampling["candidates"]] == [0, 0, 1, 1, 2, 2]
    assert len({one["seed"] for one in sampling["candidates"]}) == 6


def test_sampling_31_an_eval_file_is_enough(holdfast, server, tmp_path):
    """A task with `sampling:` and no Python is in every verb."""
    sampling = {
        "strategy": "repair",
        "loop_budget": 3,
        "concurrency_budget": 2,
        "selection": "best",
        "requirements": [{"includes": {"text": "ONCE MORE", "id": "again"}}],
    }
    eval_file = http_eval(tmp_path, server.base_url, 3, task={"sampling": sampling})
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    found = report_of(holdfast)["tasks"]["t"]["m"]["sampling"]
    assert (found["samplings"], found["success_by_turn"], found["calls"]) == (3, [0.0, 1.0], 12)
    assert found["candidates"] == {"invalid": 6, "valid": 6} and found["losers"]["cost"] is None
    assert "sampling (repair): 3 of 3 succeeded" in holdfast("report", "r", code=0).out
    assert "sampling 3 of 3 succeeded" in holdfast("status", "r", code=0).out
    assert "failed: again" in holdfast("show", "r", "s1", code=0).out


LANES = """
from holdfast import Sample, Task, exact, task
from holdfast.sampling import Repair, current_place, function

def said_again(text):
    return True if "ONCE MORE" in text else f"lane {current_place().lane}"

async def solve(trial):
    strategy = Repair(loop_budget=2, concurrency_budget=2, selection="best", requirements=[function(said_again)])
    return await trial.generate(trial.sample.input, strategy=strategy)

@task
def t():
    return Task(samples=[Sample(f"q{n}", target="", id=f"s{n}") for n in range(3)], solver=solve, scorers=exact())
"""


def test_sampling_6_a_session_warns_once_of_lanes_that_fail_beside_a_success(holdfast, server, tmp_path):
    """One line for the task, however many trials; `show` has the error of each."""
    refused = [f"q{n}\n\n{_UNMET}\n* lane 0\n{_ONCE_MORE}" for n in range(3)]
    server.behave(refuse_only=refused, refuse_status=400, refuse_times=99, said="not this lane")
    eval_file = python_eval(tmp_path, server.base_url, LANES)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=0)
    assert ended.err.count("a sampling succeeded although a lane of it failed with an error") == 1
    found = report_of(holdfast)["tasks"]["t"]["m"]["sampling"]
    assert (found["successes"], found["candidates"]) == (3, {"error": 3, "invalid": 6, "valid": 3})
    for number in range(3):
        out = holdfast("show", "r", f"s{number}", code=0).out
        assert "chosen: lane 1, turn 1" in out and "lane 0, turn 1: rejected: " in out
        assert "not this lane" in out
