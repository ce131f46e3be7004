"""Axes of a task: the grid, what is special about values, growth, choices between values, and the report per axis."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from gate_world import MODEL, make_rows

from holdfast.engine.dependencies.choosing import Dependency, are_finished
from holdfast.run.core.axes.choices import waiting_reason
from holdfast.run.core.layout import Layout
from holdfast.run.core.result_file import read_results, write_result_file
from holdfast.run.fold.run_fold import Group
from holdfast.run.fold.states import State
from holdfast.storage import RealFileSystem

TIERS = {"T0": {"prompt": "{question}"}, "T1": {"prompt": "{axes.tier} {axes.part}: {question}"}}
AXES: dict[str, Any] = {"tier": TIERS, "part": ["a", "b"]}


@pytest.fixture
def grid(world):
    """A task with 2 x 2 combinations of 4 samples."""
    del world.task["prompt"]
    world.task["axes"] = json.loads(json.dumps(AXES))
    world.task["scorers"] = ["includes"]
    return world


def asked(world) -> set[str]:
    return {step["request"]["messages"][-1]["content"] for step in world.records("step")}


def combinations(world) -> set[tuple[str, str]]:
    return {(trial["axes"]["tier"], trial["axes"]["part"]) for trial in world.trials()}


# The grid.


def test_experiments_1_the_grid_is_the_product_of_axes_and_epochs(grid):
    """Every sample with every combination and epoch, each with its own text; `--dry-run` shows the grid first."""
    grid.task["epochs"] = 2
    told = grid("run", grid.write(), "--dry-run", code=0).out
    assert "4 samples x 4 combinations x 2 epochs x 1 model = 32 trials" in told
    assert "grid: 2 part x 2 tier" in told and "part: a 16, b 16" in told and "tier: T0 16, T1 16" in told
    grid.run()
    grid.check_complete(32)
    assert len(combinations(grid)) == 4
    assert asked(grid) >= {"q1", "T1 a: q1", "T1 b: q4"} and len(asked(grid)) == 12


def test_experiments_1_include_and_exclude_filter_the_grid(grid):
    """Patterns name some axes or all; the dry run counts what is left, as text and as JSON."""
    grid.task["include"] = [{"tier": "T0"}, {"tier": "T1", "part": "b"}]
    grid.task["exclude"] = [{"tier": "T0", "part": "b"}]
    found = grid.json("run", grid.write(), "--dry-run", code=0)
    assert found["planned"] == 8
    assert found["grid"] == {
        "t": {"combinations": 2, "trials": 8, "axes": {"part": {"a": 4, "b": 4}, "tier": {"T0": 4, "T1": 4}}}
    }
    assert found["plan"][0]["axes"] == {"part": {"a": 4, "b": 4}, "tier": {"T0": 4, "T1": 4}}
    assert "= 4, 2 after include and exclude" in grid("run", grid.write(), "--dry-run", code=0).out
    grid.run()
    assert combinations(grid) == {("T0", "a"), ("T1", "b")}
    grid.check_complete(8)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"include": [{"teir": "T0"}]}, "tasks.t.include[0].teir is not an axis of the task; did you mean tier?"),
        (
            {"exclude": [{"tier": "T01"}]},
            'exclude[0].tier is "T01", which is not a value of that axis; did you mean T1',
        ),
        ({"exclude": [{"tier": "T0"}, {"tier": "T1"}]}, "leave no combination of axis values"),
        ({"include": [{}]}, "tasks.t.include[0] names no axis"),
        ({"axes": {}, "include": [{"tier": "T0"}]}, "the task has no axes"),
        ({"axes": {"tier": []}}, "tasks.t.axes.tier has no values"),
        ({"axes": {"tier": ["a", "a"]}}, "a second time; keep one"),
        ({"axes": {"tier": [1, 2]}}, "put it in quotes"),
        ({"axes": {"tier": [1.0]}}, "put it in quotes"),
        ({"axes": {"tier": [True, False]}}, "put it in quotes"),
        ({"axes": {"model": ["a"]}}, "has the name of something that every trial has"),
        ({"axes": {"prompt": ["a"]}}, "give several prompts under `prompt`"),
        ({"axes": {" x": ["a"]}}, "not a usable name"),
        (
            {"axes": {"tier": {"a": {"promt": "x"}}}},
            "tasks.t.axes.tier.a.promt is not a known key; did you mean prompt",
        ),
        ({"axes": {"tier": {"a": {"model": "n"}}}}, 'tasks.t.axes.tier.a.model is "n", which is unknown'),
        ({"axes": {"tier": {"a": {"args": {"n": 1}}}}}, "args is for code"),
        ({"axes": {"tier": {"a": {"files": {"../x": "y"}}}}}, "not a path inside the workspace"),
        ({"axes": {"tier": {"a": {"files": {"x": "gone"}}}}}, "gone does not exist"),
        ({"axes": {"x": {"a": {"prompt": "p"}}, "y": {"b": {"prompt": "p"}}}}, "give it on one axis only"),
        ({"axes": {"tier": {"a": {"best_of": ["b"]}, "b": {"best_of": ["a"]}}}}, "a needs b needs a"),
        ({"axes": {"tier": {"a": {"best_of": ["a"]}}}}, "a needs a"),
        ({"axes": {"tier": {"a": {"best_of": ["bb"]}, "b": {}}}}, 'is "bb", which is not a value of that axis'),
        ({"axes": {"tier": {"a": {"scorer": "exact"}, "b": {}}}}, "there is no best_of"),
        ({"axes": {"tier": {"a": {"best_of": ["b"], "scorer": "x"}, "b": {}}}}, "which the task does not have"),
        ({"axes": {"tier": {"a": {"prompt": "{axes.teir}"}}}}, "axes.teir"),
    ],
)
def test_axes_that_make_no_sense_are_refused_by_name(world, change, words):
    """Before anything is written; the message names the place, and the nearest name where there is one."""
    world.task.update({"axes": {"tier": ["T0", "T1"]}, **change})
    told = world("run", world.write(), "--run-dir", "r", code=2)
    assert words in told.err
    assert not world.run_dir.exists()


def test_names_of_any_kind(world):
    """Spaces, slashes, equals signs, other scripts: names are text, in trials, expressions and reports."""
    world.task["axes"] = {"größe/ö = 1": ["a=b", "c d/e", "日本"], "one": ["only"]}
    world.run()
    world.check_complete(12)
    assert "4 of 12" in world("show", "r", "--where", "'größe/ö = 1'='日本'", code=0).out
    assert set(world.report()["tasks"]["t"]["m"]["by_axis"]["axes"]["größe/ö = 1"]) == {"a=b", "c d/e", "日本"}


def test_a_large_grid_is_planned_without_being_listed(world):
    """50 x 50 combinations: planned, filtered and counted per value."""
    values = [f"v{number}" for number in range(50)]
    world.task["axes"] = {"x": values, "y": values}
    world.task["exclude"] = [{"x": "v0"}]
    found = world.json("run", world.write(), "--dry-run", code=0)
    assert found["planned"] == 49 * 50 * 4 and found["grid"]["t"]["axes"]["y"]["v49"] == 49 * 4


def test_a_value_with_a_model_is_run_with_that_model_only(grid):
    """The model is added to those of the task for this value alone; keys, where and report use its name."""
    grid.data["models"]["large"] = MODEL
    grid.task["models"] = ["m"]
    grid.task["axes"]["tier"]["T1"]["model"] = "large"
    grid.run()
    grid.check_complete(16)
    assert {(trial["model"], trial["axes"]["tier"]) for trial in grid.trials()} == {("m", "T0"), ("large", "T1")}
    assert grid.report()["tasks"]["t"]["large"]["coverage"]["planned"] == 8


def test_system_texts_args_and_files_reach_the_solver(world):
    """A solver of one's own reads what its values give: texts, arguments, files, and the rendered prompt."""
    (world.directory / "notes.md").write_text("be brief")
    (world.directory / "solver.py").write_text(
        "from pathlib import Path\n"
        "async def solve(trial):\n"
        "    files = {path: Path(source).read_text() for path, source in trial.axis_files.items()}\n"
        "    return f'{trial.sample.input}|{dict(trial.args)}|{files}|{dict(trial.axes)}|{dict(trial.chosen)}'\n"
    )
    world.task.update(solver="solver.py:solve", scorers=["includes"], prompt="Q: {question}")
    world.task["axes"] = {
        "tier": {"T0": {}, "T1": {"prompt": "{axes.tier}? {question}", "args": {"n": 3}, "files": {"N.md": "notes.md"}}}
    }
    world.rows = make_rows(1)
    world.run()
    answers = {answer["text"] for answer in world.records("answer")}
    assert answers == {
        "Q: q1|{}|{}|{'tier': 'T0'}|{}",
        "T1? q1|{'n': 3}|{'N.md': 'be brief'}|{'tier': 'T1'}|{}",
    }
    shown = {row["axes"]["tier"]: row["input"] for row in world.json("show", "r", code=0)["trials"]}
    assert shown == {"T0": "Q: q1", "T1": "T1? q1"}
    (world.directory / "notes.md").write_text("be long")
    assert "tasks.t.axes (identity): the content of tier=T1: N.md has changed" in world.refused()


