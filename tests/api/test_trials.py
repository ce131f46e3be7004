"""The trials of a run in Python: one complete row each, whatever the trial went through, and the attempts behind it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from evals import http_eval, write_dataset, write_eval
from holdfast import Run, Sample, Task, UsageError, evaluate, exact, generate, includes
from holdfast.spec import TrialLimits
from program import until

ECHO = ["scripted/echo"]
PRICED = {"m": {"provider": "scripted", "model": "echo", "price": {"input": 1.0, "output": 2.0}}}
COLUMNS = {
    "trial", "task", "model", "sample", "epoch", "axes", "state", "reason", "input", "target", "metadata", "answer",
    "scores", "attempt", "attempts", "usage", "cost", "seconds", "transcript", "error",
}  # fmt: skip
CODE = """
import os
from holdfast import Sample, Task, exact, task

async def solve(trial):
    if trial.sample.id == "b" and os.path.exists("kill"):
        os.kill(os.getpid(), 9)
    if trial.sample.id == "c" and not os.path.exists("well"):
        raise ValueError("not today")
    return await trial.generate(trial.sample.input)

@task
def t():
    samples = [Sample(f"is {x}?", target=f"is {x}?", id=x, metadata={"n": n}) for n, x in enumerate("abc")]
    return Task(samples=samples, solver=solve, scorers=exact())
