"""`diff` tells what a resume would make of an eval; `fork` starts a run with it and keeps what it does not affect."""

from __future__ import annotations

import signal

import pytest
from gate_world import MODEL, TASK, make_rows

PRICE = {"input": 1e6, "output": 1e6}


def forked(world, *words, code=0):
    """A fork of the run `r` with the eval as it is now, into the run `f`; what it tells."""
    return world.json("fork", "r", "--config", world.write(), "--run-dir", "f", *words, code=code)


def finish(world, *, planned, made):
    """Goes on with the fork to its end: what is planned, and how many calls were made in it."""
    told = world("resume", "f", code=0)
    assert f"{planned} of {planned}" in told.out
    status = world.json("status", "f", code=0)
    assert (status["state"], status["finished"], status["calls"]["made"]) == ("complete", planned, made)
    assert world.json("verify", "f", code=0)["ok"]
    report = world.json("report", "f", code=0)
    assert report["complete"] and report["coverage"]["valid"] == planned
    return report


def records(world, type_):
    lines = world("cat", "f", code=0).out.splitlines()
    return [line for line in lines if f'"type":"{type_}"' in line]


# What diff tells.


def test_diff_tells_every_difference_and_changes_nothing(world):
    """Applied, grown, kept and refused: each with its class, both values and the way out; exit 3 for a refusal."""
    world.task["epochs"] = 2
    world.run()
    before = world.everything()
    world.data |= {"concurrency_limit": 2, "seed": 4}
    world.task.update(epochs=1, limit=2, scorers=["exact", "includes"])
    world.data["models"]["n"] = MODEL
    told = world("diff", "r", world.write(), code=3).out.splitlines()
    assert told == [
        "refused  seed (identity): 0 → 4",
        "         `holdfast fork` starts a run with it and keeps the trials it does not affect",
        "added    models.n (additive): unset → added",
        "kept     tasks.t.limit (additive): unset → 2",
        "added    tasks.t.models (additive): unset → n",
        "kept     tasks.t.epochs (additive): 2 → 1",
        "added    tasks.t.scorers.includes (additive): unset → added",
        "changed  runner.concurrency_limit (throughput): 256 → 2",
    ]
    told = world.json("diff", "r", world.write(), code=3)
    assert told["refused"] is True and told["run"] == "r"
    assert told["differences"][0] == {
        "path": "seed",
        "drift": "identity",
        "old": 0,
        "new": 4,
        "verdict": "refused",
        "way_out": "`holdfast fork` starts a run with it and keeps the trials it does not affect",
        "undoable": True,
        "by_holdfast": False,
    }
    assert world.everything() == before


def test_diff_exits_0_where_a_resume_would_go_on(world):
    """Harmless changes are exit 0, and none at all is said to be none."""
    world.run()
    assert world("diff", "r", world.write(), code=0).out == "No difference.\n"
    world.data["concurrency_limit"] = 2
    assert world.json("diff", "r", world.write(), code=0)["refused"] is False
    world.write_rows(make_rows(6))
    assert "added    tasks.t.dataset (additive): 4 samples → 6 samples" in world("diff", "r", "eval.yaml", code=0).out


def test_diff_of_data_and_code(world):
    """Samples and code are compared too."""
    world.run()
    world.rows[0]["question"] = "q0"
    assert (
        "refused  tasks.t.dataset (identity): the input was edited in: s1"
        in world("diff", "r", world.write(), code=3).out
    )
    assert world("diff", "r", "nowhere.yaml", code=2).err
    assert world("diff", "nowhere", world.write(), code=2).err


# What a fork keeps.


def test_fork_without_a_change_keeps_everything(world):
    """The same eval: every trial is there, and the new run is complete."""
    world.run()
    told = forked(world)
    assert told == {
        "schema_version": 2,
        "run": "f",
        "planned": 4,
        "taken": 4,
        "rescored": 0,
        "remaining_by_reason": {},
        "cost": 0.0,
        "saved": None,
        "replies": 0,
        "currency": "USD",
        "without_trials": [],
        "warnings": [],
    }
    report = finish(world, planned=4, made=0)
    assert report["tasks"] == world.report()["tasks"]
    assert len(world.json("status", "f")["sessions"]) == 1