PYTHON = """
from holdfast import Sample, Task, task

async def solve(trial):
    return f"{trial.axes['tier']} {trial.args['n']}"

@task
def t(n: int = 1):
    tiers = {"tier": ["T0", "T1"]}
    return Task(samples=[Sample("q", id="s", target="T")], solver=solve, scorers="includes", axes=tiers)
"""


def test_a_python_task_is_widened_by_the_eval(world):
    """The eval adds values to the axes of the code, and filters them; it may grow later."""
    (world.directory / "task.py").write_text(PYTHON)
    world.data["tasks"]["t"] = {"use": "task.py:t", "axes": {"tier": {"T2": {"args": {"n": 2}}}}}
    world.task["exclude"] = [{"tier": "T0"}]
    world.run()
    assert {answer["text"] for answer in world.records("answer")} == {"T1 1", "T2 2"}
    world.task["axes"]["tier"]["T3"] = {}
    del world.task["exclude"]
    told = world.resume(code=0)
    assert "tasks.t.axes.tier: unset → T3" in told.err and "tasks.t.exclude: unset → tier=T0" in told.err
    assert "2 of 4 trials are finished" in told.err
    world.task["axes"] = {"tier": ["T9"]}
    world.task["include"] = [{"tier": "T9"}]
    told = world.resume(code=0)
    assert "tasks.t.include: tier=T0 → left out; existing results are kept" in told.err
    assert world.status()["planned"] == 5
    world.task["include"] = [{"tier": "T0"}, {"teir": "T1"}]
    assert "teir is not an axis of the task; did you mean tier?" in world.resume(code=2).err