"""


def samples(*names: str) -> list[Sample]:
    return [Sample(f"ask {name}", target=f"ask {name}", id=name, metadata={"of": name.upper()}) for name in names]


def only(run: Run, sample: str):
    """The one row of a sample."""
    (row,) = [row for row in run.trials() if row.sample == sample]
    return row


def as_one(run: Run) -> dict:
    """The rows by sample and epoch: each trial is there once, in `trials` and `to_dicts` alike, with every column."""
    rows, dicts = list(run.trials()), run.to_dicts()
    assert [row.trial for row in rows] == [found["trial"] for found in dicts]
    assert all(found.keys() == COLUMNS for found in dicts)
    assert json.loads(json.dumps(dicts)) == dicts
    assert len({row.trial for row in rows}) == len(rows) == run.planned - run.counts.not_started
    by_name = {(row.sample, row.epoch, *row.axes.values()): row for row in rows}
    assert len(by_name) == len(rows)
    return by_name


def python_run(directory, *, code: int = 0, retries: int = 0, verb: str = "run") -> Run:
    """A run of `CODE` by the program, or its resume."""
    (directory / "task.py").write_text(CODE)
    model = {"provider": "scripted", "model": "echo"}
    tasks = {"t": {"use": "task.py:t", "max_retries": retries}}
    write_eval(directory, {"models": {"m": model}, "tasks": tasks, "concurrency_limit": 1})
    words = ["run", "eval.yaml", "--run-dir", "r"] if verb == "run" else verb.split()
    command = [sys.executable, "-m", "holdfast", *words]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code, done.stderr
    return Run.open(directory / "r")


def test_a_row_has_everything_of_its_trial(tmp_path):
    """What was asked and expected, by whom it was answered, how it was scored, and what it took."""
    made = Task(name="t", samples=samples("a", "b"), solver=generate(), scorers=[exact(), includes()], epochs=2)
    run = evaluate(made, PRICED, run=tmp_path / "r")
    rows = as_one(run)
    assert set(rows) == {("a", 1), ("a", 2), ("b", 1), ("b", 2)}
    row = rows["b", 2]
    assert (row.task, row.model, row.sample, row.epoch, row.axes) == ("t", "m", "b", 2, {})
    assert (row.state, row.reason, row.error, row.transcript) == ("valid", "", None, "whole")
    assert (row.input, row.target, row.metadata, row.answer) == ("ask b", "ask b", {"of": "B"}, "ask b")
    assert row.scores == {"exact": 1.0, "includes": 1.0}
    assert (row.attempt, row.attempts) == (1, 1)
    spent = row.usage
    assert spent.input_tokens > 0 and spent.output_tokens > 0 and row.seconds >= 0
    assert row.cost == pytest.approx((spent.input_tokens + 2 * spent.output_tokens) / 1e6)
    assert sum(row.usage.input_tokens for row in rows.values()) == run.report().usage.input_tokens
    assert sum(row.cost for row in rows.values()) == pytest.approx(run.report().cost)
    assert sorted(end.trial for end in run.attempts()) == sorted(row.trial for row in run.trials())


def test_without_a_price_the_cost_is_not_known(tmp_path):
    """It is null, and not 0; beside a model that has a price too."""
    models = {**PRICED, "free": {"provider": "scripted", "model": "echo"}}
    made = Task(name="t", samples=samples("a"), solver=generate(), scorers=exact())
    found = {row["model"]: row["cost"] for row in evaluate(made, models, run=tmp_path / "r").to_dicts()}
    assert found["free"] is None and found["m"] > 0


def test_a_price_of_nothing_is_a_cost_of_nothing(tmp_path):
    """What is known to be free costs 0."""
    models = {"m": {"provider": "scripted", "model": "echo", "price": {"input": 0.0, "output": 0.0}}}
    made = Task(name="t", samples=samples("a"), solver=generate(), scorers=exact())
    assert [row.cost for row in evaluate(made, models, run=tmp_path / "r").trials()] == [0.0]


def test_axes_are_in_the_row(holdfast, tmp_path):
    """One row for every combination, with the row of the dataset as it was asked."""
    write_dataset(tmp_path, 2)
    prompts = {"plain": "{question}", "loud": "{question}!"}
    task = {"dataset": "rows", "prompt": prompts, "target": "{question}", "scorers": ["exact"], "epochs": 2}
    data = {"models": {"m": "scripted/echo"}, "datasets": {"rows": {"path": "rows.jsonl"}}, "tasks": {"t": task}}
    holdfast("run", write_eval(tmp_path, data), "--run-dir", "r", code=0)
    with Run.open(tmp_path / "r") as run:
        rows = as_one(run)
        assert set(rows) == {(s, e, p) for s in ("s1", "s2") for e in (1, 2) for p in prompts}
        loud, plain = rows["s2", 1, "loud"], rows["s2", 1, "plain"]
        assert (loud.axes, loud.answer, loud.scores) == ({"prompt": "loud"}, "q2!", {"exact": 0.0})
        assert (plain.axes, plain.answer, plain.scores) == ({"prompt": "plain"}, "q2", {"exact": 1.0})
        assert plain.target == loud.target == "q2"
        assert {row.axes["prompt"] for row in run.trials("prompt=loud")} == {"loud"}


def test_a_trial_that_was_tried_again_is_one_row(tmp_path):
    """The attempt that counts has the row; what the others took is in it, and each has an end of its own."""
    tries = []

    async def solve(trial):
        reply = await trial.generate(trial.sample.input)
        tries.append(trial.sample.id)
        if tries.count("b") < 3 and trial.sample.id == "b":
            raise ValueError("not yet")
        return reply

    made = Task(name="t", samples=samples("a", "b"), solver=solve, scorers=exact())
    run = evaluate(made, PRICED, run=tmp_path / "r", max_retries=5)
    as_one(run)
    once, thrice = only(run, "a"), only(run, "b")
    assert (thrice.state, thrice.reason, thrice.error) == ("valid", "", None)
    assert (thrice.attempt, thrice.attempts, once.attempts) == (3, 3, 1)
    assert thrice.scores == {"exact": 1.0} and thrice.answer == "ask b"
    assert thrice.usage.input_tokens == 3 * once.usage.input_tokens
    assert thrice.cost == pytest.approx(3 * once.cost)
    ends = [(end.attempt, end.status.value) for end in run.attempts() if end.sample == "b"]
    assert ends == [(1, "failed"), (2, "failed"), (3, "valid")]


@pytest.mark.parametrize("stage", ["task", "scorer"])
def test_a_failed_trial_says_what_was_raised_and_by_whom(tmp_path, stage):
    """Its input and target stand, it has no score, and an answer only if there was one."""

    async def solve(trial):
        if stage == "task" and trial.sample.id == "b":
            raise ValueError("broken")
        return trial.sample.input

    def judge(answer, sample):
        if stage == "scorer" and sample.id == "b":
            raise ValueError("broken")
        return answer.text == sample.target

    made = Task(name="t", samples=samples("a", "b"), solver=solve, scorers=judge)
    run = evaluate(made, ECHO, run=tmp_path / "r", max_retries=1)
    as_one(run)
    row = only(run, "b")
    assert (row.state, row.reason) == ("failed", "task error" if stage == "task" else "score: judge")
    assert (row.error.kind, row.error.message) == ("ValueError", "broken")
    assert (row.input, row.target, row.metadata) == ("ask b", "ask b", {"of": "B"})
    assert (row.scores, row.answer) == ({}, "ask b" if stage == "scorer" else None)
    # Attempts of a slot are its own.
    assert (row.attempt, row.attempts, row.cost) == ((2, 2, None) if stage == "task" else (1, 1, None))
    assert only(run, "a").error is None and only(run, "a").scores == {"judge": 1.0}
    (plain,) = run.to_dicts("status=failed")
    assert (plain["sample"], plain["error"]["message"]) == ("b", "broken")


def test_a_row_after_its_trial_was_mended(tmp_path):
    """A trial that failed in one session and is valid in the next has no error any more."""
    with python_run(tmp_path, code=1) as run:
        assert only(run, "c").state == "failed"
    (tmp_path / "well").touch()
    with python_run(tmp_path, verb="resume r --redo status=failed") as run:
        as_one(run)
        row = only(run, "c")
        assert (row.state, row.reason, row.error, row.scores) == ("valid", "", None, {"exact": 1.0})
        assert (row.attempt, row.attempts, row.answer) == (2, 2, "is c?")
        ends = [(end.attempt, end.status.value) for end in run.attempts() if end.sample == "c"]
        assert ends == [(1, "failed"), (2, "valid")]


def test_blocked_and_limited_trials_say_why(tmp_path):
    """A limit is named; what the provider refused to answer is said to be that."""
    model = {"provider": "scripted", "model": "echo", "args": {"errors": [{"contains": "ask a", "blocked": {}}]}}

    async def solve(trial):
        reply = await trial.generate(trial.sample.input)
        return reply if trial.sample.id != "b" else await trial.generate(trial.sample.input)

    made = Task(name="t", samples=samples("a", "b", "c"), solver=solve, scorers=exact(), limits=TrialLimits(tokens=5))
    run = evaluate(made, {"m": model}, run=tmp_path / "r")
    as_one(run)
    found = {row.sample: (row.state.value, row.reason, row.scores) for row in run.trials()}
    assert found["a"] == ("blocked", "content policy", {})
    assert found["b"][:2] == ("limited", "tokens")
    assert found["c"] == ("valid", "", {"exact": 1.0})


def test_a_scorer_added_later_is_in_the_same_row(tmp_path):
    """No trial has a second row; the attempt that was scored again is the same one."""

    def made(*scorers):
        return Task(name="t", samples=samples("a", "b"), solver=generate(), scorers=list(scorers))

    before = {row.trial: row for row in evaluate(made(exact()), PRICED, run=tmp_path / "r").trials()}
    run = evaluate(made(exact(), includes()), PRICED, run=tmp_path / "r")
    as_one(run)
    for row in run.trials():
        assert row.scores == {"exact": 1.0, "includes": 1.0}
        assert (row.state, row.attempt, row.attempts) == ("valid", 1, 1)
        earlier = before[row.trial]
        assert (row.answer, row.input, row.usage, row.cost) == (
            earlier.answer,
            earlier.input,
            earlier.usage,
            earlier.cost,
        )
    assert len(list(run.attempts())) == 2


def test_an_added_scorer_that_fails_is_told(tmp_path):
    """A trial that an added scorer could not score has failed, with the score and the answer that it has."""

    def broken(answer, sample):
        raise ValueError("no score today")

    def made(*scorers):
        return Task(name="t", samples=samples("a"), solver=generate(), scorers=list(scorers))

    evaluate(made(exact()), ECHO, run=tmp_path / "r", max_retries=0)
    run = evaluate(made(exact(), broken), ECHO, run=tmp_path / "r", max_retries=0)
    as_one(run)
    row = only(run, "a")
    assert (row.state, row.reason) == ("failed", "score: broken")
    assert (row.answer, row.scores, row.attempts) == ("ask a", {"exact": 1.0}, 1)
    assert row.error.message == "no score today"
    assert run.counts.remaining_by_reason == {"score: broken": 1}


def test_rows_of_a_run_that_was_killed_and_those_after_it(tmp_path):
    """What was under way has no row of its own before it has a record, and one row after the resume."""
    (tmp_path / "kill").touch()
    (tmp_path / "well").touch()
    with python_run(tmp_path, code=-signal.SIGKILL) as run:
        rows = as_one(run)
        assert rows["a", 1].state == "valid" and len(rows) < 3
    (tmp_path / "kill").unlink()
    with python_run(tmp_path, verb="resume r") as run:
        rows = as_one(run)
        assert [rows[name, 1].state for name in "abc"] == ["valid"] * 3


def test_a_trial_that_is_running_has_a_row(holdfast, server, tmp_path):
    """Beside a session that works on it: what it asks is there, and no answer yet."""
    server.behave(hold=True, **{"pass": 1})
    eval_file = http_eval(tmp_path, server.base_url, 3, concurrency_limit=1)
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(answered=1, in_flight=1)

    def rows():
        with Run.open(tmp_path / "r") as run:
            return list(run.trials())

    until(lambda: len(rows()) == 2, "the second is on record")
    (row,) = [row for row in rows() if row.state == "unfinished"]
    assert (row.task, row.model, row.epoch, row.answer, row.scores, row.error) == ("t", "m", 1, None, {}, None)
    assert row.input == row.sample.replace("s", "q")
    assert (row.attempt, row.attempts) == (1, 1)
    server.behave()
    assert started.wait().code == 0
    assert [row.state for row in rows()] == ["valid"] * 3


def test_rows_need_no_code_of_the_task(tmp_path):
    """The task's file is gone: every row is as it was."""
    with python_run(tmp_path, code=1, retries=1) as run:
        before = run.to_dicts()
        as_one(run)
    (tmp_path / "task.py").unlink()
    (tmp_path / "eval.yaml").unlink()
    with Run.open(tmp_path / "r") as run:
        assert run.to_dicts() == before
        row = only(run, "c")
        assert (row.state, row.reason, row.attempts) == ("failed", "task error", 2)
        assert (row.input, row.target, row.metadata) == ("is c?", "is c?", {"n": 2})
        assert (row.error.kind, row.error.message) == ("ValueError", "not today")