CHANGES = {
    "temperature": (lambda world: world.model.update(generation={"temperature": 1.0}), 0),
    "seed": (lambda world: world.data.update(seed=9), 0),
    "args": (lambda world: world.model.update(args={"default": "q1"}), 0),
    "headers": (lambda world: world.model.update(headers={"X-Route": "a"}), 0),
    "system": (lambda world: world.task.update(system="Be brief."), 0),
    "prompt": (lambda world: world.task.update(prompt="Well: {question}"), 0),
    "few_shot": (lambda world: world.task.update(few_shot=[{"input": "a", "output": "b"}]), 0),
    "limits": (lambda world: world.task.update(limits={"tokens": 1000}), 0),
    "a prompt that comes to the same": (lambda world: world.task.update(prompt="{question}" + ""), 4),
    "concurrency": (lambda world: world.data.update(concurrency_limit=1), 4),
    "max_retries": (lambda world: world.data.update(max_retries=9), 4),
    "one input": (lambda world: world.rows[1].update(question="q0"), 3),
    "slice": (lambda world: world.data["datasets"]["rows"].update(operations=[{"slice": {"num": 2}}]), 2),
    "shuffle": (lambda world: world.data["datasets"]["rows"].update(operations=[{"shuffle": {"seed": 2}}]), 4),
    "epochs": (lambda world: world.task.update(epochs=2), 4),
}


@pytest.mark.parametrize("name", CHANGES)
def test_fork_keeps_exactly_what_the_change_does_not_touch(world, name):
    """A trial is kept if and only if its answer would be the same; the rest is run, and says why."""
    world.run()
    original = {trial["trial"]: trial for trial in world.trials()}
    change, taken = CHANGES[name]
    change(world)
    told = forked(world)
    assert (told["taken"], told["rescored"]) == (taken, 0)
    assert sum(told["remaining_by_reason"].values()) == told["planned"] - taken
    if taken == 0:
        assert told["remaining_by_reason"] == {"its answer could differ": 4}
    # Where only what surrounds the requests changed, the replies of the old run are used.
    made = 0 if name in ("seed", "limits") else told["planned"] - taken
    report = finish(world, planned=told["planned"], made=made)
    assert report["coverage"]["valid"] == told["planned"]
    assert len(original) == 4


def test_fork_tells_why_and_what_it_will_cost(world):
    """New tasks, models, samples, and answers that would be others: counted by reason, priced by their tokens."""
    world.model["price"] = PRICE
    world.run()
    world.data["tasks"]["u"] = {**TASK, "limit": 2}
    world.rows = [*make_rows(5)[:4], {"id": "s9", "question": "q9", "answer": "x"}]
    world.rows[0]["question"] = "two words"
    told = world("fork", "r", "--config", world.write(), "--run-dir", "f", code=0).out
    assert "f: 7 trials planned, 3 kept." in told
    assert "  1 remaining: its answer could differ" in told
    assert "  1 remaining: new sample" in told and "  2 remaining: new task or model" in told
    # A trial took a word and gave a word; four remain.
    others = " (none yet of u on m: counted like those of others)"
    less = "or less: 1 recorded reply is used again where the same is asked"
    assert f"  the remaining trials will cost about $8.00, going by the trials so far{others}, {less}\n" in told
    assert told.endswith("Resume with: holdfast resume f\n")
    report = finish(world, planned=7, made=4)
    # What was kept is paid by the other run: here a trial of two words, one of a new sample, two of a new task.
    assert report["cost"] == pytest.approx(4 + 2 + 4 + 2)