# Growth, and what may not change.


def test_resume_16_axis_values_are_added(grid):
    """Only the trials of the new value are run, announced with their number; the others are not asked again."""
    grid.run()
    before = grid.trials()
    grid.task["axes"]["tier"]["T2"] = {"prompt": "two {question}"}
    told = grid.resume(code=0)
    assert grid.entries == ["tasks.t.axes.tier: unset → T2"]
    assert "Added: 8 trials, 24 in all" in told.err
    assert grid.trials()[:16] == before
    grid.check_complete(24)


def test_resume_17_and_experiments_17_fewer_values_are_offered(grid):
    """The saved ones stand, which is said: never a new start, and what remains of them is run."""
    grid.begin()
    del grid.task["axes"]["tier"]["T0"]
    grid.task["axes"]["part"] = ["b"]
    told = grid.resume(code=0)
    assert "tasks.t.axes.tier: T0 → left out; existing results are kept" in told.err
    assert "tasks.t.axes.part: a → left out; existing results are kept" in told.err
    assert "fresh" not in told.err and grid.entries == []
    grid.check_complete(16)


def test_resume_16_and_17_combinations_come_and_go(grid):
    """What `exclude` no longer leaves out is run; what it newly leaves out is kept."""
    grid.task["exclude"] = [{"tier": "T0", "part": "b"}]
    grid.run()
    grid.check_complete(12)
    grid.task["exclude"] = [{"tier": "T1", "part": "b"}]
    told = grid.resume(code=0)
    assert "tasks.t.exclude: part=b, tier=T1 → left out; existing results are kept" in told.err
    assert grid.entries == ["tasks.t.exclude: unset → part=b, tier=T0"]
    grid.check_complete(16)
    assert "complete, 16 of 16" in grid("resume", "r", code=0).out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda axes: axes["tier"]["T1"].update(prompt="x {question}"), "tasks.t.axes.tier.T1.prompt (identity): "),
        (lambda axes: axes["tier"]["T1"].update(system="x"), "tasks.t.axes.tier.T1.system (identity): "),
        (lambda axes: axes.update(third=["x"]), "tasks.t.axes (identity): part, tier → part, third, tier"),
        (lambda axes: axes.pop("part"), "tasks.t.axes (identity): part, tier → tier"),
        (lambda axes: axes["tier"].update(T7=axes["tier"].pop("T1")), "tasks.t.axes.tier.T1 (identity): T1 → T7"),
    ],
)
def test_resume_7_and_68_what_may_not_change_names_axis_value_and_field(grid, change, words):
    """A changed text, other axes, and a value under another name are refused, with `fork` as the way out."""
    grid.run()
    grid.task["axes"]["tier"]["T1"]["prompt"] = "{axes.part}: {question}"
    grid.task["axes"] = json.loads(json.dumps(AXES))
    change(grid.task["axes"])
    told = grid.refused()
    assert words in told and "`holdfast fork`" in told and "Ways out" in told