def test_what_where_selects(tmp_path):
    """The same rows, fewer of them; in any state, by any field, and nothing where nothing matches."""
    with python_run(tmp_path, code=1) as run:
        every = {row.trial: row for row in run.trials()}

        def found(where):
            rows = list(run.trials(where))
            assert all(every[row.trial] == row for row in rows)
            return "".join(row.sample for row in rows)

        assert found("") == "abc"
        assert found("status=failed") == "c"
        assert found("status=valid and not sample=a") == "b"
        assert found("exact>=1") == "ab"
        assert found("metadata.n=1 or sample=c") == "bc"
        assert found("model=m and epoch=2") == ""
        assert [row["sample"] for row in run.to_dicts("status!=failed")] == ["a", "b"]


@pytest.mark.parametrize("where", ["status=nonesuch", "nonesuch=1", "status=", "status=failed and"])
def test_an_expression_that_is_not_valid_is_refused(tmp_path, where):
    """Before a row is read: a mistyped name is no run without such trials."""
    made = Task(name="t", samples=samples("a"), solver=generate(), scorers=exact())
    run = evaluate(made, ECHO, run=tmp_path / "r")
    with pytest.raises(UsageError):
        run.trials(where)
    with pytest.raises(UsageError):
        run.to_dicts(where)


def test_steps_14_evaluate_runs_no_failed_trial_again(tmp_path):
    """Nothing is asked once more; the outcome says why nothing was run."""

    async def broken(trial):
        await trial.generate(trial.sample.input)
        raise ValueError("my bug")

    def again() -> Run:
        made = Task(name="t", samples=samples(*"abcdefghijklmnopqrstuvwxyz"), solver=broken, scorers=exact())
        return evaluate(made, PRICED, run=tmp_path / "r", concurrency_limit=1)

    with again() as first, again() as second:
        assert (first.ended.exit_code, second.ended.exit_code) == (1, 1)
        assert first.counts == second.counts and first.counts.remaining_by_reason == {"task error": 20, "same error": 6}
        assert second.ended.how == "finished with failures" and "Nothing was run: 26 remaining" in second.ended.warning
        assert len(list(second.sessions)) == 1 and not second.is_complete
