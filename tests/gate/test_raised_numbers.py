"""Row 83 where Holdfast itself has changed: no way out asks a person to undo what only another version could."""

from __future__ import annotations

import pytest
from test_refusal_commands import TASK_FILE, shell, ways_out

from holdfast import Sample, Task, generate
from holdfast.digests import json_digest
from holdfast.run.core.records import TaskCode
from holdfast.tasks.scorers.exact import Exact
from holdfast.tasks.scorers.registry import build_scorer
from holdfast.tasks.task_code import raised_parts

UNDO = "undo the changes"
SCORES = "tasks.t.scorers.exact (scoring): this version of Holdfast scores with exact differently"


@pytest.fixture
def earlier(world, monkeypatch):
    """A run that was recorded when `exact` had a lower behaviour number."""
    with monkeypatch.context() as before:
        before.setattr(Exact, "revision", Exact.revision - 1)
        world.begin()
    return world


def test_resume_83_rescore_comes_first_where_holdfast_scores_differently(earlier):
    """Resume 83: nobody can undo it, and scoring the answers again costs nothing; afterwards the run resumes."""
    said = earlier("resume", "r", code=3).err
    assert SCORES in said and UNDO not in said
    assert [line.split()[1] for line in ways_out(said)] == ["rescore", "fork"]
    assert shell(ways_out(said)[0], earlier.directory).returncode == 0
    earlier("resume", "r", code=0)


def test_resume_83_an_offer_does_not_bring_it_back(earlier):
    """Resume 83: without the offered change the run would be refused as well, so that is no way out."""
    earlier.task["prompt"] = "Well: {question}"
    said = earlier.resume(code=3).err
    assert SCORES in said and UNDO not in said and "without the change" not in said
    assert sorted(line.split()[1] for line in ways_out(said)) == ["fork", "run"]


def test_resume_83_the_version_that_recorded_it_is_named(earlier, monkeypatch):
    """Resume 83: another version can resume it; the one of now is not named."""
    monkeypatch.setattr("holdfast.engine.opening.comparing.ways_out.__version__", "9.9")
    said = earlier("resume", "r", code=3).err
    assert "with the Holdfast that recorded it, 0.1.0: holdfast resume r" in said
    assert [line.split()[1] for line in ways_out(said)] == ["rescore", "resume", "fork"]


@pytest.mark.parametrize(
    ("now", "is_holdfast"), [(TASK_FILE, True), (TASK_FILE.replace("exact()", "exact(ignore_case=True)"), False)]
)
def test_resume_83_in_a_python_file_holdfast_and_the_person_are_told_apart(world, monkeypatch, now, is_holdfast):
    """Resume 83: an argument that the person's own file gives can be undone."""
    (world.directory / "tk.py").write_text(TASK_FILE)
    with monkeypatch.context() as before:
        before.setattr(Exact, "revision", Exact.revision - 1 if is_holdfast else Exact.revision)
        world("run", "tk.py", "--model", "scripted/echo", "--run-dir", "r", code=0)
    (world.directory / "tk.py").write_text(now)
    said = world("resume", "r", "--redo", "value=0", code=3).err
    assert ("this version of Holdfast scores" in said, UNDO in said) == (is_holdfast, not is_holdfast)


def test_resume_83_the_built_in_solver_of_another_version(world, monkeypatch):
    """Resume 83: no code of the person's is blamed for it."""
    world.begin()
    monkeypatch.setattr("holdfast.tasks.task_code.REVISION", 99)
    said = world("resume", "r", code=3).err
    assert "this version of Holdfast asks models differently" in said and UNDO not in said


def test_an_argument_that_came_with_a_higher_number_is_no_difference_of_the_person():
    """The digest on record was made without it."""
    scorer = build_scorer("includes")
    identity = {**scorer.identity(), "revision": 1}
    assert identity["arguments"].pop("ignore_case") is False
    task = Task(samples=[Sample("q", target="q")], solver=generate(), scorers=scorer)
    now = TaskCode("generate", "generate 1", scorers={"includes": "now"})
    saved = TaskCode("generate", "generate 1", scorers={"includes": json_digest(identity)})
    assert raised_parts(task, saved, now) == {"scorer includes"}
    identity["arguments"]["ignore_case"] = True
    other = TaskCode("generate", "generate 1", scorers={"includes": json_digest(identity)})
    assert raised_parts(task, other, now) == set()