def test_a_fork_keeps_what_a_changed_value_does_not_affect(grid):
    """Another text of one value: the trials of the other one are kept."""
    grid.run()
    grid.task["axes"]["tier"]["T1"]["prompt"] = "other {question}"
    told = grid.json("fork", "r", "--config", grid.write(), "--run-dir", "f", code=0)
    assert (told["taken"], told["planned"]) == (8, 16)


def test_experiments_29_only_selected_values_are_run(grid):
    """`--where` on an axis runs those; nothing else is started, changed or called complete."""
    grid.begin()
    told = grid("resume", "r", "--where", "tier=T0", code=0)
    assert "Complete" not in told.out
    assert {trial["axes"]["tier"] for trial in grid.trials()} == {"T0"}
    status = grid.status()
    assert (status["state"], status["finished"], status["remaining"]) == ("incomplete", 8, 8)
    assert "did you mean" in grid("resume", "r", "--where", "teir=T0", code=2).err
    grid("resume", "r", code=0)
    grid.check_complete(16)


# Values that depend on others.


def best(world, scripted: dict[str, str] | None = None, **more: Any) -> None:
    """T5 takes the better of T0 and T1; the scripted model answers right where the prompt says so."""
    world.task.pop("prompt", None)
    world.data["models"]["m"] = {
        "provider": "scripted",
        "model": "s",
        "args": {
            "rules": [{"contains": text, "reply": reply} for text, reply in (scripted or {}).items()],
            "default": "x",
        },
    }
    world.task.update(scorers=["includes"], target="yes")
    world.task["axes"] = {
        "tier": {
            "T0": {"prompt": "zero {question}"},
            "T1": {"prompt": "one {question}"},
            "T5": {"best_of": ["T0", "T1"]},
        },
        "part": ["a", "b"],
        **more,
    }


def notes(world, run: str = "r") -> list[dict[str, Any]]:
    return [note for note in world.records("note", run) if note["kind"] == "axis choice"]


def test_experiments_16_the_best_value_feeds_the_next(world):
    """T5 starts when all others are finished, with what the best has; the choice is recorded before its first trial."""
    best(world, {"one": "yes yes", "zero": "no"})
    world.run()
    world.check_complete(24)
    (note,) = notes(world)
    assert note["data"]["chosen"] == "T1" and note["data"]["scorer"] == "includes"
    assert [one["median"] for one in note["data"]["candidates"]] == [0, 1]
    lines = [json.loads(line) for line in world("cat", "r", code=0).out.splitlines()]
    place = next(index for index, line in enumerate(lines) if line.get("kind") == "axis choice")
    tiers = [(index, line["axes"]["tier"]) for index, line in enumerate(lines) if line["type"] == "trial"]
    assert all((index > place) == (tier == "T5") for index, tier in tiers)
    status = world.status()
    assert status["choices"][0]["value"] == "T5" and status["choices"][0]["chosen"] == "T1"
    assert "tier T5 takes T1" in world("status", "r", code=0).out
    five = [row for row in world.json("show", "r", code=0)["trials"] if row["axes"]["tier"] == "T5"]
    assert {row["input"] for row in five} == {f"one q{number}" for number in range(1, 5)}


