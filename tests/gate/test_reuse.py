"""`run --reuse`: an identical request that another run has on record is not made again."""

from __future__ import annotations

import json

import pytest
from gate_world import MODEL

from holdfast.run.fold.reader import RunReader

DRAWN = {"provider": "scripted", "model": "dice", "args": {"default": ["one", "two", "three", "four", "five", "six"]}}


def reused(world, *runs, name="n", code=0, words=()):
    """A run of the eval as it is now that may reuse these runs; its steps."""
    given = [word for run in runs for word in ("--reuse", run)]
    told = world("run", world.write(), "--run-dir", name, *given, *words, code=code)
    return told, steps_of(world, name)


def steps_of(world, name):
    lines = world("cat", name, code=0).out.splitlines()
    return [record for record in map(json.loads, lines) if record["type"] == "step"]


def run_id(world, name):
    reader = RunReader(world.directory / name)
    reader.close()
    return reader.run.hex()


def test_identical_requests_are_not_made_again(world):
    """Every reply comes from the other run, costs nothing, and says so on its step."""
    world.model["price"] = {"input": 1, "output": 1}
    world.run()
    world.task["scorers"] = ["includes"]
    told, steps = reused(world, "r")
    assert "4 replies of other runs were used instead of calls." in told.err
    assert {step["source"] for step in steps} == {run_id(world, "r")}
    assert not any("cost" in step for step in steps)
    status = world.json("status", "n")
    assert (status["state"], status["calls"]["made"], status["calls"]["replayed"]) == ("complete", 0, 4)
    report = world.json("report", "n")
    assert report["complete"] and report["cost"] == 0
    assert world.json("verify", "n", code=0)["ok"]
    originals = {step["step"]: step["result"] for step in steps_of(world, "r")}
    assert {step["step"]: step["result"] for step in steps} == originals


def test_other_requests_are_made(world):
    """Only what is identical is taken: a new prompt, sample or generation is asked."""
    world.run()
    world.rows[0]["question"] = "another"
    _, steps = reused(world, "r")
    assert sum("source" in step for step in steps) == 3
    world.model["generation"] = {"max_tokens": 5}
    _, steps = reused(world, "r", name="o")
    assert not any("source" in step for step in steps)


@pytest.mark.parametrize("change", ["model", "args", "headers", "provider"])
def test_a_model_of_another_name_is_not_reused(world, change):
    """The same words put to another model are another request, whatever the model is called in the eval."""
    world.run()
    changed = {
        "model": {"model": "other", "args": {"default": "x"}},
        "args": {"args": {"default": "x"}},
        "headers": {"headers": {"X-Route": "a"}},
        "provider": {"provider": "openai", "base_url": "http://127.0.0.1:9/v1", "timeouts": {"connect": 0.01}},
    }
    world.data |= {"retry_deadline": 0.01} if change == "provider" else {}
    world.model.update(changed[change])
    _, steps = reused(world, "r", code=1 if change == "provider" else 0)
    assert not any(step.get("source") for step in steps)


def test_the_same_model_under_another_name_is_reused(world):
    """What counts is what a model is, not what the eval calls it or where it is reached."""
    world.run()
    world.data["models"] = {"other": {**MODEL, "concurrency_limit": 2}}
    _, steps = reused(world, "r")
    assert all(step["source"] for step in steps) and {step["model"] for step in steps} == {"other"}


def test_repeats_stay_different_draws(world):
    """A recorded reply serves one trial: the third of three epochs is asked where two are on record."""
    world.task["epochs"] = 2
    world.run()
    world.task["epochs"] = 3
    _, steps = reused(world, "r")
    assert sum(bool(step.get("source")) for step in steps) == 8
    assert world.json("status", "n")["calls"]["made"] == 4


def test_a_reply_that_two_runs_share_is_one_draw(world):
    """A run that took its replies from another adds nothing to them."""
    world.run()
    reused(world, "r", name="n")
    world.task["epochs"] = 2
    _, steps = reused(world, "r", "n", name="o")
    assert sum(bool(step.get("source")) for step in steps) == 4
    assert world.json("status", "o")["calls"]["made"] == 4


def test_reuse_goes_on_after_a_kill(holdfast, world):
    """A reply that an earlier session took is not taken again: each trial has a draw of its own."""
    world.task["epochs"] = 2
    world.data["concurrency_limit"] = 1
    world.run()
    command = ("run", world.write(), "--run-dir", "n", "--or-resume", "--reuse", "r")
    assert holdfast(*command, HOLDFAST_CRASH_AT="frame.acknowledged:6").code == -9
    early = len(steps_of(world, "n"))
    assert 0 < early < 8
    holdfast(*command, code=0)
    steps = steps_of(world, "n")
    assert len(steps) == 8 and all(step["source"] for step in steps)
    draws = [(step["step"].rpartition("#")[0], step["at"], step["seconds"]) for step in steps]
    assert len(set(draws)) == 8
    status = world.json("status", "n")
    assert (status["state"], status["calls"]["made"]) == ("complete", 0)


def test_calls_that_came_to_nothing_are_not_reused(world):
    """What failed elsewhere is asked here."""
    world.data["retry_deadline"] = 0.01
    world.model["args"] = {"errors": [{"contains": "q1", "unavailable": {}}]}
    world.run(code=1)
    told, steps = reused(world, "r", code=1)
    assert "3 replies of other runs were used instead of calls." in told.err
    assert sum(bool(step.get("source")) for step in steps) == 3


CHAIN = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    first = await trial.generate("one")
    second = await trial.generate(f"two {first.text}")
    return second.text

@task
def t():
    return Task(samples=[Sample("a", target="two one")], solver=solve, scorers=exact())
"""


def test_conversations_are_reused_turn_by_turn(world):
    """A step that goes on with a conversation is found by the whole of it, and its transcript is as it was."""
    (world.directory / "task.py").write_text(CHAIN)
    world.data |= {"tasks": {"t": {"use": "task.py:t"}}, "datasets": {}}
    world.run()
    _, steps = reused(world, "r")
    assert len(steps) == 2 and all(step["source"] for step in steps)
    assert world("show", "n", world.json("show", "n")["trials"][0]["trial"]).out


def test_reuse_of_what_is_no_run_is_refused_first(world):
    """A run that is not there is named before anything is written."""
    world.write()
    told = world("run", "eval.yaml", "--run-dir", "n", "--reuse", "nowhere", code=2)
    assert "nowhere" in told.err and not (world.directory / "n").exists()


def test_drawn_replies_keep_their_trials_apart(world):
    """With a model that draws, the figures of a reused run are those of the run it reuses."""
    world.data["models"]["m"] = DRAWN
    world.task.update(epochs=3, target="one", scorers=["exact"])
    world.run()
    reused(world, "r")
    assert world.json("report", "n")["tasks"] == world.report()["tasks"]
