"""The sampling of a task is part of what is asked: a resume with another one is refused, field by field."""

from __future__ import annotations

import copy

import pytest
from schema_values import add_prices

from holdfast.sampling.strategies.repair import Rejection

SAMPLING = {"strategy": "rejection", "loop_budget": 2, "concurrency_budget": 2, "budget": {"calls": 3}}
CHANGES = {
    "strategy": "repair",
    "loop_budget": 3,
    "concurrency_budget": 1,
    "selection": "best",
    "requirements": ["python"],
    "short_circuit": True,
    "budget.calls": 4,
    "budget.tokens": 100,
    "budget.cost": 0.5,
    "budget.time": 60.0,
}


@pytest.fixture
def sampled(world):
    """A run whose task draws candidates; it died before its first trial."""
    world.data["models"]["other"] = {"provider": "scripted", "model": "echo"}
    world.task["models"] = ["m"]
    world.task["sampling"] = copy.deepcopy(SAMPLING)
    add_prices(world.data)
    world.begin()
    return world


@pytest.mark.parametrize("name", CHANGES)
def test_resume_12_a_changed_field_of_a_sampling_is_refused_by_its_name(sampled, name):
    """With its class, both values, and the way out; nothing is written."""
    block, _, key = name.rpartition(".")
    place = sampled.task["sampling"].setdefault(block, {}) if block else sampled.task["sampling"]
    place[key] = CHANGES[name]
    said = sampled.refused()
    assert f"tasks.t.sampling.{name} (identity): " in said
    assert said.count("(identity)") == 1
    assert "`holdfast fork` starts a run with it" in said


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        ({"strategy": "vote"}, {"strategy": "vote", "vote": "similarity"}, "vote"),
        ({"strategy": "vote"}, {"strategy": "vote", "extract": "a"}, "extract"),
        (
            {"strategy": "escalate", "loop_budget": 3, "escalate_to": ["other"]},
            {"strategy": "escalate", "loop_budget": 3, "escalate_to": ["other", "m"]},
            "escalate_to",
        ),
    ],
)
def test_resume_12_what_single_strategies_have_is_refused_by_its_name(world, before, after, path):
    """Fields of one strategy are compared like all others."""
    world.data["models"]["other"] = {"provider": "scripted", "model": "echo"}
    world.task["models"], world.task["sampling"] = ["m"], before
    world.begin()
    world.task["sampling"] = after
    assert f"tasks.t.sampling.{path} (identity): " in world.refused()


def test_resume_12_a_sampling_that_comes_or_goes_is_refused(sampled):
    """A task that draws is another task than one that asks once."""
    del sampled.task["sampling"]
    assert "tasks.t.sampling (identity): " in sampled.refused()


def test_resume_12_a_sampling_is_not_added_to_a_run(world):
    """The other way round as well."""
    world.begin()
    world.task["sampling"] = SAMPLING
    assert "tasks.t.sampling (identity): unset → " in world.refused()


def test_resume_12_a_strategy_that_decides_otherwise_in_another_version_is_refused_as_such(sampled, monkeypatch):
    """No code of the user's has changed, and none is said to have."""
    monkeypatch.setattr(Rejection, "revision", Rejection.revision + 1)
    said = sampled.refused()
    why = "this version of Holdfast draws or checks candidates differently"
    assert f"tasks.t.sampling (identity): {why}" in said


def test_resume_12_beside_a_function_that_is_as_it_was_another_version_is_named(sampled, monkeypatch):
    """The file of the function is not blamed."""
    (sampled.directory / "checks.py").write_text("def is_short(text):\n    return len(text) < 9\n")
    sampled.task["sampling"]["requirements"] = [{"function": "checks.py:is_short"}]
    sampled("run", sampled.write(), "--run-dir", "other", code=0)
    monkeypatch.setattr(Rejection, "revision", Rejection.revision + 1)
    monkeypatch.setattr("holdfast.engine.opening.comparing.ways_out.__version__", "9.9")
    said = sampled("resume", "other", code=3).err
    # It may be a package that has changed: the earlier version need not be a way out.
    assert "with the Holdfast that recorded it" not in said and "undo the changes" not in said
    why = "the files of the requirements are unchanged, but Holdfast or a package that they use has changed"
    assert f"tasks.t.sampling (identity): {why}" in said


def test_resume_6_written_otherwise_it_is_the_same_sampling(sampled):
    """Explicit defaults, null and the order of keys are no differences."""
    written = {
        "short_circuit": False,
        "selection": "first",
        "requirements": [],
        "vote": None,
        "extract": None,
        **dict(reversed(SAMPLING.items())),
        "budget": {"time": None, "calls": 3},
    }
    sampled.task["sampling"] = written
    assert sampled.json("diff", "r", sampled.write(), code=0)["differences"] == []