def test_experiments_16_ties_go_to_the_fewest_tokens_then_to_the_order(world):
    """Equal medians: the cheaper one; equal in that too: the first of the axis, whatever the order of `best_of`."""
    best(world, {"one": "yes", "zero": "yes and much more of it"})
    world.run()
    assert notes(world)[0]["data"]["chosen"] == "T1"
    best(world, {"e": "yes"})
    world.task["axes"]["tier"]["T1"]["prompt"] = "zwei {question}"
    world.task["axes"]["tier"]["T5"]["best_of"] = ["T1", "T0"]
    world("run", world.write(), "--run-dir", "s", code=0)
    assert notes(world, "s")[0]["data"]["chosen"] == "T0"


def test_experiments_16_a_choice_holds_whatever_becomes_of_the_scores(world):
    """Later sessions use the recorded choice, also when answers are scored again and more is run."""
    best(world, {"one": "yes", "zero": "no"})
    world.task["axes"]["part"] = ["a"]
    world.run()
    world.task["target"] = "no"
    world("rescore", "r", "--config", world.write(), code=0)
    world.task["axes"]["part"] = ["a", "b"]
    world.resume(code=0)
    assert len(notes(world)) == 1
    five = [row for row in world.json("show", "r", code=0)["trials"] if row["axes"]["tier"] == "T5"]
    assert {row["input"].split()[0] for row in five} == {"one"} and len(five) == 8


def test_experiments_16_nothing_to_choose_from_is_a_reason_to_wait(world):
    """Trials whose values have no score remain for a named reason, with exit code 1, and are never started."""
    best(world)
    world.data["models"]["m"]["args"] = {"replies": {}, "rules": [{"contains": "one", "reply": "yes"}]}
    (world.directory / "solver.py").write_text(
        "async def solve(trial):\n"
        "    if trial.sample.input.startswith('zero'):\n"
        "        raise ValueError('broken')\n"
        "    return 'yes'\n"
    )
    world.task.update(solver="solver.py:solve", max_retries=0)
    told = world.run(code=1)
    assert "8 waiting for tier T0, T1" in told.out + told.err
    assert notes(world) == [] and "T5" not in {trial["axes"]["tier"] for trial in world.trials()}
    counts = world.status()
    assert counts["remaining_by_reason"]["waiting for tier T0, T1"] == 8
    assert world("resume", "r", code=1).out
    assert notes(world) == []


def test_experiments_16_a_range_of_values_is_named_as_one(world):
    """The reason names the first and the last of several that follow one another on the axis, and all others."""
    best(world, {"e": "yes"})
    tier = world.task["axes"]["tier"]
    tier.update(T2={"prompt": "two {question}"}, T5={"best_of": ["T2", "T0", "T1"]})
    world.task["axes"]["tier"] = {name: tier[name] for name in ("T0", "T1", "T2", "T5")}
    world.begin()
    assert world.status()["remaining_by_reason"]["waiting for tier T0–T2"] == 8  # noqa: RUF001 - a range
    assert waiting_reason("x", ["a", "c", "d"], ["a", "b", "c", "d"]) == "waiting for x a, c, d"


def test_experiments_16_lines_of_choices(world):
    """T6 takes T5, which takes T1: what neither gives itself comes from T1."""
    best(world, {"one": "yes", "zero": "no"})
    world.task["axes"]["tier"]["T6"] = {"best_of": ["T5", "T0"]}
    world.run()
    assert [note["data"]["chosen"] for note in notes(world)] == ["T1", "T5"]
    six = [row for row in world.json("show", "r", code=0)["trials"] if row["axes"]["tier"] == "T6"]
    assert {row["input"].split()[0] for row in six} == {"one"}
    world.check_complete(32)


