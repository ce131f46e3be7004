"""With `--json`, standard output is one JSON object, whatever the code of a task prints: that is on standard error."""

from __future__ import annotations

import json

import pytest

TASK = """
import os, subprocess, sys
from holdfast import Sample, Task, task
print("loading")
os.write(1, b"loading by descriptor\\n")

async def solve(trial):
    print("solving")
    subprocess.run([sys.executable, "-c", "print('in a command')"], check=True)
    return await trial.generate("a")

@task
def t():
    print("making")
    return Task(samples=[Sample("a", id="s1", target="a")], solver=solve, scorers="exact")
"""


@pytest.fixture
def printed(tmp_path, holdfast):
    """The JSON object that a command prints, and what it says beside it."""
    (tmp_path / "tk.py").write_text(TASK)

    def call(*words: str, code: int = 0):
        ended = holdfast.start(*words, "--json").wait()
        assert ended.code == code, ended
        return json.loads(ended.out), ended.err

    return call


def test_what_a_task_prints_is_no_part_of_the_json(printed):
    """`run`, `--dry-run`, `resume`, `diff`, `fork` and `verify --replay` load code."""
    run = ("run", "tk.py", "--model", "scripted/echo")
    found, said = printed(*run, "--dry-run")
    assert "loading" in said and "schema_version" in found
    found, said = printed(*run, "--run-dir", "r")
    assert found["finished"] == 1
    for text in ("loading", "loading by descriptor", "making", "solving", "in a command"):
        assert text in said
    for words in (
        ("resume", "r", "--set", "tasks.t.epochs=2"),
        ("diff", "r", "r/config.yaml"),
        ("fork", "r", "--run-dir", "f"),
        ("verify", "r", "--replay", "s1#1"),
        ("verify", "r"),
    ):
        found, said = printed(*words, code=0)
        assert "schema_version" in found, words


def test_an_error_is_one_object_too(printed):
    """What is refused after the code was loaded is JSON as well."""
    found, said = printed("run", "tk.py:nothing", "--model", "scripted/echo", code=2)
    assert "nothing" in found["error"] and "loading" in said
