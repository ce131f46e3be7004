"""What further trials are likely to cost: by what each model took in the same task, or it is said that it has none."""

from __future__ import annotations

from typing import Any

import pytest

LONG, SHORT = " ".join(["word"] * 1000), "Paris"
MODELS: dict[str, Any] = {
    "chatty": {
        "provider": "scripted",
        "model": "table",
        "args": {"default": LONG},
        "price": {"input": 0, "output": 100},
    },
    **{
        f"terse{number}": {
            "provider": "scripted",
            "model": "table",
            "args": {"default": SHORT},
            "price": {"input": 0, "output": 0.01},
        }
        for number in range(4)
    },
}


@pytest.fixture
def mixed(world):
    """A dear model that writes much beside cheap ones that write little."""
    world.data["models"] = {name: dict(model) for name, model in MODELS.items()}
    return world


def grown(world) -> dict[str, Any]:
    found: dict[str, Any] = world.json("run", world.write(), "--run-dir", "r", "--or-resume", "--dry-run", code=0)
    return found["existing"]["growth"]


def test_each_model_is_taken_to_write_as_much_as_it_has(mixed):
    """An average over all models would be five times too low: the forecast of the same trials is what they cost."""
    mixed.run()
    spent = mixed.status()["cost"]
    mixed.task["epochs"] = 2
    growth = grown(mixed)
    assert growth["likely_cost"] == pytest.approx(spent) and growth["without_trials"] == []
    mixed.resume(code=0)
    assert mixed.status()["cost"] == pytest.approx(2 * spent)


def test_a_fork_goes_by_task_and_model_too(mixed):
    mixed.run()
    spent = mixed.status()["cost"]
    mixed.task["prompt"] = "again: {question}"
    told = mixed.json("fork", "r", "--config", mixed.write(), "--run-dir", "f", code=0)
    assert told["cost"] == pytest.approx(spent) and told["without_trials"] == []


def test_a_model_of_an_axis_value_is_counted_by_itself(mixed):
    """Axis values that name their model: each value's trials cost what its model takes."""
    mixed.task["axes"] = {
        "tier": {"T0": {"prompt": "{question}", "model": "terse0"}, "T1": {"prompt": "{question}", "model": "chatty"}}
    }
    del mixed.task["prompt"]
    mixed.run()
    spent = mixed.status()["cost"]
    mixed.task["epochs"] = 3
    assert grown(mixed)["likely_cost"] == pytest.approx(2 * spent)


def test_a_model_without_a_trial_is_named(mixed):
    """The estimate falls back on the other models of the task, and says so; of a new task, on all of the run."""
    dear = mixed.data["models"].pop("chatty")
    mixed.run()
    mixed.data["models"]["chatty"] = dear
    assert grown(mixed)["without_trials"] == ["t on chatty"]
    told = mixed("run", mixed.write(), "--run-dir", "r", "--or-resume", "--dry-run", code=0).out
    assert "going by the trials so far (none yet of t on chatty: counted like those of others)" in told
    mixed.data["tasks"]["u"] = {**mixed.task, "limit": 1, "models": ["terse0"]}
    told = mixed("fork", "r", "--config", mixed.write(), "--run-dir", "f", code=0).out
    assert "(none yet of t on chatty, u on terse0: counted like those of others)" in told


def test_models_without_a_bound_are_one_list(mixed):
    """Ten models without max_tokens are one reason, not ten."""
    mixed.run()
    mixed.task["epochs"] = 2
    why = "chatty, terse0, terse1, terse2, terse3 have no generation.max_tokens"
    assert grown(mixed)["why_unbounded"] == [why]
