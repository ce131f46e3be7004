"""Prices are used when reading: they may be corrected on resume, unless a limit on cost makes them part of the work."""

from __future__ import annotations

import pytest

from holdfast import Sample, Task, TrialLimits, evaluate, exact, generate
from holdfast.errors import ResumeAborted

DEAR, CHEAP = {"input": 1e6, "output": 1e6}, {"input": 5e5, "output": 5e5}
"""A trial of the world takes a word and gives a word: it costs 2 and 1."""


def rows_cost(world) -> list[float | None]:
    return [row["cost"] for row in world.json("show", "r", code=0)["trials"]]


def test_a_corrected_price_counts_for_what_was_spent_before(world):
    """Nothing is asked again: the new price is on record, and the cost of all trials is worked out by it."""
    world.model["price"] = DEAR
    world.run()
    assert (world.report()["cost"], world.status()["cost"], rows_cost(world)) == (8.0, 8.0, [2.0] * 4)
    world.model["price"] = CHEAP
    assert world.json("diff", "r", world.write(), code=0)["differences"][0]["drift"] == "derived"
    world.resume(code=0)
    world.check_complete(4)
    assert (world.report()["cost"], world.status()["cost"], rows_cost(world)) == (4.0, 4.0, [1.0] * 4)
    assert world.report()["tasks"]["t"]["m"]["cost"] == 4.0
    changed = [(change["path"], change["old"], change["new"]) for change in world.status()["sessions"][-1]["changes"]]
    assert changed == [("models.m.price.input", 1e6, 5e5), ("models.m.price.output", 1e6, 5e5)]
    assert world.entries == [f"models.m.price.{kind}: 1000000.0 → 500000.0" for kind in ("input", "output")]


def test_a_price_may_be_given_later_and_taken_back(world):
    """Without one the cost is null; the first one that is given counts for everything."""
    world.run()
    assert (world.report()["cost"], rows_cost(world)) == (None, [None] * 4)
    assert "cost" not in world("status", "r").out
    world.resume("--set", "models.m.price={input: 500000, output: 500000}", code=0)
    assert (world.report()["cost"], world.json("show", "r", "--where", "cost=1")["matching"]) == (4.0, 4)
    world.resume("--set", "models.m.price=null", code=0)
    assert world.report()["cost"] is None


def test_a_price_may_change_while_trials_remain(world):
    """The trials of both sessions cost what the newest price says."""
    world.model["price"] = DEAR
    world.task["limit"] = 2
    world.run()
    world.model["price"] = CHEAP
    world.task["limit"] = 4
    world.resume(code=0)
    world.check_complete(4)
    assert world.report()["cost"] == 4.0


def test_a_price_is_part_of_the_work_where_cost_is_limited(world):
    """There it decides how a trial ends: another one is refused, and so is none."""
    world.model["price"] = CHEAP
    world.task["limits"] = {"cost": 100}
    world.run()
    world.model["price"] = DEAR
    told = world.refused()
    assert "models.m.price.input (identity): 500000.0 → 1000000.0" in told and "`holdfast fork`" in told
    del world.model["price"]
    assert "models.m.price (identity)" in world.refused()
    assert world.json("diff", "r", world.write(), code=3)["refused"]
    world.model["price"] = CHEAP
    world.data["models"]["other"] = {"provider": "scripted", "model": "echo", "price": DEAR}
    world.task["models"] = ["m"]
    world.resume(code=0)


def test_a_limit_in_python_counts_as_well(tmp_path):
    """A task that limits its cost itself."""

    def run(price, limits):
        made = Task(name="t", samples=[Sample("a", target="a")], solver=generate(), scorers=exact(), limits=limits)
        models = {"m": {"provider": "scripted", "model": "echo", "price": price}}
        return evaluate(made, models, run=tmp_path / ("limited" if limits else "free"))

    run(CHEAP, TrialLimits(cost=100.0))
    with pytest.raises(ResumeAborted, match=r"models\.m\.price\.input \(identity\)"):
        run(DEAR, TrialLimits(cost=100.0))
    run(CHEAP, None)
    assert run(DEAR, None).report().cost == 2.0


def test_two_models_of_which_one_has_no_price(world):
    """What the run cost is not known, and is not printed as if it were; what the other one cost is."""
    world.model["price"] = CHEAP
    world.data["models"]["free"] = {"provider": "scripted", "model": "echo"}
    world.run()
    report = world.report()
    assert report["cost"] is None
    assert {name: group["cost"] for name, group in report["tasks"]["t"].items()} == {"m": 4.0, "free": None}
    warning = "The cost is unknown: no price is set for models.free."
    assert report["notes"] == [warning] and warning in world.status()["notes"]
    for verb in ("status", "report"):
        told = world(verb, "r", code=0).out
        assert told.count(warning) == 1 and "; cost" not in told
    assert world.json("show", "r", "--where", "cost=1")["matching"] == 4


def test_a_fork_tells_no_part_of_a_cost(world):
    """What the remaining trials will cost is null where one of their models has no price."""
    world.model["price"] = CHEAP
    world.run()
    world.data["models"]["free"] = {"provider": "scripted", "model": "echo"}
    world.data["tasks"]["u"] = {**world.task, "limit": 1}
    assert world.json("fork", "r", "--config", world.write(), "--run-dir", "f", code=0)["cost"] is None
    world.data["models"]["free"]["price"] = {"input": 0.0, "output": 0.0}
    assert world.json("fork", "r", "--config", world.write(), "--run-dir", "g", code=0)["cost"] == 1.0


def test_what_other_runs_paid_for_costs_nothing_here(world):
    """Replies that are reused, and trials that a fork keeps, whatever the price is later."""
    world.model["price"] = DEAR
    world.run()
    world("run", world.write(), "--run-dir", "n", "--reuse", "r", code=0)
    world("fork", "r", "--run-dir", "f", code=0)
    for run in ("n", "f"):
        assert world.json("report", run)["cost"] == 0.0
        assert world.json("report", run)["usage"] == world.report()["usage"]
        world("resume", run, "--set", "models.m.price.input=9", code=0)
        assert world.json("report", run)["cost"] == 0.0
    assert [end["shares"] for end in world.records("trial", "n")] == [
        [{"model": "m", "usage": {"input_tokens": 1, "output_tokens": 1}, "reused": True}]
    ] * 4
    world("clean", "n", "--steps", code=0)
    assert world.json("report", "n")["cost"] == 0.0
