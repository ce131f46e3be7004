"""Rows 16 and 17: an eval that has grown is run where it has; of one that has shrunk, nothing is forgotten."""

from __future__ import annotations

import json
import signal

import pytest
from gate_world import MODEL, TASK, make_rows

GROWN = {
    "epochs": (lambda world: world.task.update(epochs=3), 12, ["tasks.t.epochs: 1 → 3"]),
    "limit": (lambda world: world.task.update(limit=None), 4, None),
    "task": (
        lambda world: world.data["tasks"].update(u={**TASK, "limit": 3}),
        7,
        ["tasks.u: unset → added"],
    ),
    "task and dataset": (
        lambda world: (
            world.data["datasets"].update(others="rows.jsonl"),
            world.data["tasks"].update(u={**TASK, "dataset": "others"}),
        ),
        8,
        ["datasets.others: unset → added", "tasks.u: unset → added"],
    ),
    "model for every task": (
        lambda world: world.data["models"].update(n=MODEL),
        8,
        ["models.n: unset → added", "tasks.t.models: unset → n"],
    ),
    "prompt variant": (
        lambda world: world.task["prompt"].update(polite="Please: {question}"),
        8,
        ["tasks.t.prompt.polite: unset → added"],
    ),
}


@pytest.mark.parametrize("name", GROWN)
def test_resume_16_growth(world, name):
    """What has been added is run, once, and noted; what was there is neither asked nor scored again."""
    change, planned, entries = GROWN[name]
    if name == "prompt variant":
        world.task["prompt"] = {"plain": "{question}"}
    if name == "limit":
        world.task["limit"] = 2
        entries = ["tasks.t.limit: 2 → unset"]
    world.run()
    before = world.trials()
    change(world)
    told = world.resume(code=0)
    assert world.entries == entries
    assert all(entry in told.err for entry in entries)
    assert f"{len(before)} of {planned} trials are finished, {planned - len(before)} remaining: " in told.err
    assert f"Complete: {planned} of {planned}" in told.out
    assert world.trials()[: len(before)] == before
    world.check_complete(planned)
    settled = world.everything()
    assert f"complete, {planned} of {planned}" in world.resume(code=0).out
    assert world.everything() == settled


def test_resume_16_an_unused_model_added(world):
    """A model that nothing asks is noted, and nothing is run for it."""
    world.task["models"] = ["m"]
    world.run()
    world.data["models"]["spare"] = MODEL
    world.resume(code=0)
    assert world.entries == ["models.spare: unset → added"]
    world.check_complete(4)


def test_resume_16_a_model_added_to_one_task(world):
    """Only the trials of the new model are run."""
    world.data["models"]["n"] = MODEL
    world.task["models"] = ["m"]
    world.run()
    world.task["models"] = ["n", "m"]
    world.resume(code=0)
    assert world.entries == ["tasks.t.models: unset → n"]
    world.check_complete(8)
    assert set(world.report()["tasks"]["t"]) == {"m", "n"}


def test_resume_16_sample_ids(world):
    """More samples by id are growth, and so is the end of the choice."""
    world.task["sample_ids"] = ["s2"]
    world.run()
    for ids, planned in ((["s2", "s4"], 2), (["s1"], 3), (None, 4)):
        world.task["sample_ids"] = ids
        world.resume(code=0)
        world.check_complete(planned)
    assert world.entries == [
        "tasks.t.sample_ids: unset → s4",
        "tasks.t.sample_ids: unset → s1",
        'tasks.t.sample_ids: ["s1","s2","s4"] → unset',
    ]


def test_resume_16_prompts_in_a_list(world):
    """A list of prompts grows at its end; variants given by name join those known by their number."""
    world.task["prompt"] = ["{question}", "Q: {question}"]
    world.run()
    world.task["prompt"] = ["{question}", "Q: {question}", "Well: {question}"]
    world.resume(code=0)
    world.check_complete(12)
    world.task["prompt"] = {"polite": "Please: {question}"}
    told = world.resume(code=0)
    assert "tasks.t.prompt.1: given → left out; existing results are kept" in told.err
    world.check_complete(16)
    prompts = {trial["axes"]["prompt"] for trial in world.trials()}
    assert prompts == {"1", "2", "3", "polite"}
    steps = {step["request"]["messages"][-1]["content"] for step in world.records("step")}
    assert len(steps) == 16
    world.task["prompt"] = ["Well: {question}"]
    assert "tasks.t.prompt.1 (identity): {question} → Well: {question}" in world.refused()


def test_resume_16_grown_in_real_processes(holdfast, world):
    """A killed run may grow as it goes on, and be killed again on the way."""
    world.data["concurrency_limit"] = 1
    assert holdfast("run", world.write(), "--run-dir", "r", HOLDFAST_CRASH_AT="frame.acknowledged:4").code == -9
    world.task["epochs"] = 2
    world.data["models"]["n"] = MODEL
    command = ("resume", "r", "--config", world.write())
    assert holdfast(*command, HOLDFAST_CRASH_AT="frame.acknowledged:6").code == -9
    told = holdfast(*command, code=0)
    assert "Complete: 16 of 16" in told.out
    assert len(world.entries) == 3
    status = world.status()
    assert (status["state"], status["finished"]) == ("complete", 16)
    assert status["calls"]["made"] <= 16 + status["calls"]["in_flight_at_kill"]
    assert world.json("verify", "r", code=0)["ok"]


