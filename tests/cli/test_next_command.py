"""The command that starts the eval of a run once more: one that can be typed, whoever made the run."""

from __future__ import annotations

import pytest

from holdfast.cli.ui.next_command import NextSteps
from holdfast.run.core.display_text import shell_word
from holdfast.run.core.records import SessionRecord
from holdfast.run.drift.rerun_command import rerun_command
from holdfast.run.fold.rows.trial_row import TASK_ERROR
from holdfast.run.fold.states import StateCounts

MADE_BY = {
    "run": (["holdfast", "run", "my eval.yaml", "--run-dir", "r", "--model", "a/b"], "", "'my eval.yaml' --model a/b"),
    "a file of Python": ([], "task.py", "task.py"),
    "one task of a file": ([], "task.py:capitals", "task.py:capitals"),
    "an eval file": ([], "eval.yml", "eval.yml"),
}
UNKNOWN = {"evaluate()": ([], "Python"), "a fork of a run": (["holdfast", "fork", "bugr"], "bugr"), "nobody": ([], "")}


def made_by(invocation, source, config=None):
    return SessionRecord(
        number=1, run="", name="n", at="", version="", invocation=invocation, source=source, config=config or {}
    )


@pytest.mark.parametrize("maker", MADE_BY)
def test_an_eval_file_is_named(maker):
    """What started the run starts it again, with its replies."""
    invocation, source, words = MADE_BY[maker]
    assert rerun_command(made_by(invocation, source), "r") == f"holdfast run {words} --reuse r"


@pytest.mark.parametrize("maker", UNKNOWN)
def test_nothing_is_named_that_is_not_known(maker):
    """A run that `evaluate()` or a fork made has no eval file on record: no word stands in for one."""
    first, counts = made_by(*UNKNOWN[maker]), StateCounts(planned=1, failed=1, remaining_by_reason={TASK_ERROR: 1})
    assert rerun_command(first, "r") == ""
    assert next(NextSteps(counts, "r", first).lines()) == "After fixing the code: holdfast fork r"


def test_a_task_of_a_process_is_run_from_there():
    """The command line cannot load its code."""
    first = made_by([], "Python", {"tasks": {"a": {"use": "python:a"}}})
    counts = StateCounts(planned=1, failed=1, remaining_by_reason={TASK_ERROR: 1})
    assert next(NextSteps(counts, "r", first).lines()) == (
        "After fixing the code: evaluate(tasks, models, reuse='r')  # in Python, with all other arguments as before"
    )


def test_an_eval_file_is_found_from_another_directory(tmp_path, monkeypatch):
    """What was typed elsewhere is given as a path that leads there from here."""
    (tmp_path / "eval.yaml").touch()
    (tmp_path / "task.py").touch()
    monkeypatch.chdir("/")
    for word in ("eval.yaml", "task.py", "task.py:capitals"):
        first = made_by(["holdfast", "run", word], word, {"directory": str(tmp_path)})
        assert rerun_command(first, "r") == f"holdfast run {tmp_path / word} --reuse r"


def test_a_run_is_never_taken_for_an_option():
    """Whatever its name is, the printed command means it."""
    assert shell_word("-x") == "./-x" and shell_word("a b") == "'a b'" and shell_word("--json") == "./--json"
