"""Sentences that have to be grammatical whatever they count, and that name things as people do."""

from __future__ import annotations

import json
import resource

import pytest

from cli_calls import program
from evals import python_eval, write_dataset, write_eval

EVAL = {
    "models": {"m": {"provider": "scripted", "model": "echo"}},
    "datasets": {"rows": {"path": "rows.jsonl"}},
    "tasks": {"t": {"dataset": "rows", "prompt": "{question}", "target": "{answer}", "scorers": ["exact"]}},
}
FAILING = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    if trial.sample.id in {one}:
        raise ValueError("one")
    raise KeyError("another")

@task
def t():
    return Task(samples=[Sample("x", target="x", id=name) for name in "abc"], solver=solve, scorers=exact())
"""


def eval_with(directory, **task):
    """The eval with other keys in its task."""
    return write_eval(directory, {**EVAL, "tasks": {"t": {**EVAL["tasks"]["t"], **task}}})


def test_a_file_that_grows_too_large_is_a_sentence(tmp_path):
    """The system does not say which file it was; nobody is told of a storage."""
    write_dataset(tmp_path, 500)
    eval_file = write_eval(tmp_path, EVAL)

    def limit_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    ended = program("run", eval_file, "--run-dir", "r", cwd=tmp_path, preexec_fn=limit_files)
    assert ended.code == 5 and "The storage" not in ended.err and "Traceback" not in ended.err, ended.err
    assert "A file could not be read or written: File too large. Check the disk, its limits" in ended.err, ended.err


def test_choices_are_counted_and_named(holdfast, tmp_path):
    """One choice is one choice; a field that is missing is missed by the list."""
    rows = [{"question": "q", "answer": "a", "choices": ["a"]}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    eval_file = eval_with(tmp_path, choices="choices", scorers=["choice"])
    assert "rows.jsonl row 1 has 1 choice. Give between 2 and 26." in holdfast("run", eval_file, code=2).err
    eval_file = eval_with(tmp_path, choices=["{a}", "{b}"], scorers=["choice"])
    told = holdfast("run", eval_file, code=2).err
    assert "The list of choices of the task 't' names the field 'a', which rows.jsonl row 1 does not have" in told


@pytest.mark.parametrize(("limit", "why"), [(1, "1 remaining: its answer"), (3, "3 remaining: their answers")])
def test_a_fork_speaks_of_one_answer_or_of_several(holdfast, tmp_path, limit, why):
    """The number decides."""
    write_dataset(tmp_path, 3)
    holdfast("run", eval_with(tmp_path, limit=limit), "--run-dir", "r")
    told = holdfast("fork", "r", "--set", "tasks.t.prompt=Say {question}", "--run-dir", "f", code=0).out
    assert f"  {why} could differ\n" in told


@pytest.mark.parametrize(("one", "told"), [("abc", "3 failed (1 error)"), ("ab", "3 failed (2 errors)")])
def test_equal_errors_are_counted_in_words(holdfast, server, tmp_path, one, told):
    """The line of progress says how many errors there are, not how often one came again."""
    code = FAILING.replace("{one}", repr(one))
    eval_file = python_eval(tmp_path, server.base_url, code, max_retries=0, fail_fast=False)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert told in ended.err, ended.err
    assert f"t: {len(one) - 1} more with the same error: ValueError: one" in ended.err


@pytest.mark.parametrize(
    ("name", "kind"), [("solve", "a function"), ("Sample", "the class Sample"), ("NUMBER", "of the type int")]
)
def test_what_is_no_task_is_named_with_its_article(holdfast, tmp_path, name, kind):
    """Functions, classes and values."""
    (tmp_path / "task.py").write_text(FAILING.replace("{one}", "''") + "\nNUMBER = 5\n")
    told = holdfast("run", f"task.py:{name}", "--model", "scripted/echo", code=2).err
    assert f"task.py:{name} is {kind}, not a task." in told
