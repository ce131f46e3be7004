"""What is suggested after a mistake, and after a comparison: words that can be typed, and never the mistake itself."""

from __future__ import annotations

import pytest
from gate_world import MODEL

from holdfast import ResumeAborted, Sample, Task, evaluate, exact


def test_an_accepted_diff_ends_with_the_command_that_resumes(world):
    """As it has to be typed; without a difference there is nothing to resume with."""
    world.run()
    assert "Resume with" not in world("diff", "r", world.write(), code=0).out
    world.task["epochs"] = 2
    told = world("diff", "r", world.write(), code=0).out
    command = f"holdfast resume r --config {world.directory / 'eval.yaml'}"
    assert told.endswith(f"Resume with these changes: {command}\n")
    world(*command.split()[1:], code=0)
    world.check_complete(8)
    world.data["seed"] = 5
    assert "Resume with" not in world("diff", "r", world.write(), code=3).out


@pytest.mark.parametrize(
    ("setting", "meant"),
    [("t.epochs=3", "tasks.t.epochs"), ("m.args.x=1", "models.m.args.x"), ("rows.path=x", "datasets.rows.path")],
)
def test_the_name_of_an_entry_leads_to_its_path(world, setting, meant):
    """`--set` without the block that a task, a model or a dataset is in."""
    told = world("run", world.write(), "--dry-run", "--set", setting, code=2).err
    assert f"is not a key of the eval. Did you mean {meant}?" in told


def test_a_name_in_two_blocks_leads_to_both(world):
    world.data["models"]["t"] = MODEL
    told = world("run", world.write(), "--dry-run", "--set", "t.x=1", code=2).err
    assert "Did you mean models.t.x or tasks.t.x?" in told


def test_a_value_for_all_tasks_is_refused_once(world):
    """As a setting, and as an option."""
    world.data["tasks"]["u"] = world.data["tasks"]["v"] = world.task
    for words in (["--set", "limit=0"], ["--limit", "0"]):
        told = world("run", world.write(), "--dry-run", *words, code=2).err
        assert told.count("limit") == 1 and "problems" not in told


@pytest.mark.parametrize(("given", "found"), [("eval.yml", "eval.yaml"), ("evl.yaml", "eval.yaml")])
def test_a_file_that_is_nearly_named_is_suggested(world, given, found):
    """The other ending, or a slip."""
    world.write()
    assert f"{given} does not exist. Did you mean '{found}'?" in world("run", given, code=2).err
    assert "run `holdfast init`" in world("run", "other.yaml", code=2).err


@pytest.mark.parametrize(("given", "meant"), [("--max-samples", "--limit"), ("--log-dir", "--run-dir")])
def test_options_of_other_tools_lead_to_ours(world, given, meant):
    """Only to one that the command has."""
    assert f"Did you mean '{meant}'?" in world("run", world.write(), given, "3", code=2).err
    assert f"Did you mean '{meant}'?" not in world("status", given, "3", code=2).err


def test_what_is_known_is_listed_beside_what_is_near(world):
    """`--fail-under` and `--where`."""
    world.task["scorers"] = ["exact", "includes"]
    world.run()
    told = world("report", "r", "--fail-under", "t.nope=1", code=2).err
    assert "There are: t.exact, t.includes." in told
    assert "write one of scores.exact, scores.includes" in world("show", "r", "--where", "score<1", code=2).err


def test_a_model_is_not_its_own_base(world):
    world.data["models"]["n"] = {"base": "zzzz"}
    told = world("run", world.write(), "--dry-run", code=2).err
    assert 'models.n.base names the unknown model "zzzz"; known here: m.' in told


def test_a_missing_file_of_code_is_named_with_its_key(world):
    """In an eval file; where a Python file was given on the command line, nobody has written a key."""
    world.data["tasks"] = {"c": {"use": "nope.py:x"}}
    assert "eval.yaml: tasks.c.use: The file nope.py does not exist." in world("run", world.write(), code=2).err
    told = world("run", "nope.py:x", "--model", "scripted/echo", code=2).err
    assert told.startswith("holdfast: The file nope.py does not exist.")


def test_other_models_in_python_are_told_of_another_run(tmp_path):
    """The way out that hardly anybody thinks of after a refusal: a run beside this one."""
    made = Task(name="t", samples=[Sample("a", target="a")], scorers=exact())
    evaluate(made, "scripted/echo", run=tmp_path / "m1", progress=False).close()
    with pytest.raises(ResumeAborted) as refused:
        evaluate(made, "scripted/fixed", run=tmp_path / "m1", progress=False)
    assert "it has none of the run's models, only others" in str(refused.value)
    assert "a run of its own beside this one: evaluate(tasks, models, run='NEW')" in str(refused.value)
