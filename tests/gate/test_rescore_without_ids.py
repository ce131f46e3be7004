"""Resume 18 without ids: another template of the targets makes no other samples of the same rows."""

from __future__ import annotations

import json

import pytest

from folds import check_fold
from holdfast import Run
from holdfast.run.fold.reader import RunReader

ROWS = [
    {"q": "one", "a": "one", "b": "zzz"},
    {"q": "two", "a": "two", "b": "two"},
    # The same input twice, with and without the same target.
    {"q": "two", "a": "two", "b": "two"},
    {"q": "two", "a": "other", "b": "two"},
]
PYTHON = """
from holdfast import Task, task, generate
from holdfast.tasks.datasets.columns import Columns
from holdfast.tasks.template import Template

@task
def own():
    target = Template.parse("{TARGET}", "target")
    return Task(dataset="rows.jsonl", solver=SOLVER, scorers=["includes"], columns=Columns(target=target))
"""
SOLVER = """
async def solve(trial):
    return await trial.generate(trial.sample.metadata["q"])
"""


@pytest.fixture
def plain(world):
    world.rows = [dict(row) for row in ROWS]
    world.data["tasks"]["t"] = {"dataset": "rows", "prompt": "say {q}", "target": "{a}", "scorers": ["includes"]}
    return world


def scores(world, run="r", name="includes"):
    """By the number of the trial, since keys of two runs may differ."""
    with Run.open(world.directory / run) as opened:
        return sorted((str(row["input"]), str(row["target"]), row["scores"].get(name)) for row in opened.to_dicts())


def check_as_new(world, run="r"):
    """The run has the scores of a new run of the same eval, and everything in it adds up."""
    fresh = f"fresh{len(list(world.directory.iterdir()))}"
    world("run", world.write(), "--run-dir", fresh, code=0)
    assert scores(world, run) == scores(world, fresh)
    reader = RunReader(world.directory / run)
    check_fold(reader)
    reader.close()
    assert world.json("verify", run, "--deep", code=0)["ok"]
    assert not world.json("verify", run, "--deep", code=0).get("warnings")
    status = world.json("status", run)
    assert status["finished"] == status["planned"] and status["state"] == "complete"


def rescored(world):
    return world("rescore", "r", "--config", world.write(), code=0)


def check_growth(world, calls):
    """More epochs ask about the same samples."""
    world.task["epochs"] = 2
    assert f"Added: {len(world.rows)} trials, {2 * len(world.rows)} in all" in world.resume(code=0).err
    assert world.status()["calls"]["made"] == calls + len(world.rows)
    check_as_new(world)


@pytest.mark.parametrize("template", ["{b}", "zzz", "{a}{b}", "{b}{q}", None])
def test_resume_18_another_template(plain, template):
    """A resume names rescore; a rescoring scores every answer, and a run of the same eval has the same scores."""
    for row in plain.rows:
        row["target"] = row["b"]
    plain.run()
    before, keys = scores(plain), {trial["sample"] for trial in plain.trials()}
    plain.task["target"] = template
    if template is None:
        del plain.task["target"]
    said = plain.refused()
    assert "holdfast rescore r --config" in said and "keeps the answers of 4 of 4 trials" in said
    told = rescored(plain)
    assert "Scoring 4 answers (includes 4)" in told.err
    assert {trial["sample"] for trial in plain.trials()} == keys
    check_as_new(plain)
    assert "nothing to score" in plain("rescore", "r", code=0).out
    shown = plain("show", "r", code=0)
    assert "does not have the sample" not in shown.out + shown.err
    check_growth(plain, 4)
    # Edited back, the targets are those that they were, and their scores are found; only the new epoch is scored.
    plain.task["target"] = "{a}"
    told = rescored(plain)
    assert "Scoring 4 answers (includes 4)" in told.err
    check_as_new(plain)
    assert set(before) == set(scores(plain))


def test_resume_18_a_fork_keeps_the_answers(plain):
    """Also one of a run that was rescored; resumed, it has the same samples."""
    plain.run()
    plain.task["target"] = "{b}"
    plain("fork", "r", "--config", plain.write(), "--run-dir", "f", code=0)
    plain("resume", "f", code=0)
    assert plain.json("status", "f")["calls"]["made"] == 0
    check_as_new(plain, "f")
    rescored(plain)
    plain.task["target"] = "{a}{b}"
    plain("fork", "r", "--config", plain.write(), "--run-dir", "g", code=0)
    plain("resume", "g", code=0)
    assert plain.json("status", "g")["calls"]["made"] == 0
    check_as_new(plain, "g")
    plain.task["epochs"] = 2
    plain("resume", "g", "--config", plain.write(), code=0)
    check_as_new(plain, "g")
    plain("run", plain.write(), "--run-dir", "h", "--reuse", "r", code=0)
    check_as_new(plain, "h")