def test_fork_of_changed_scorers_asks_no_model(world):
    """Answers are kept and scored by the new scorers; an unchanged scorer's scores stand."""
    world.task["scorers"] = ["exact", {"regex": {"pattern": "nothing"}}]
    world.run()
    world.task["scorers"] = ["exact", {"regex": {"pattern": "(q[0-9])"}}]
    told = forked(world)
    assert (told["taken"], told["rescored"], told["remaining_by_reason"]) == (0, 4, {})
    before = [line for line in records(world, "score") if '"exact"' in line]
    assert len(before) == 4
    report = finish(world, planned=4, made=0)
    metrics = report["tasks"]["t"]["m"]["metrics"]
    assert {name: figure["accuracy"]["n_trials"] for name, figure in metrics.items()} == {"exact": 4, "regex": 4}
    assert metrics["regex"] != world.report()["tasks"]["t"]["m"]["metrics"]["regex"]
    assert metrics["exact"] == world.report()["tasks"]["t"]["m"]["metrics"]["exact"]
    assert len([line for line in records(world, "score") if '"exact"' in line]) == 4


@pytest.mark.parametrize(
    ("scorers", "names"),
    [(["includes"], {"includes"}), (["exact", "includes"], {"exact", "includes"}), (["exact"], {"exact"})],
)
def test_fork_with_other_scorers(world, scorers, names):
    """Scorers that come, go or are exchanged: the report of the fork has exactly those that it asks for."""
    world.task["scorers"] = ["exact", {"regex": {"pattern": "q"}}]
    world.run()
    world.task["scorers"] = scorers
    assert forked(world)["rescored"] == 4
    report = finish(world, planned=4, made=0)
    assert set(report["tasks"]["t"]["m"]["metrics"]) == names


@pytest.mark.parametrize("change", ["column", "template"])
def test_fork_with_other_targets(world, change):
    """A target that was edited, or is made otherwise, is judged anew; the others' scores stand."""
    world.run()
    if change == "column":
        world.rows[2]["answer"] = "q3"
    else:
        world.task["target"] = "{answer}x"
    told = forked(world)
    assert (told["taken"], told["rescored"]) == ((3, 1) if change == "column" else (0, 4))
    report = finish(world, planned=4, made=0)
    expected = 1.0 if change == "column" else 0.0
    assert report["tasks"]["t"]["m"]["metrics"]["exact"]["accuracy"]["value"] == expected


def test_fork_of_late_scores(world):
    """Scores that a scorer gave later are kept like the others, and counted once."""
    world.run()
    world.task["scorers"] = ["exact", "includes"]
    world.resume(code=0)
    assert forked(world)["taken"] == 4
    report = finish(world, planned=4, made=0)
    assert report["tasks"] == world.report()["tasks"]
    world.task["scorers"] = ["exact", "includes", {"regex": {"pattern": "q"}}]
    told = world.json("fork", "r", "--config", world.write(), "--run-dir", "g", code=0)
    assert told["rescored"] == 4
    world("resume", "g", code=0)
    metrics = world.json("report", "g")["tasks"]["t"]["m"]["metrics"]
    assert {name: figure["accuracy"]["n_trials"] for name, figure in metrics.items()} == dict.fromkeys(metrics, 4)


def test_fork_of_trials_that_lack_a_late_score(holdfast, world):
    """A trial whose new scorer had not judged it yet is kept with its answer, and judged in the fork."""
    world.data["concurrency_limit"] = 1
    world.run()
    world.task["scorers"] = ["exact", "includes"]
    command = ("resume", "r", "--config", world.write())
    assert holdfast(*command, HOLDFAST_CRASH_AT="frame.acknowledged:3").code == -9
    told = forked(world)
    assert told["taken"] + told["rescored"] == 4 and told["rescored"] > 0 and told["taken"] > 0
    report = finish(world, planned=4, made=0)
    metrics = report["tasks"]["t"]["m"]["metrics"]
    assert [metrics[name]["accuracy"]["n_trials"] for name in ("exact", "includes")] == [4, 4]


def test_fork_keeps_blocked_and_limited_trials(world):
    """A trial that ended without an answer is kept as it is, whatever scores it would have."""
    world.model["args"] = {
        "errors": [{"contains": "q2", "blocked": {}}],
        "rules": [{"contains": "q4", "reply": "a b c"}],
    }
    world.task["limits"] = {"tokens": 3}
    world.run(code=1)
    statuses = sorted(trial["status"] for trial in world.trials())
    assert statuses == ["blocked", "limited", "valid", "valid"]
    world.task["scorers"] = ["includes"]
    told = forked(world)
    assert (told["taken"], told["rescored"], told["remaining_by_reason"]) == (2, 2, {})
    assert "4 of 4" in world("resume", "f", code=1).out
    assert world.json("status", "f")["calls"]["made"] == 0


