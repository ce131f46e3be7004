"""The lineage of a run: what each session changed, finished, called and may have paid twice, and how it ended."""

from __future__ import annotations

import re
import signal

import pytest
from gate_world import MODEL

from holdfast import Run

KEYS = {
    "number", "started_at", "ended_at", "ended_as", "exit_code", "calls", "replies", "unanswered", "repeated",
    "refused_model", "in_flight_at_kill", "finished", "changes", "failures",
}  # fmt: skip


def over_http(world, server, **keys):
    world.data["models"]["m"] = {"provider": "openai", "model": "counting", "base_url": server.base_url}
    world.data |= {"concurrency_limit": 2, **keys}
    world.task["target"] = "x"


def test_every_session_is_told_with_its_end(holdfast, server, world):
    """Killed, interrupted, incomplete without a failed trial, completed: each with what it did, in order."""
    over_http(world, server, retry_deadline=0.01, grace_period=0)
    server.behave(hold=True, **{"pass": 1})
    started = holdfast.start("run", world.write(), "--run-dir", "r")
    server.wait_for(answered=1, in_flight=2)
    started.kill()
    started = holdfast.start("resume", "r", "--set", "concurrency_limit=1")
    server.wait_for(received=4)
    started.send(signal.SIGINT)
    assert started.wait().code == 130
    server.behave(refuse_status=503, refuse_times=100, refuse_only=["q4"])
    assert holdfast("resume", "r", "--set", "grace_period=5").code == 1
    server.behave()
    holdfast("resume", "r", code=0)
    status = world.status()
    sessions = status["sessions"]
    assert all(set(session) == KEYS for session in sessions)
    assert [session["ended_as"] for session in sessions] == [
        "killed",
        "interrupted",
        "incomplete",
        "completed",
    ]
    assert [session["exit_code"] for session in sessions] == [None, 130, 1, 0]
    assert [session["finished"] for session in sessions] == [1, 0, 2, 1]
    assert [session["in_flight_at_kill"] for session in sessions] == [2, 1, 0, 0]
    assert [[change["path"] for change in session["changes"]] for session in sessions] == [
        [],
        ["runner.concurrency_limit"],
        ["runner.grace_period"],
        [],
    ]
    assert [bool(session["ended_at"]) for session in sessions] == [False, True, True, True]
    assert status["calls"]["in_flight_at_kill"] == 3
    assert status["calls"]["made"] == sum(session["calls"] for session in sessions)
    # What was worked on beyond once is at most what was in flight when a session ended.
    repeated = sum(count - 1 for count in server.worked_on().values())
    assert repeated <= 3


def test_a_running_session_is_told_as_such(holdfast, server, world):
    """While it works nothing of it counts as lost."""
    over_http(world, server)
    server.behave(hold=True)
    started = holdfast.start("run", world.write(), "--run-dir", "r")
    server.wait_for(in_flight=2)
    status = world.status()
    assert status["state"] == "running" and str(started.pid) in status["held_by"]
    assert (status["sessions"][0]["ended_as"], status["sessions"][0]["in_flight_at_kill"]) == ("running", 0)
    server.behave()
    assert started.wait().code == 0
    assert world.status()["sessions"][0]["ended_as"] == "completed"


def test_the_lineage_in_python_is_the_same(world):
    """Run.lineage gives what status gives."""
    world.data["concurrency_limit"] = 8
    world.run()
    world("resume", "r", "--set", "concurrency_limit=2", code=0)
    world.data |= {"concurrency_limit": 2, "models": {"m": MODEL, "n": MODEL}}
    world.resume(code=0)
    with Run.open("r") as run:
        lineage = run.lineage
    assert [session.number for session in lineage] == [1, 2, 3]
    assert [session.finished for session in lineage] == [4, 0, 4]
    assert [session.calls for session in lineage] == [4, 0, 4]
    paths = [[change.path for change in session.changes] for session in lineage]
    assert paths == [[], ["runner.concurrency_limit"], ["models.n", "tasks.t.models"]]
    assert lineage[1].changes[0].old == 8 and lineage[1].changes[0].new == 2


def test_the_text_of_status_tells_changes_and_ends(world):
    """A person reads the same lineage, one line a session and one a change."""
    world.data["concurrency_limit"] = 8
    world.begin()
    world("resume", "r", "--set", "concurrency_limit=2", code=0)
    told = world("status", "r", code=0).out
    assert re.search(r"\n +1  .*  killed .*\n +2  .*  completed .*\n +runner.concurrency_limit: 8 → 2\n", told)


def test_replays_are_counted_by_the_session_that_made_them(holdfast, server, world):
    """A reply that was on record is no call: it is counted as replayed."""
    (world.directory / "task.py").write_text(
        "from holdfast import Sample, Task, task\n"
        "async def solve(trial):\n"
        "    await trial.generate('one')\n"
        "    return await trial.generate('two')\n"
        "@task\n"
        "def t():\n"
        "    return Task(samples=[Sample('a')], solve=solve, score=lambda answer, sample: True)\n"
    )
    over_http(world, server)
    world.data |= {"tasks": {"t": {"use": "task.py:t"}}, "datasets": {}}
    server.behave(hold=True, **{"pass": 1})
    started = holdfast.start("run", world.write(), "--run-dir", "r")
    server.wait_for(answered=1, in_flight=1)
    started.kill()
    server.behave()
    holdfast("resume", "r", code=0)
    calls = world.status()["calls"]
    assert (calls["made"], calls["replayed"], calls["in_flight_at_kill"]) == (3, 1, 1)
    assert calls["repeated"] == {"retried": 0, "diverged": 0, "interrupted": 1, "takeover": 0}


@pytest.mark.parametrize("verb", ["status", "report", "show", "verify", "cat", "diff"])
def test_looking_at_a_run_changes_nothing(world, verb):
    """No verb that reads writes into the run, not even an index."""
    world.run()
    (world.run_dir / "index.sqlite").unlink()
    before = world.everything()
    world(verb, "r", *(["eval.yaml"] if verb == "diff" else []), code=0)
    assert world.everything() == before
