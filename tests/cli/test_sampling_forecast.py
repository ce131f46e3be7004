"""`run --dry-run` of an eval with samplings: the worst case, in the text and in JSON."""

from __future__ import annotations

import pytest

from durable import snapshot
from evals import http_eval, python_eval

PRICE = {"price": {"input": 3.0, "output": 10.0}, "generation": {"max_tokens": 100}}
CALL = (2 * 3.0 + 100 * 10.0) / 1e6
"""What one call costs: a prompt of six characters is taken for two tokens."""


def forecast(holdfast, eval_file):
    (told,) = holdfast.json("run", eval_file, "--dry-run")["forecast"]
    return told


def test_sampling_31_the_worst_case_is_in_the_dry_run(holdfast, server, tmp_path):
    """Turns times lanes, for every trial; no code of a user could fail and be retried. Nothing is called or written."""
    sampling = {"strategy": "repair", "loop_budget": 3, "concurrency_budget": 2}
    task = {"prompt": "123456", "sampling": sampling}
    eval_file = http_eval(tmp_path, server.base_url, 5, model=PRICE, max_retries=1, task=task)
    before = snapshot(tmp_path)
    told = forecast(holdfast, eval_file)
    assert (told["trials"], told["calls"], told["most_calls"]) == (5, 30, 30)
    assert told["sampling"] == {"strategy": "repair", "lanes": 2, "turns": 3, "calls": 6}
    assert told["most_cost"] == pytest.approx(30 * CALL) and told["is_lower_bound"] is True
    assert told["by_model"]["m"]["calls"] == 30
    text = holdfast("run", eval_file, "--dry-run").out
    assert "m: up to 30 calls (at least $0.030)\n" in text
    assert "repair: 2 lanes x 3 turns, up to 6 calls a trial" in text
    assert "lanes multiply requests: 2 calls are made, and paid for, where one could do" in text
    assert {name: data for name, data in snapshot(tmp_path).items() if not name.startswith(".")} == before
    assert server.state()["received"] == 0


def test_sampling_31_one_lane_multiplies_nothing(holdfast, server, tmp_path):
    """The sentence about lanes stands only where there are several; a cost that is known is "about"."""
    task = {"prompt": "123456", "sampling": {"strategy": "rejection", "loop_budget": 2}}
    eval_file = http_eval(tmp_path, server.base_url, 5, model=PRICE, max_retries=0, task=task)
    text = holdfast("run", eval_file, "--dry-run").out
    assert "m: up to 10 calls (up to about $0.010)\n" in text
    assert "multiply" not in text


def test_sampling_31_larger_models_are_listed_with_their_own_price(holdfast, server, tmp_path):
    """The model to escalate to is not under test, and no trial is planned for it."""
    sampling = {"strategy": "escalate", "escalate_to": ["large"], "loop_budget": 3}
    small = {"provider": "openai", "model": "counting", "base_url": server.base_url, **PRICE}
    large = {**small, "price": {"input": 30.0, "output": 100.0}}
    eval_file = http_eval(
        tmp_path,
        server.base_url,
        2,
        models={"m": small, "large": large},
        max_retries=0,
        task={"prompt": "123456", "sampling": sampling},
    )
    told = forecast(holdfast, eval_file)
    assert told["model"] == "m" and told["trials"] == 2
    assert told["by_model"]["m"] == {"calls": 6, "cost": pytest.approx(6 * CALL)}
    assert told["by_model"]["large"] == {"calls": 6, "cost": pytest.approx(60 * CALL)}
    assert "maximum calls of each model: m 6 ($0.0060), large 6 ($0.060)" in holdfast("run", eval_file, "--dry-run").out


CHECKED = """
from holdfast import Sample, Task, exact, generate, task
from holdfast.sampling import Rejection, function, sampled

def polite(text):
    return "please" in text

@task
def t():
    solver = sampled(generate(), strategy=Rejection(loop_budget=2), requirements=[function(polite)])
    return Task(samples=[Sample("x", target="x")], solver=solver, scorers=exact())
"""


def test_sampling_31_a_function_of_a_user_may_fail_and_be_retried(holdfast, server, tmp_path):
    """Only then another attempt follows, and is in the worst case."""
    eval_file = python_eval(tmp_path, server.base_url, CHECKED, max_retries=2)
    told = forecast(holdfast, eval_file)
    assert (told["calls"], told["most_calls"]) == (2, 6)
    text = holdfast("run", eval_file, "--dry-run").out
    assert "m: up to 2 calls, or 6 if every attempt fails in your code and is retried\n" in text


def test_a_plain_task_is_forecast_as_before(holdfast, server, tmp_path):
    """No field of a sampling stands where there is none."""
    told = forecast(holdfast, http_eval(tmp_path, server.base_url, 5, max_retries=1))
    assert told == {
        "task": "t",
        "model": "m",
        "trials": 5,
        "calls": 5,
        "most_calls": 5,
        "cost": None,
        "most_cost": None,
    }


@pytest.mark.parametrize("command", [["--dry-run"], ["--run-dir", "r"]])
def test_a_model_to_escalate_to_that_does_not_exist_is_found_before_anything_is_written(
    holdfast, server, tmp_path, command
):
    """By the dry run and by the run itself."""
    task = {"sampling": {"strategy": "escalate", "loop_budget": 3, "escalate_to": ["n"]}}
    eval_file = http_eval(tmp_path, server.base_url, 2, task=task)
    said = holdfast("run", eval_file, *command, code=2).err
    assert 'tasks.t.sampling.escalate_to[0] is "n", which is not a model of the eval' in said
    assert not (tmp_path / "r").exists()


def test_the_provider_of_a_larger_model_is_opened_when_the_run_starts(holdfast, server, tmp_path):
    """What it lacks is found before anything is written, not when a lane needs it."""
    small = {"provider": "openai", "model": "counting", "base_url": server.base_url}
    large = {"provider": "openai", "model": "big", "api_key_env": "NO_SUCH_KEY_HERE"}
    task = {"sampling": {"strategy": "escalate", "loop_budget": 3, "escalate_to": ["large"]}}
    eval_file = http_eval(tmp_path, server.base_url, 2, models={"m": small, "large": large}, task=task)
    assert "NO_SUCH_KEY_HERE" in holdfast("run", eval_file, "--run-dir", "r", code=2).err
    assert not (tmp_path / "r").exists()