CHAIN = """
import os
from holdfast import Sample, Task, exact, task

async def solve(trial):
    first = await trial.generate(f"one {trial.sample.input}")
    second = await trial.generate(f"two {trial.sample.input}")
    while not os.path.exists("go"):
        pass
    return "done"

@task
def t():
    return Task(samples=[Sample("a", target="done"), Sample("b", target="done")], solver=solve, scorers=exact())
"""


def test_fork_keeps_the_steps_of_unfinished_trials(holdfast, server, world):
    """Replies of a trial that was killed half-way are not paid again in the fork."""
    (world.directory / "task.py").write_text(CHAIN)
    world.data["models"]["m"] = {"provider": "openai", "model": "counting", "base_url": server.base_url}
    world.data |= {"tasks": {"t": {"use": "task.py:t"}}, "datasets": {}, "concurrency_limit": 1}
    started = holdfast.start("run", world.write(), "--run-dir", "r")
    server.wait_for(answered=2)
    started.send(signal.SIGKILL)
    started.wait()
    steps = len(world.records("step"))
    world.data["max_retries"] = 5
    told = holdfast.json("fork", "r", "--config", world.write(), "--run-dir", "f", code=0)
    assert told["remaining_by_reason"] == {"unfinished in the run": 1, "not in the run yet": 1}
    (world.directory / "go").touch()
    before = server.state()["received"]
    holdfast("resume", "f", code=0)
    assert server.state()["received"] - before == 4 - steps
    status = holdfast.json("status", "f")
    assert (status["state"], status["calls"]["replayed"]) == ("complete", steps)


def test_fork_while_the_run_goes_on(holdfast, server, world):
    """A fork reads beside the session that works, and takes what is on record by then."""
    world.data["models"]["m"] = {"provider": "openai", "model": "counting", "base_url": server.base_url}
    world.task["target"] = "x"
    server.behave(hold=True, **{"pass": 2})
    started = holdfast.start("run", world.write(), "--run-dir", "r")
    server.wait_for(answered=2, in_flight=2)
    before = world.everything().keys()
    told = forked(world)
    assert told["taken"] <= 2 and sum(told["remaining_by_reason"].values()) + told["taken"] == 4
    assert world.everything().keys() == before
    server.behave()
    assert started.wait().code == 0


# A fork of tasks in Python.


CODE = """
from holdfast import Sample, Task, exact, generate, task

async def solve(trial):
    return (await trial.generate(trial.sample.input)).text

@task
def t():
    return Task(samples=[Sample("a", target="a"), Sample("b", target="b")], solver=SOLVE, scorers=exact(), system="S")
"""
EDITED = {
    "solver": ("trial.sample.input)", "trial.sample.input + '!')", 0, 0),
    "system": ('system="S"', 'system="T"', 0, 0),
    "comment": ("async def", "# told\nasync def", 2, 0),
    "scorer": ("scorers=exact()", "scorers=exact(ignore_case=True)", 0, 2),
    "sample": ('Sample("a", target="a")', 'Sample("c", target="c")', 1, 0),
    "target": ('Sample("a", target="a")', 'Sample("a", target="c")', 1, 1),
    "epochs": ('system="S"', 'system="S", epochs=2', 2, 0),
}


@pytest.mark.parametrize("name", EDITED)
def test_fork_of_a_python_task(holdfast, world, name):
    """What the code was is known by its digest: changed code keeps nothing, changed scoring keeps the answers."""
    (world.directory / "task.py").write_text(CODE.replace("SOLVE", "solve"))
    world.data |= {"tasks": {"t": {"use": "task.py:t"}}, "datasets": {}}
    world.run()
    old, new, taken, rescored = EDITED[name]
    (world.directory / "task.py").write_text(CODE.replace("SOLVE", "solve").replace(old, new))
    told = forked(world)
    assert (told["taken"], told["rescored"]) == (taken, rescored)
    finish(world, planned=told["planned"], made=told["planned"] - taken - rescored)


