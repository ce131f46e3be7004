"""The command that starts the eval of a run once more: one that can be typed, whoever made the run."""

from __future__ import annotations

import pytest

from holdfast.run.core.display_text import shell_word
from holdfast.run.core.records import SessionRecord
from holdfast.run.drift.rerun_command import rerun_command

MADE_BY = {
    "run": (["holdfast", "run", "my eval.yaml", "--run-dir", "r", "--model", "a/b"], "", "'my eval.yaml' --model a/b"),
    "a file of Python": ([], "task.py", "task.py"),
    "one task of a file": ([], "task.py:capitals", "task.py:capitals"),
    "an eval file": ([], "eval.yml", "eval.yml"),
    "evaluate()": ([], "Python", "EVAL"),
    "a fork of a run": (["holdfast", "fork", "bugr"], "bugr", "EVAL"),
    "nobody knows": ([], "", "EVAL"),
}


@pytest.mark.parametrize("maker", MADE_BY)
def test_only_an_eval_file_is_named(maker):
    """A run that `evaluate()` or a fork made has no eval file on record: a person fills it in."""
    invocation, source, words = MADE_BY[maker]
    first = SessionRecord(number=1, run="", name="n", at="", version="", invocation=invocation, source=source)
    assert rerun_command(first, "r") == f"holdfast run {words} --reuse r"


def test_a_run_is_never_taken_for_an_option():
    """Whatever its name is, the printed command means it."""
    assert shell_word("-x") == "./-x" and shell_word("a b") == "'a b'" and shell_word("--json") == "./--json"