@pytest.mark.parametrize("prompt", ["say {q}", "say {q} {a}", "say {q} {b}"])
def test_resume_18_an_edited_cell_before_and_after(plain, prompt):
    """Edited targets are scored again or, where the input would be another with them, refused: never ignored."""
    plain.task["prompt"] = prompt
    plain.run()
    for template, column in (("{a}", "a"), ("{b}", "b"), ("{b}", "a"), ("{a}", "b"), ("{a}", "a")):
        plain.task["target"] = template
        rows = [dict(row) for row in plain.rows]
        plain.rows[1][column] = f"{plain.rows[1][column]}!"
        before = plain.everything()
        told = plain("rescore", "r", "--config", plain.write(), code=None)
        if told.code:
            assert told.code == 3 and "tasks.t.dataset (identity)" in told.err
            assert plain.everything() == before
            plain.rows = rows
            rescored(plain)
        check_as_new(plain)
    assert plain.status()["calls"]["made"] == 4


def test_resume_18_a_new_column_or_an_unused_one(plain):
    """A target and a column that nothing uses are edited at once: never is the new target ignored."""
    plain.run()
    plain.rows[1] |= {"a": "wrong", "b": "another note"}
    for said in (plain.refused(), plain("rescore", "r", "--config", plain.write(), code=3).err):
        assert "tasks.t.dataset (identity): the target was edited, but the rows no longer have every sample" in said
        assert "without ids" in said and "rescore" not in said.replace("test_rescore", "")


def test_resume_18_a_removed_row_and_an_edited_target(world):
    """The run's own rows would be used, and the edited target ignored: it is refused."""
    world.run()
    world.rows[2]["answer"] = "q3"
    del world.rows[0]
    for said in (world.refused(), world("rescore", "r", "--config", world.write(), code=3).err):
        assert "the target was edited, but the rows no longer have every sample on record: s3" in said


def test_resume_18_choices_and_fields(plain):
    """Targets by `fields`, and choices, which are input."""
    for row in plain.rows:
        row["c"] = ["one", "two", "other", "zzz"]
    plain.data["datasets"]["rows"]["fields"] = {"choices": "c"}
    plain.task["prompt"] = "{q}\n{choices}"
    plain.run()
    plain.task["target"] = "{b}"
    assert "holdfast rescore r --config" in plain.refused()
    assert "Scoring 4 answers" in rescored(plain).err
    check_as_new(plain)
    check_growth(plain, 4)


@pytest.mark.parametrize("solver", ["generate('say {q}')", "solve"])
def test_resume_18_a_task_in_python(plain, solver):
    """Its template is code of its task; looking at the run executes none of it."""
    code = plain.directory / "own.py"
    text = (PYTHON + SOLVER).replace("SOLVER,", f"{solver},")
    code.write_text(text.replace("TARGET", "a"))
    for row in plain.rows:
        row["input"] = row["q"]
    plain.data["tasks"]["t"] = {"use": "own.py:own"}
    del plain.data["datasets"]
    plain.run()
    code.write_text(text.replace("TARGET", "b"))
    said = plain.refused()
    assert "holdfast rescore r" in said and "keeps the answers of 4 of 4 trials" in said
    assert "Scoring 4 answers" in rescored(plain).err
    check_as_new(plain)
    check_growth(plain, 4)
    code.write_text(text.replace("TARGET", "a"))
    assert "Scoring 4 answers" in rescored(plain).err
    check_as_new(plain)


def test_resume_18_a_solver_of_ones_own(plain):
    """Its code may look at any column; which of them the target is made of does not change what it is given."""
    (plain.directory / "own.py").write_text(SOLVER)
    plain.task["solver"] = "own.py:solve"
    del plain.task["prompt"]
    for row in plain.rows:
        row["input"] = row["q"]
    plain.run()
    plain.task["target"] = "{b}"
    assert "keeps the answers of 4 of 4 trials" in plain.refused()
    rescored(plain)
    check_as_new(plain)
    told = plain("replay", "r", plain.trials()[0]["trial"][:12], code=None)
    assert "no longer" not in told.err
    diff = json.loads(plain("diff", "r", "--config", plain.write(), "--json", code=None).out or "{}")
    assert not diff.get("differences")


@pytest.mark.parametrize("ids", [False, True])
def test_an_edited_target_that_is_one_of_the_choices_is_an_edited_question(world, ids):
    """The model was shown another text: its letter says nothing of the new one, so a rescoring is refused too."""
    rows = [{"q": "Capital of Peru?", "w": "Cusco", "right": "Lima"}, {"q": "Of Italy?", "w": "Turin", "right": "Rome"}]
    world.rows = [{"id": f"s{number}", **row} for number, row in enumerate(rows)] if ids else rows
    world.data["tasks"]["t"] = {
        "dataset": "rows",
        "prompt": "{q}",
        "choices": ["{w}", "{right}"],
        "target": "{right}",
        "scorers": ["choice"],
    }
    asked = world.rows
    world("run", world.write(), "--run-dir", "r", code=0)
    world.write_rows([{**asked[0], "right": "Arequipa"}, asked[1]])
    assert "tasks.t.dataset (identity): the input was edited in: " in world.refused()
    assert "the input was edited" in world("rescore", "r", code=3).err
    world.write_rows(asked)
    world.data["tasks"]["t"]["target"] = "{w}"
    world("rescore", "r", "--config", world.write(), code=0)
    check_as_new(world)