def test_fork_of_a_python_task_with_prompts(world):
    """Of the built-in solver's prompts only the variant that changed is asked again."""
    source = CODE.replace("SOLVE", 'generate({"x": "{input}", "y": "Y {input}"})')
    (world.directory / "task.py").write_text(source)
    world.data |= {"tasks": {"t": {"use": "task.py:t"}}, "datasets": {}}
    world.run()
    (world.directory / "task.py").write_text(source.replace("Y {input}", "Z {input}"))
    assert (forked(world)["taken"], forked(world, code=2)["kind"]) == (2, "usage")
    finish(world, planned=4, made=2)


def test_fork_after_the_task_file_moved(world):
    """The old file need not be there: the code is compared by its digest."""
    (world.directory / "task.py").write_text(CODE.replace("SOLVE", "solve"))
    world.data |= {"tasks": {"t": {"use": "task.py:t"}}, "datasets": {}}
    world.run()
    (world.directory / "task.py").rename(world.directory / "moved.py")
    world.data["tasks"]["t"]["use"] = "moved.py:t"
    assert forked(world)["taken"] == 2


def test_fork_from_python_to_yaml(world):
    """A task of another kind under the same name shares nothing with it."""
    (world.directory / "task.py").write_text(CODE.replace("SOLVE", "solve"))
    world.data |= {"tasks": {"t": {"use": "task.py:t"}}}
    world.run()
    world.data["tasks"]["t"] = TASK
    assert forked(world)["remaining_by_reason"] == {"its answer could differ": 4}
    finish(world, planned=4, made=4)


# The run that a fork makes.


def test_fork_with_set(world):
    """A refused setting can be forked with as it was given; without any change everything is kept."""
    world.run()
    told = world.json("fork", "r", "--set", "temperature=1", "--run-dir", "f", code=0)
    assert told["remaining_by_reason"] == {"its answer could differ": 4}
    assert world.json("fork", "r", "--run-dir", "same", code=0)["taken"] == 4
    finish(world, planned=4, made=4)


def test_fork_does_not_write_over_a_run(world):
    """A directory that holds anything is refused, and the run that is forked is not touched."""
    world.run()
    before = world.everything()
    told = world("fork", "r", "--config", world.write(), "--run-dir", "r", code=2)
    assert "already holds a run" in told.err
    assert world.everything() == before


POINTS = ["run.directory-made", "run.inputs-written", "frame.half-written", "frame.acknowledged:2"]


@pytest.mark.parametrize("point", [*POINTS, "run.session-synced", "run.renamed", "run.parent-synced", "session.ending"])
def test_fork_killed_leaves_nothing_or_the_whole(holdfast, world, point):
    """Killed at any point, there is no fork or a whole one; the same command, or a resume, goes on."""
    world.run()
    world.task["epochs"] = 2
    command = ("fork", "r", "--config", world.write(), "--run-dir", "f")
    assert holdfast(*command, HOLDFAST_CRASH_AT=point).code == -9
    if (world.directory / "f").exists():
        assert point not in POINTS
    else:
        assert '"taken": 4' in holdfast(*command, "--json", code=0).out
        assert not list(world.directory.glob(".f.*"))
    finish(world, planned=8, made=4)


def test_fork_of_a_fork_says_where_everything_is_from(world):
    """Steps and ends name the run they were taken over from; the header names the eval."""
    world.run()
    forked(world)
    notes = world("cat", "f", code=0).out
    assert notes.count('"source":') >= 8
    assert "kept from run " in notes
    assert "4 kept." in world("fork", "f", "--config", world.write(), "--run-dir", "g", code=0).out
    assert "complete, 4 of 4" in world("resume", "g", code=0).out
    header = (world.directory / "g/config.yaml").read_text()
    assert f"#   source: {world.directory}/eval.yaml" in header