def test_resume_12_deterministic_is_refused_with_the_selection_that_it_brings(sampled):
    """An eval that becomes deterministic asks with seeds."""
    sampled.data["deterministic"] = True
    said = sampled.refused()
    assert "  deterministic (identity): unset → true" in said
    assert "tasks.t.sampling.selection (identity): first → deterministic" in said


def test_a_price_may_not_change_under_a_cap_on_the_cost_of_a_sampling(world):
    """It decides how many candidates there are; without the cap it is applied."""
    world.model["price"] = {"input": 1, "output": 1}
    world.task["sampling"] = {**SAMPLING, "budget": {"cost": 0.5}}
    world.begin()
    world.model["price"] = {"input": 2, "output": 1}
    assert "models.m.price.input (identity): 1" in world.refused()


def test_a_python_task_takes_the_sampling_of_the_file_unless_its_solver_is_code(world):
    """generate(...) can be sampled; for a function the refusal comes before anything is written."""
    source = """
from holdfast import Sample, Task, exact, generate, task

async def own(trial):
    return await trial.generate(trial.sample.input)

@task
def t(plain: bool = True):
    return Task(samples=[Sample("x", target="x")], solver=generate() if plain else own, scorers=exact())
"""
    (world.directory / "task.py").write_text(source)
    world.data["tasks"]["t"] = {"use": "task.py:t", "sampling": SAMPLING}
    assert world.json("run", world.write(), "--dry-run", code=0)["forecast"][0]["sampling"]["lanes"] == 2
    world.data["tasks"]["t"]["args"] = {"plain": False}
    said = world("run", world.write(), "--run-dir", "r", code=2).err
    assert "tasks.t.sampling: the solver of this Python task is code of its own" in said
    assert not world.run_dir.exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [("Answer in French.", "Answer in German."), ("return False", "return True")],
    ids=["the docstring that the model is told", "the code"],
)
def test_a_function_requirement_is_compared_with_what_the_model_is_told(world, old, new):
    """Its docstring is the description, unless it is given one: it counts, unlike docstrings elsewhere."""
    source = 'def checked(text):\n    """Answer in French."""\n    # why\n    return False\n'
    (world.directory / "checks.py").write_text(source)
    world.task["sampling"] = {**SAMPLING, "requirements": [{"function": "checks.py:checked"}]}
    world.begin()
    (world.directory / "checks.py").write_text(source.replace("# why", "# because"))
    assert world.json("diff", "r", world.write(), code=0)["differences"] == []
    (world.directory / "checks.py").write_text(source.replace(old, new))
    assert "tasks.t.sampling (identity)" in world.refused()


OWN_SOURCE = """
from holdfast import Sample, Task, exact, generate, task
from holdfast.sampling import Changes, Repair, SamplingHook, sampled


class Mine(Repair):
    def __init__(self, tone, **options):
        super().__init__(**options)
        self.tone = tone

    def repair(self, messages, candidates):
        return messages if self.tone == "kind" else ()


class Sets(SamplingHook):
    def __init__(self, loops):
        self.loops, self.seen = loops, []

    def start(self, event):
        self.seen.append(event)
        return Changes(loop_budget=self.loops)


@task
def t():
    strategy = Mine("kind", loop_budget=1, budget_ceiling=(4, 1), hooks=[Sets(4)])
    return Task(samples=[Sample("x", target="x")], solver=sampled(generate(), strategy=strategy), scorers=exact())
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('Mine("kind"', 'Mine("rude"'),
        ("Sets(4)", "Sets(3)"),
        ("budget_ceiling=(4, 1)", "budget_ceiling=(2, 1)"),
        ("hooks=[Sets(4)]", "hooks=[]"),
        ("else ()", "else messages[:1]"),
    ],
)
def test_resume_12_what_strategies_and_hooks_of_ones_own_hold_is_compared(world, old, new):
    """With what they were made decides what is asked, as much as their code."""
    file = world.directory / "task.py"
    file.write_text(OWN_SOURCE)
    world.data["tasks"]["t"], world.data["datasets"] = {"use": "task.py:t"}, {}
    world.begin()
    assert world.json("diff", "r", world.write(), code=0)["differences"] == []
    assert old in OWN_SOURCE
    file.write_text(OWN_SOURCE.replace(old, new))
    told = world.refused()
    assert "tasks.t.sampling (identity): " in told and "has changed" in told
