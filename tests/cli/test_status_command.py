"""`status`: every run in a table, one run at 80 columns, and many sessions in a few lines."""

from __future__ import annotations

import re

import pytest

from cli_calls import call
from durable import begin_run, begin_session, finish_trials, finished_run, segment_paths
from evals import write_dataset, write_eval


@pytest.fixture
def told(capfdbinary, monkeypatch, tmp_path):
    """Calls a verb in this process, in a directory of the test's own, at 80 columns; what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words, code=0):
        done = call(capfdbinary, *words)
        assert done.code == code, done
        return done.out

    return run


def test_many_sessions_are_summed_up(told, tmp_path):
    """The first, the last five, and how the others ended; --sessions and --json have all of them."""
    begin_run(tmp_path / "r", planned=9).abandon()
    for number in range(2, 41):
        session = begin_session(tmp_path / "r", planned=9)
        if number % 4:
            session.abandon()
        else:
            session.close("interrupted", 130)
    out = told("status", "r")
    listed = [int(number) for number in re.findall(r"^ +(\d+)  \d{4}-", out, re.MULTILINE)]
    assert listed == [1, 36, 37, 38, 39, 40]
    assert "  … 34 more sessions: 26 killed, 8 interrupted; --sessions lists them\n" in out
    every = told("status", "r", "--sessions")
    assert re.findall(r"^ +(\d+)  \d{4}-", every, re.MULTILINE) == [str(number) for number in range(1, 41)]
    assert "more session" not in every


def test_ten_sessions_are_listed(told, tmp_path):
    """Nothing is hidden that would fit."""
    begin_run(tmp_path / "r").abandon()
    for _ in range(9):
        begin_session(tmp_path / "r").close("interrupted", 130)
    assert "more session" not in told("status", "r")


def test_one_run_fits_80_columns(told, tmp_path):
    """The run, its state, trials with what remains, calls, tokens and sessions, each in its place."""
    session = begin_run(tmp_path / "r", planned=3)
    finish_trials(session, "t1", "t2")
    session.close("interrupted", 130)
    out = told("status", "r")
    lines = out.splitlines()
    assert lines[0] == "r: incomplete"
    assert "  trials   2 of 3 trials finished, 1 remaining: 1 not started" in lines
    assert "  states   2 valid, 1 not started" in lines
    assert re.search(r"^  started  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC; last written \d{4}-\d\d", out, re.MULTILINE)
    assert "  calls    2 made, 0 replayed; up to 2 calls in flight at the end, which a" in lines
    assert lines[-1] == "  Resume with: holdfast resume r"
    assert max(map(len, lines)) <= 80


def test_long_facts_are_wrapped_at_words(told, tmp_path, monkeypatch):
    """Nothing is cut inside a word, and further lines are indented."""
    begin_run(tmp_path / "r", planned=3).abandon()
    monkeypatch.setenv("COLUMNS", "50")
    lines = told("status", "r").splitlines()
    place = next(place for place, line in enumerate(lines) if line.startswith("  started"))
    assert lines[place + 1].startswith(" " * 11) and max(map(len, lines)) <= 50


def test_all_runs_are_a_table_and_the_newest_one_is_shown(told, tmp_path):
    """The newest run is the last row; its status follows. A run beside runs/ is listed too."""
    for name in ("runs/20260101-000000-a-000000", "runs/b"):
        finished_run(tmp_path / name, "t1")
    session = begin_run(tmp_path / "c", planned=2)
    finish_trials(session, "t1")
    held = told("status")
    session.close("interrupted", 130)
    header, *rows = held.partition("\n\n")[0].splitlines()
    assert header.split() == ["run", "state", "finished", "started", "(UTC)"]
    assert [row.split()[0] for row in rows[:3]] == ["runs/20260101-000000-a-000000", "runs/b", "c"]
    assert {row.index("2026-", 40) for row in rows[:3]} == {header.index("started")}
    assert rows[2].split()[1:3] == ["running", "1/2"] and rows[3].startswith("  held by ")
    assert held.partition("\n\n")[2].startswith("c: running\n")
    assert told("status").partition("\n\n")[2].startswith("c: incomplete\n")


def test_a_single_run_needs_no_table(told, tmp_path):
    """What would be its row is the first line of its status."""
    finished_run(tmp_path / "runs" / "a", "t1")
    assert told("status").startswith("runs/a: complete\n")


def test_a_run_that_cannot_be_read_is_in_the_table(told, tmp_path):
    """With the reason below it; the others are listed all the same."""
    for name in ("runs/a", "runs/b"):
        finished_run(tmp_path / name, "t1")
    for path in segment_paths(tmp_path / "runs" / "b"):
        path.unlink()
    out = told("status")
    assert re.search(r"^runs/b +unreadable$", out, re.MULTILINE) and "its journal is empty" in out
    assert re.search(r"^runs/a +complete +1/1 ", out, re.MULTILINE)


def test_without_runs_the_way_to_start_one_is_named(told):
    """A listing of nothing is no error; the verbs that need a run exit with 2."""
    assert "Start one with: holdfast run EVAL" in told("status")
    for verb in ("show", "report", "verify", "resume", "cat"):
        told(verb, code=2)


def test_no_argument_and_latest_mean_the_newest_run(holdfast, tmp_path):
    """For every verb that reads a run, and for resume; the others need to be told which."""
    write_dataset(tmp_path, 2)
    task = {"dataset": "rows", "prompt": "{question}", "target": "{question}", "scorers": ["exact"]}
    models = {"m": {"provider": "scripted", "model": "echo"}}
    data = {"name": "e", "models": models, "datasets": {"rows": {"path": "rows.jsonl"}}, "tasks": {"t": task}}
    eval_file = write_eval(tmp_path, data)
    holdfast("run", eval_file, "--run-dir", "first", "--limit", "1", code=0)
    holdfast("run", eval_file, "--run-dir", "second", code=0)
    # The first one is written last, and stays the older one.
    holdfast("resume", "first", "--set", "tasks.t.limit=2", code=0)
    for verb in ("show", "verify", "status"):
        assert holdfast.json(verb, "@latest", code=0)["run"] == "second"
    assert holdfast.json("show", code=0) == holdfast.json("show", "second", code=0)
    assert holdfast.json("verify", code=0) == holdfast.json("verify", "second", code=0)
    assert "second: complete" in holdfast("resume", code=0).out
    for words in (["report"], ["report", "@latest"], ["cat"], ["diff", "@latest", eval_file], ["fork", "@latest"]):
        assert "Newest run: second\n" in holdfast(*words, code=0).err
    assert holdfast.json("report", code=0)["coverage"]["valid"] == 2
    for words in (["fork"], ["repair"], ["clean", "--steps"], ["diff", eval_file]):
        assert "Missing argument" in holdfast(*words, code=2).err
