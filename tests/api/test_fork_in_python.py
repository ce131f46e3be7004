"""`fork` in Python: a new run with another eval, which keeps every trial that the change does not touch."""

from __future__ import annotations

import pytest

from cli_calls import call
from holdfast import (
    ConfigurationError,
    NotARun,
    Run,
    Sample,
    Task,
    UsageError,
    evaluate,
    exact,
    fork,
    generate,
    includes,
)

ECHO = ["scripted/echo"]


def letters(**keys) -> Task:
    samples = [Sample(letter, target=letter) for letter in "abc"]
    return Task(**{"name": "t", "samples": samples, "solver": generate(), "scorers": exact(), **keys})


@pytest.fixture
def run(tmp_path):
    with evaluate(letters(), ECHO, run=tmp_path / "r") as made:
        yield made


def test_what_did_not_change_is_kept(run, tmp_path):
    """The new run is complete without a call."""
    forked = fork(run, run=tmp_path / "f", tasks=letters())
    assert (forked.is_complete, forked.forked.taken, forked.forked.planned) == (True, 3, 3)
    assert [session.calls for session in forked.lineage] == [0]
    assert Run.open(tmp_path / "f").forked is None


def test_what_changed_remains_and_the_same_call_runs_it(run, tmp_path):
    """More epochs, by `set`: only they are asked."""
    forked = fork(run.path, run=tmp_path / "f", tasks=[letters()], set={"tasks.t.epochs": 2})
    assert (forked.planned, forked.finished) == (6, 3)
    assert forked.forked.remaining_by_reason == {"not in the run yet": 3}
    done = evaluate(letters(), ECHO, run=forked.place, epochs=2)
    assert done.is_complete and [session.calls for session in done.lineage] == [0, 3]


def test_another_task_is_scored_again(run, tmp_path):
    """Answers are kept where only the scorers differ."""
    forked = fork(run, run=tmp_path / "f", tasks=letters(scorers=includes()))
    assert (forked.forked.taken, forked.forked.rescored) == (0, 3)
    done = evaluate(letters(scorers=includes()), ECHO, run=forked.place)
    assert done.is_complete and [session.calls for session in done.lineage] == [0, 0]


def test_an_eval_file_may_be_the_new_eval(tmp_path, capfdbinary):
    """As with --config; a run of the command line is forked in the same way."""
    (tmp_path / "rows.jsonl").write_text('{"input": "a", "target": "a"}\n{"input": "b", "target": "x"}\n')
    text = (
        "models: {m: scripted/echo}\ndatasets: {d: {path: rows.jsonl}}\n"
        "tasks: {t: {dataset: d, prompt: '{input}', scorers: [exact]}}\n"
    )
    (tmp_path / "eval.yaml").write_text(text)
    (tmp_path / "new.yaml").write_text(text.replace("exact", "includes"))
    call(capfdbinary, "run", tmp_path / "eval.yaml", "--run-dir", tmp_path / "r")
    forked = fork(tmp_path / "r", run=tmp_path / "f", config=tmp_path / "new.yaml")
    assert forked.forked.rescored == 2


BAD = {
    "no run": (lambda _: fork("nowhere"), NotARun, "nowhere"),
    "task of this process": (lambda run: fork(run, run="f"), UsageError, "only in the Python process"),
    "existing": (lambda run: fork(run, run=run.path, tasks=letters()), UsageError, "already holds a run"),
    "URL": (lambda run: fork(run, run="s3://bucket/f", tasks=letters()), UsageError, "is a URL"),
    "unknown task": (lambda run: fork(run, run="f", tasks=letters(name="other")), UsageError, "no task 'other'"),
    "unknown key": (lambda run: fork(run, run="f", tasks=letters(), set={"sed": 1}), UsageError, r"fork\(\): sed"),
    "set text": (lambda run: fork(run, run="f", set="seed=1"), UsageError, "set is str"),
    "no file": (lambda run: fork(run, run="f", config="none.yaml"), ConfigurationError, "does not exist"),
}


@pytest.mark.parametrize(("action", "kind", "told"), BAD.values(), ids=BAD)
def test_a_wrong_argument_is_one_clear_error(run, tmp_path, monkeypatch, action, kind, told):
    """Nothing is written."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(kind, match=told):
        action(run)
    assert list((tmp_path / "here").iterdir()) == []


def test_a_complete_fork_prints_no_resume_command(tmp_path, capfdbinary):
    """There is nothing to resume; one with something left says how."""
    (tmp_path / "rows.jsonl").write_text('{"input": "a", "target": "a"}\n')
    (tmp_path / "eval.yaml").write_text(
        "models: {m: scripted/echo}\ndatasets: {d: {path: rows.jsonl}}\n"
        "tasks: {t: {dataset: d, prompt: '{input}', scorers: [exact]}}\n"
    )
    call(capfdbinary, "run", tmp_path / "eval.yaml", "--run-dir", tmp_path / "r")
    whole = call(capfdbinary, "fork", tmp_path / "r", "--run-dir", tmp_path / "f")
    assert whole.out.endswith(f"Complete. See: holdfast report {tmp_path / 'f'}\n")
    assert "resume" not in whole.out
    more = call(capfdbinary, "fork", tmp_path / "r", "--set", "epochs=2", "--run-dir", tmp_path / "g")
    assert more.out.endswith(f"Resume with: holdfast resume {tmp_path / 'g'}\n")