def test_experiments_29_selecting_a_value_that_waits_starts_nothing(world):
    """What it depends on is not selected, so it waits; and selecting the others makes no choice."""
    best(world, {"one": "yes", "zero": "no"})
    world.begin()
    assert "waiting for tier T0, T1" in str(world.status()["remaining_by_reason"])
    world("resume", "r", "--where", "tier=T5", code=1)
    world("resume", "r", "--where", "tier!=T5", code=0)
    assert notes(world) == [] and len(world.trials()) == 16
    world("resume", "r", "--where", "tier=T5", code=0)
    assert notes(world)[0]["data"]["chosen"] == "T1"
    world.check_complete(24)


def test_experiments_16_surplus_trials_of_one_value_do_not_stand_for_missing_ones_of_another():
    """Trials that are no longer planned are still on record."""

    def standing(tier, trials, state):
        return SimpleNamespace(group=Group("t", "m", {"tier": tier}), trials=trials, state=state)

    task = SimpleNamespace(name="t", planned_by_value=lambda _: {"tier": {"T0": 4, "T1": 4}})
    one = Dependency(task, "m", "tier", "T5", SimpleNamespace(best_of=("T0", "T1"), scorer=""))
    for missing, expected in ((1, False), (0, True)):
        found = [standing("T0", 5, State.VALID), standing("T1", 4 - missing, State.VALID)]
        found.append(standing("T1", missing, State.UNFINISHED))
        assert are_finished(SimpleNamespace(standings=dict(enumerate(found))), one) is expected


def test_experiments_15_from_score_on_a_value_that_depends_on_others_asks_nothing(world):
    """Trials of a later wave are entered at the stage like any other: their answers are scored again."""
    best(world, {"one": "yes", "zero": "no"})
    world.run()
    asked = len(world.records("step"))
    world("resume", "r", "--from", "score", "--where", "tier=T5", code=0)
    assert len([step for step in world.records("step") if step.get("model")]) == asked
    assert sum(trial["attempt"] == 2 for trial in world.trials() if trial["axes"]["tier"] == "T5") == 8


@pytest.mark.parametrize("how", ["run", "resume", "or-resume"])
@pytest.mark.parametrize(("stage", "code", "answers"), [("solve", 75, 16), ("score", 0, 24)])
def test_experiments_14_until_a_stage_where_values_depend_on_others(world, how, stage, code, answers):
    """Values that wait for scores wait for a later session; once the scores are there, they are chosen as ever."""
    best(world, {"one": "yes", "zero": "no"})
    if how != "run":
        world.begin()
    if how == "resume":
        world("resume", "r", "--until", stage, code=code)
    else:
        world.run("--until", stage, *(["--or-resume"] if how == "or-resume" else []), code=code)
    assert len(world.records("answer")) == answers
    assert len(notes(world)) == (stage == "score")
    again = world("resume", "r", "--until", stage, code=code if stage == "solve" else 0)
    assert "Traceback" not in again.err and len(world.records("answer")) == answers
    world("resume", "r", code=0)
    status = world.status()
    assert (status["state"], status["finished"], status["calls"]["made"]) == ("complete", 24, 24)
    # Nothing is left to choose, so every stage is passed.
    world("resume", "r", "--until", stage, code=0)


def lose_journal(world) -> None:
    shutil.rmtree(world.run_dir / "journal")
    for path in world.run_dir.glob(".index*"):
        path.unlink()


def rerun_with_more(world) -> set[str]:
    """What T5 was asked with after a resume, in which T0 would be the better one over all samples."""
    world.write_rows(make_rows(12))
    world("resume", "r", "--config", world.write(), code=0)
    five = [row for row in world.json("show", "r", code=0)["trials"] if row["axes"]["tier"] == "T5"]
    assert len(five) == 24
    return {row["input"].split()[0] for row in five}


SCRIPT = {
    f"{tier} q{number}": "yes" if (number < 5) == (tier == "one") else "no"
    for number in range(12, 0, -1)
    for tier in ("zero", "one")
}
"""T1 is right on the first four samples, and T0 on all others."""