# Scorers.


def test_resume_16_scorer_added(world):
    """A new scorer judges the answers on record: no model is asked, no trial is run, and the report has its figure."""
    world.rows = make_rows(6)
    world.run()
    trials = world.trials()
    world.task["scorers"] = ["exact", {"regex": {"pattern": "q([0-9])"}}, "includes"]
    told = world.resume(code=0)
    assert world.entries == ["tasks.t.scorers.regex: unset → added", "tasks.t.scorers.includes: unset → added"]
    assert "0 of 6 trials are finished, 6 remaining: 6 not scored." in told.err
    world.check_complete(6)
    assert world.trials() == trials
    scores = [score["scorer"] for score in world.records("score")]
    assert {scorer: scores.count(scorer) for scorer in scores} == {"exact": 6, "regex": 6, "includes": 6}
    metrics = world.report()["tasks"]["t"]["m"]["metrics"]
    assert {name: figure["accuracy"]["n_trials"] for name, figure in metrics.items()} == dict.fromkeys(metrics, 6)
    assert set(metrics) == {"exact", "regex", "includes"}
    assert metrics["exact"] == metrics["includes"] and metrics["exact"]["accuracy"]["value"] == pytest.approx(4 / 6)


def test_resume_16_scorer_added_before_the_end(world):
    """Trials that still remain are judged by all scorers, finished ones by the new one: each exactly once."""
    world.run()
    world.task.update(epochs=2, scorers=["exact", "includes"])
    world.resume(code=0)
    world.check_complete(8)
    metrics = world.report()["tasks"]["t"]["m"]["metrics"]
    assert [metrics[name]["accuracy"]["n_trials"] for name in ("exact", "includes")] == [8, 8]
    scores = [(score["scorer"], score["trial"]) for score in world.records("score")]
    assert len(scores) == len(set(scores)) == 16


def test_resume_16_scorer_added_by_axis(world):
    """Late scores count under the axis values of their trials."""
    world.task["prompt"] = {"plain": "{question}", "loud": "{question}!"}
    world.run()
    world.task["scorers"] = ["exact", "includes"]
    world.resume(code=0)
    axes = world.report()["tasks"]["t"]["m"]["axes"]["prompt"]
    assert {value: metrics["includes"]["accuracy"]["n_trials"] for value, metrics in axes.items()} == {
        "plain": 4,
        "loud": 4,
    }
    assert axes["loud"]["exact"]["accuracy"]["value"] == 0
    world.check_complete(8)


SLOW_SCORER = """
import os
from holdfast import Sample, Task, generate, scorer, task

@scorer
def first(answer, sample):
    return True

@scorer
async def second(answer, sample):
    with open("judged", "a") as file:
        file.write(sample.id + "\\n")
    return len(answer.text)

@task
def t():
    samples = [Sample(f"q{number}", id=f"s{number}") for number in range(8)]
    return Task(samples=samples, solver=generate(), scorers=[first])
"""


def test_resume_16_killed_half_way_through_late_scoring(holdfast, world):
    """Scores that were acknowledged before the kill are not made again; the others are, and the report is whole."""
    (world.directory / "task.py").write_text(SLOW_SCORER)
    world.data["tasks"] = {"t": {"use": "task.py:t", "concurrency_limit": 1}}
    world.run()
    (world.directory / "task.py").write_text(SLOW_SCORER.replace("[first]", "[first, second]"))
    ended = holdfast("resume", "r", HOLDFAST_CRASH_AT="frame.acknowledged:5")
    assert ended.code == -signal.SIGKILL
    status = world.status()
    assert (status["state"], status["planned"]) == ("incomplete", 8) and 0 < status["finished"] < 8
    report = world.report()
    assert not report["complete"]
    assert report["tasks"]["t"]["m"]["metrics"]["second"]["mean"]["n_trials"] == status["finished"]
    scored = len([score for score in world.records("score") if score["scorer"] == "second"])
    told = holdfast("resume", "r", code=0)
    assert f"{8 - scored} remaining: {8 - scored} not scored." in told.err and "Complete: 8 of 8" in told.out
    judged = (world.directory / "judged").read_text().split()
    assert len(set(judged)) == 8 and len(judged) <= 9
    assert world.report()["tasks"]["t"]["m"]["metrics"]["second"]["mean"]["n_trials"] == 8
    world.check_complete(8)


BROKEN_SCORER = SLOW_SCORER.replace("    return len(answer.text)", "    return 1 / (not os.path.exists('broken'))")


