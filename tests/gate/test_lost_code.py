"""A run whose record of the code is damaged: it is said what could be compared instead, or the resume is refused."""

from __future__ import annotations

import pytest
from code_project import code

from durable import data_pieces, segment_paths

SOLVE = "PROMPT = 'one'\nasync def solve(trial):\n    return (await trial.generate(PROMPT)).text\n"
LOST = "the record of its code is damaged (session 1), so only its files were compared"


def lose_first_record(project):
    """The record of the first session cannot be read any more; the second one says that the tree is there."""
    project.write(tk=code(SOLVE))
    project.run()
    project.call("resume", "r", "--set", "tasks.t.epochs=2", code=0)
    run = project.directory / "r"
    path = segment_paths(run)[0]
    data = bytearray(path.read_bytes())
    data[data_pieces(bytes(data))[0].end - 1] ^= 1
    path.write_bytes(data)
    for cache in run.glob("index.sqlite*"):
        cache.unlink()


@pytest.fixture
def lost(project):
    lose_first_record(project)
    return project


def test_files_as_they_were_are_accepted_with_one_line(lost):
    """The line names the task and the session; the next session records the code anew, and the line is gone."""
    grown = ("resume", "r", "--set", "tasks.t.epochs=3")
    assert lost.call(*grown, code=0).err.count(f"note: tasks.t: {LOST}") == 1
    assert "damaged (session" not in lost.accepted()
    lost.edit("'one'", "'two'")
    assert "PROMPT in tk.py has changed: 'one' → 'two'" in lost.refused()


def test_a_changed_file_is_refused(lost):
    """Nobody can say whether the change matters: even a comment is refused, and a fork keeps no answer."""
    lost.edit("PROMPT = ", "# a comment\nPROMPT = ")
    told = lost.refused()
    assert (
        "tasks.t.use (identity): the record of what the code was is damaged (session 1), and tk.py is not as in" in told
    )
    assert "keeps 0 of 2 trials" in told