def test_recovery_13_a_choice_is_kept_by_a_repair_without_a_journal(world):
    """Result files say what was chosen for their trials: later trials are run with that, and nothing is mixed."""
    best(world, SCRIPT)
    world.data["result_files"] = True
    world.run()
    (before,) = notes(world)
    lose_journal(world)
    told = world.json("repair", "r", code=0)
    assert told["after"] == 24 and "tier T5 takes T1" in str(told["changes"])
    (after,) = notes(world)
    assert after["data"]["chosen"] == before["data"]["chosen"] == "T1"
    assert world.json("repair", "r", code=0)["changes"] == []
    assert rerun_with_more(world) == {"one"}


def spoil(world, change) -> None:
    """Writes result files of T5 anew; `change` gets their records in order."""
    fs, layout = RealFileSystem(), Layout(world.run_dir)
    found = [one for one in read_results(layout) if one.trial.axes["tier"] == "T5"]
    for number, one in enumerate(sorted(found, key=lambda one: one.trial.at)):
        write_result_file(fs, layout, msgspec.structs.replace(one.trial, chosen=change(number)), one.answer)


def test_recovery_16_results_with_another_choice_are_listed_and_not_recorded(world):
    """What most files say counts; the others are named with both values."""
    best(world, {"one": "yes", "zero": "no"})
    world.data["result_files"] = True
    world.run()
    spoil(world, lambda number: {"tier": "T0" if number == 7 else "T1"})
    lose_journal(world)
    told = world.json("repair", "r", code=1)
    assert told["after"] == 23
    assert "it was made with T0 as the choice for tier T5; the choice of the run is T1" in str(told["faults"])
    assert world.status()["choices"][0]["chosen"] == "T1"


def test_recovery_13_a_choice_that_nobody_knows_is_named(world):
    """As in files of runs that did not say it."""
    best(world, {"one": "yes", "zero": "no"})
    world.data["result_files"] = True
    world.run()
    spoil(world, lambda _: {})
    lose_journal(world)
    told = world.json("repair", "r", code=0)
    assert "t · m: which value was chosen for tier T5 is lost, and 8 results were made with it" in str(told["notes"])


def test_a_fork_keeps_a_choice_that_holds(world):
    """All that the choice rests on is kept: so is the choice, and what came of it; else it is made anew."""
    best(world, {"one": "yes", "zero": "no"})
    world.run()
    world.task["axes"]["part"] = ["a", "b", "c"]
    told = world.json("fork", "r", "--config", world.write(), "--run-dir", "f", code=0)
    assert told["taken"] == 16 and notes(world, "f") == []
    world.task["axes"]["part"] = ["a", "b"]
    world.task["axes"]["tier"]["T9"] = {"prompt": "nine {question}"}
    told = world.json("fork", "r", "--config", world.write(), "--run-dir", "g", code=0)
    assert told["taken"] == 24 and notes(world, "g")[0]["data"]["chosen"] == "T1"


@pytest.mark.parametrize("frame", range(3, 9))
def test_experiments_16_killed_around_a_choice(holdfast, world, frame):
    """Killed at any record around the choice, the run resumes with one choice, and it stays that one."""
    best(world, {"one": "yes", "zero": "no"})
    world.data["concurrency_limit"] = 1
    world.rows = make_rows(1)
    crash = f"frame.acknowledged:{frame}"
    assert holdfast("run", world.write(), "--run-dir", "r", HOLDFAST_CRASH_AT=crash).code == -9
    holdfast("resume", "r", code=0)
    assert [note["data"]["chosen"] for note in notes(world)] == ["T1"]
    world.check_complete(6)


# The report.


def test_experiments_19_the_report_per_axis_and_overall(world):
    """Pass rate with coverage, mean, median, spread, consistency, cost, cost of a pass and tokens, each trial once."""
    best(world, {"one q1": "yes", "one q2": "yes", "one": "no", "zero": "no"})
    world.data["models"]["m"]["price"] = {"input": 1e6, "output": 1e6}
    world.task["epochs"] = 2
    world.run()
    report = world.report()
    figures = report["tasks"]["t"]["m"]["by_axis"]
    one, overall = figures["axes"]["tier"]["T1"], figures["overall"]
    scores = one["scores"]["includes"]
    assert (one["valid"], one["planned"]) == (16, 16)
    assert (scores["pass_rate"]["value"], scores["passes"], scores["pass_rate"]["n_samples"]) == (0.5, 8, 4)
    assert scores["pass_rate"]["interval"] == scores["mean"]["interval"] and scores["mean"]["value"] == 0.5
    assert (scores["median"], round(scores["spread"], 4), scores["consistency"]) == (0.5, 0.5774, 1.0)
    assert scores["cost_of_pass"] == one["cost"] / 8
    for axis in ("tier", "part"):
        parts = figures["axes"][axis].values()
        assert sum(part["valid"] for part in parts) == overall["valid"] == 48
        assert abs(sum(part["cost"] for part in parts) - overall["cost"]) < 1e-6
    assert overall["cost"] == report["tasks"]["t"]["m"]["cost"]
    times = report["timing"]["by_axis"]["t"]["m"]
    assert set(times["axes"]["tier"]) == {"T0", "T1", "T5"} and times["overall"]["median"] is not None
    told = world("report", "r", code=0).out
    assert "t · m, by axis:" in told and "tier=T1" in told and "16/16" in told