def test_resume_16_a_late_scorer_that_breaks_fails_in_its_own_slots(world):
    """What an added scorer could not judge has failed and is told; a redo asks that scorer, and nobody else."""
    (world.directory / "task.py").write_text(BROKEN_SCORER)
    world.data["tasks"] = {"t": {"use": "task.py:t"}}
    world.run()
    (world.directory / "task.py").write_text(BROKEN_SCORER.replace("[first]", "[first, second]"))
    (world.directory / "broken").touch()
    told = world("resume", "r", code=1)
    assert "8 remaining: 8 failed (score: second)." in told.out
    status = world.status()
    assert (status["state"], status["finished"], status["remaining"]) == ("incomplete", 0, 8)
    assert world.report()["tasks"]["t"]["m"]["metrics"]["first"]["mean"]["n_trials"] == 8
    (world.directory / "broken").unlink()
    assert "8 remaining: 8 failed (score: second)." in world("resume", "r", code=1).out
    world("resume", "r", "--redo", "status=failed", code=0)
    world.check_complete(8)


# Fewer.

SHRUNK = {
    "epochs": ({"epochs": 3}, {"epochs": 2}, "tasks.t.epochs: 3 → 2", 12),
    "limit": ({"limit": 3}, {"limit": 1}, "tasks.t.limit: 3 → 1", 3),
    "limit given": ({}, {"limit": 1}, "tasks.t.limit: unset → 1", 4),
    "scorer": ({"scorers": ["exact", "includes"]}, {"scorers": ["exact"]}, "tasks.t.scorers.includes: given → left", 4),
    "prompt": (
        {"prompt": {"a": "{question}", "b": "b"}},
        {"prompt": {"a": "{question}"}},
        "tasks.t.prompt.b: given",
        8,
    ),
    "sample ids": ({"sample_ids": ["s1", "s2"]}, {"sample_ids": ["s2"]}, "tasks.t.sample_ids: s1 → left out", 2),
    "all to some": ({}, {"sample_ids": ["s2"]}, 'tasks.t.sample_ids: unset → ["s2"]', 4),
}


@pytest.mark.parametrize("complete", [True, False], ids=["complete", "incomplete"])
@pytest.mark.parametrize("name", SHRUNK)
def test_resume_17_fewer_offered(world, name, complete):
    """The saved ones stand, and are run where they remain; the difference is told, the exit code is as ever."""
    saved, offered, told, planned = SHRUNK[name]
    original = dict(world.task)
    world.task.update(saved)
    _ = world.run() if complete else world.begin()
    world.data["tasks"]["t"] = {**original, **offered}
    before = world.config
    said = world.resume(code=0)
    effect = "it stays in the run and scores new trials too" if ".scorers." in told else "existing results are kept"
    assert told in said.err and effect in said.err
    assert world.config == before and len(world.status()["sessions"]) == (1 if complete else 2)
    world.check_complete(planned)


def test_resume_17_tasks_models_and_datasets_left_out(world):
    """What the eval no longer names is still part of the run, and is run."""
    world.data["models"]["n"] = MODEL
    world.data["datasets"]["others"] = "rows.jsonl"
    world.data["tasks"]["u"] = {**TASK, "dataset": "others", "models": ["n"]}
    world.begin()
    del world.data["models"]["n"], world.data["datasets"]["others"], world.data["tasks"]["u"]
    told = world.resume(code=0)
    for path in ("models.n", "datasets.others", "tasks.u"):
        assert f"  {path}: given → left out; existing results are kept" in told.err
    assert "tasks.t.models: n → left out" in told.err and world.entries == []
    world.check_complete(12)


def test_resume_17_less_of_one_and_more_of_another(world):
    """Growth is noted, what shrank is told, and both are so in one resume."""
    world.task["epochs"] = 2
    world.data["tasks"]["u"] = {**TASK, "limit": 1}
    world.run()
    world.task["epochs"] = 1
    world.data["tasks"]["u"]["limit"] = 3
    told = world.resume(code=0)
    assert "tasks.t.epochs: 2 → 1; existing results are kept" in told.err
    assert world.entries == ["tasks.u.limit: 1 → 3"]
    assert world.body["tasks"]["t"]["epochs"] == 2
    world.check_complete(11)


def test_resume_17_the_exit_code_of_failed_trials_is_unaffected(world):
    """Blocked trials are exit 1 again, whatever less was offered."""
    world.model["args"] = {"errors": [{"contains": "q2", "blocked": {}}]}
    world.task["epochs"] = 2
    world.run(code=1)
    world.task["epochs"] = 1
    told = world.resume(code=1)
    assert "complete, 8 of 8, 2 of them blocked" in told.out and "tasks.t.epochs: 2 → 1" in told.err


def test_growth_through_the_command_that_began_the_run(world):
    """`run --or-resume` with a grown eval goes on with it; `--epochs` does the same."""
    world.run()
    world.task["limit"] = None
    world.data["models"]["n"] = MODEL
    world("run", world.write(), "--run-dir", "r", "--or-resume", code=0)
    world.check_complete(8)
    world("run", world.write(), "--run-dir", "r", "--or-resume", "--epochs", "2", code=0)
    world.check_complete(16)
    assert json.loads(world("status", "r", "--json").out)["sessions"][2]["changes"] == [
        {"path": "tasks.t.epochs", "old": 1, "new": 2}
    ]
