"""`deterministic: true`: every call gets a seed of its own, and the report says what that does not guarantee."""

from __future__ import annotations

import json

import pytest

from evals import write_dataset, write_eval
from holdfast.engine.planning.trial_keys import trial_key, trial_seed
from holdfast.sampling.place import derive_seed
from seeded_server import seeded_server

TASK = '''
import asyncio
from holdfast import Sample, Task, scorer, task

async def solver(trial):
    """Two branches at once, then one call that brings a seed of its own."""
    async def branch(name):
        return (await trial.generate(f"{trial.sample.input} {name}")).text
    first, second = await asyncio.gather(branch("a"), branch("b"))
    with trial.scope("last"):
        last = await trial.generate("own", seed=7)
    return f"{first} {second} {last.text}"

@scorer
async def judged(answer, sample, scope):
    verdict = await scope.generate(f"judge {answer.text}", model="m")
    return int(verdict.text.split()[1]) % 2

@task
def t():
    return Task(samples=[Sample(f"q{n}", id=f"s{n}") for n in range(6)], solver=solver, scorers=judged)
'''


@pytest.fixture
def drawing():
    with seeded_server() as server:
        yield server


def written(tmp_path, drawing, **keys):
    (tmp_path / "task.py").write_text(TASK)
    write_dataset(tmp_path, 5)
    data = {
        "name": "drawn",
        "deterministic": True,
        "models": {"m": {"provider": "openai", "model": "drawn", "base_url": drawing.base_url}},
        "datasets": {"rows": {"path": "rows.jsonl"}},
        "tasks": {
            "asked": {
                "dataset": "rows",
                "prompt": "{question}",
                "target": "{answer}",
                "scorers": [{"regex": {"pattern": "[02468]$", "compare": False}}],
                "epochs": 2,
            },
            "code": {"use": "task.py:t"},
        },
        **keys,
    }
    return write_eval(tmp_path, {name: value for name, value in data.items() if value is not None})


def comparable(report: dict) -> bytes:
    return json.dumps({name: part for name, part in report.items() if name not in {"timing", "lineage"}}).encode()


def test_two_runs_at_another_concurrency_have_the_same_report_to_the_last_byte(holdfast, drawing, tmp_path):
    """Seeds follow from the structure of trials, not from timing: what is drawn by them is drawn again."""
    eval_file = written(tmp_path, drawing)
    reports, sent = [], []
    for name, limit in (("one", 1), ("many", 16)):
        drawing.bodies.clear()
        holdfast("run", eval_file, "--run-dir", name, "--set", f"concurrency_limit={limit}", code=0)
        reports.append(comparable(holdfast.json("report", name)))
        sent.append(sorted(json.dumps(body, sort_keys=True) for body in drawing.bodies))
    assert reports[0] == reports[1]
    assert sent[0] == sent[1]
    assert len(sent[0]) == 5 * 2 + 6 * 4


def test_every_call_has_a_seed_of_its_own_unless_it_brings_one(holdfast, drawing, tmp_path):
    """Solvers, branches, epochs and judges are seeded apart; a seed that a call gives is sent as it is."""
    holdfast("run", written(tmp_path, drawing), "--run-dir", "r", code=0)
    own = [body["seed"] for body in drawing.bodies if body["messages"][-1]["content"] == "own"]
    others = [body["seed"] for body in drawing.bodies if body["messages"][-1]["content"] != "own"]
    assert own == [7] * 6
    assert len(set(others)) == len(others) == 5 * 2 + 6 * 3
    assert all(0 <= seed < 2**31 for seed in others)


def test_the_derivation_is_the_documented_one(holdfast, drawing, tmp_path):
    """Of the trial's seed, the path of the scope, and the number of the call in it, joined by slashes."""
    eval_file = written(tmp_path, drawing, seed=5)
    holdfast("run", eval_file, "--run-dir", "r", "--set", "concurrency_limit=1", code=0)
    sent = {body["messages"][-1]["content"]: body["seed"] for body in drawing.bodies}
    for number in range(6):
        seed = trial_seed(5, trial_key("code", "m", {}, f"s{number}", 1))
        assert sent[f"q{number} a"] == derive_seed(seed, "~1", 1)
        assert sent[f"q{number} b"] == derive_seed(seed, "~2", 1)
    judged = [body for body in drawing.bodies if body["messages"][-1]["content"].startswith("judge")]
    seeds = {derive_seed(trial_seed(5, trial_key("code", "m", {}, f"s{n}", 1)), "score/judged", 1) for n in range(6)}
    assert {body["seed"] for body in judged} == seeds


def test_without_it_no_seed_is_sent(holdfast, drawing, tmp_path):
    """A run that does not ask for it sends what it always sent, and its report says nothing of it."""
    holdfast("run", written(tmp_path, drawing, deterministic=None), "--run-dir", "r", code=0)
    assert {seed for seed in drawing.seeds if seed != 7} == {None}
    report = holdfast.json("report", "r")
    assert report["determinism"] is None
    assert "deterministic" not in holdfast("report", "r").out


def test_a_killed_run_is_resumed_with_the_same_seeds(holdfast, drawing, tmp_path):
    """What is on record is not asked again, and what is left is asked with the seeds that it would have had."""
    eval_file = written(tmp_path, drawing)
    holdfast("run", eval_file, "--run-dir", "whole", code=0)
    whole = sorted(json.dumps(body, sort_keys=True) for body in drawing.bodies)
    drawing.bodies.clear()
    holdfast("run", eval_file, "--run-dir", "part", "--limit", "2", code=0)
    holdfast("resume", "part", "--config", eval_file, code=0)
    assert sorted(json.dumps(body, sort_keys=True) for body in drawing.bodies) == whole
    assert comparable(holdfast.json("report", "part")) == comparable(holdfast.json("report", "whole"))


def test_the_report_says_what_is_not_guaranteed(holdfast, drawing, tmp_path):
    """Servers, the temperature, and solvers in Python are named; in the text and in JSON."""
    holdfast("run", written(tmp_path, drawing), "--run-dir", "r", code=0)
    told = holdfast.json("report", "r")["determinism"]
    assert told == {
        "seed": 0,
        "not_guaranteed": [
            "m: openai is sent a seed with every call, and servers promise little about it",
            "m: the temperature is left to the provider",
            "the task code: its solver is code of its own, of which only the calls of models are seeded",
        ],
    }
    text = holdfast("report", "r").out
    assert "deterministic: every call has a seed, derived from 0" in text
    assert all(f"not guaranteed: {limit}" in text for limit in told["not_guaranteed"])


def test_a_scripted_model_leaves_nothing_open(holdfast, tmp_path):
    """Where replies follow from the request, and no code of a person's own solves, everything is guaranteed."""
    write_dataset(tmp_path, 2)
    task = {"dataset": "rows", "prompt": "{question}", "target": "{answer}", "scorers": ["exact"]}
    data = {"models": {"m": "scripted/echo"}, "datasets": {"rows": {"path": "rows.jsonl"}}, "tasks": {"t": task}}
    holdfast("run", write_eval(tmp_path, {**data, "deterministic": True}), "--run-dir", "r", code=0)
    assert holdfast.json("report", "r")["determinism"]["not_guaranteed"] == []