def test_experiments_19_of_an_unfinished_run_the_coverage_is_said(grid):
    """Planned trials of a value that are not valid yet are in the denominator of its coverage."""
    grid.begin()
    grid("resume", "r", "--where", "tier=T0 and part=a", code=0)
    figures = grid.report()["tasks"]["t"]["m"]["by_axis"]
    assert (figures["axes"]["tier"]["T0"]["valid"], figures["axes"]["tier"]["T0"]["planned"]) == (4, 8)
    assert figures["overall"]["planned"] == 16 and "T1" not in figures["axes"]["tier"]


def test_experiments_19_consistency_is_that_of_epochs(world):
    """A sample whose epochs differ is inconsistent, one whose axis values differ is not."""
    (world.directory / "solver.py").write_text(
        "async def solve(trial):\n"
        "    if trial.axes['x'] == 'b':\n"
        "        return 'no'\n"
        "    return 'yes' if trial.epoch == 1 or trial.sample.id == 's1' else 'no'\n"
    )
    world.task.update(solver="solver.py:solve", epochs=2, axes={"x": ["a", "b"]}, scorers=["includes"], target="yes")
    world.rows = make_rows(2)
    world.run()
    figures = world.report()["tasks"]["t"]["m"]["by_axis"]
    found = {value: one["scores"]["includes"]["consistency"] for value, one in figures["axes"]["x"].items()}
    assert found == {"a": 0.5, "b": 1.0}
    assert figures["overall"]["scores"]["includes"]["consistency"] == 0.75


def test_a_task_without_axes_has_no_figures_per_axis(world):
    """Nothing is added to its report, and nothing to its plan."""
    world.run()
    report = world.report()
    assert "by_axis" not in report["tasks"]["t"]["m"] and "by_axis" not in report["timing"]
    assert "axes" not in world.records("session")[0]["plan"][0]


@pytest.mark.parametrize("option", ["--where", "--redo"])
def test_experiments_a_value_that_no_trial_has_is_named_with_those_that_there_are(grid, option):
    """A mistyped value of an axis, a model or a task: the nearest, and all that are known."""
    grid.run()
    told = grid("resume", "r", option, "tier=T9", code=2).err
    assert 'No trial has the tier "T9". Did you mean "T1"? Known: T0, T1.' in told
    assert 'No trial has the model "mm". Did you mean "m"? Known: m.' in grid("show", "r", "--where", "model=mm").err
    assert 'No trial has the tier "T9".' in grid("rescore", "r", "--where", "tier=T9", code=2).err
    found = grid("show", "r", "--where", "tier=T9 or tier=T0", code=0)
    assert "No trial has" not in found.out + found.err


@pytest.mark.parametrize(
    ("where", "said"),
    [("exact<1", "1 trial was run again because of its scores"), ("sample=s1", "1 trial was run again by name")],
)
@pytest.mark.parametrize("stage", ["solve", "score"])
def test_experiments_15_trials_selected_by_their_scores_are_named_in_the_report(world, where, said, stage):
    """From whichever stage on they are attempted once more: who gets a second chance is no chance."""
    world.run()
    world("resume", "r", "--from", stage, "--where", where, code=0)
    assert f"{said}: the scores above are not those of first attempts" in world("report", "r", code=0).out
    assert world.json("verify", "r", code=0)["ok"]
