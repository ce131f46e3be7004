"""Rows 28 to 31b: which run is begun, which one goes on, and what is said before the first call."""

from __future__ import annotations

import re
import signal

import pytest

from durable import snapshot
from evals import http_eval, write_dataset, write_eval
from program import until

CREATION = ["run.directory-made", "run.inputs-written", "run.session-synced", "run.renamed", "run.parent-synced"]
LATER = ["segment.created:2", "frame.half-written:2", "frame.acknowledged:3", "session.ending"]


def echo_eval(directory, count=6, **keys):
    """An eval of the scripted model, which repeats the question."""
    write_dataset(directory, count)
    task = {"dataset": "rows", "prompt": "{question}", "target": "{question}", "scorers": ["exact"]}
    datasets = {"rows": {"path": "rows.jsonl"}}
    data = {"name": "echo", "models": {"m": "scripted/echo"}, "datasets": datasets, "tasks": {"t": task}, **keys}
    return write_eval(directory, data)


def killed_run(holdfast, server, tmp_path, count=6):
    """A run that was killed with one trial finished and two calls in flight."""
    eval_file = http_eval(tmp_path, server.base_url, count, concurrency_limit=2)
    server.behave(hold=True, **{"pass": 1})
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(answered=1, in_flight=2)
    until(lambda: len(holdfast.records("r", "call")) == 3, "the calls are on record")
    started.send(signal.SIGKILL)
    assert started.wait().code == -signal.SIGKILL
    server.behave()


def test_resume_28_mistyped_path_creates_nothing_and_lists_runs(holdfast, tmp_path):
    """A path that is no run is refused with the runs there are; nothing is created."""
    holdfast("run", echo_eval(tmp_path, 1), "--run-dir", "runs/first-capitals", code=0)
    before = snapshot(tmp_path / "runs")
    ended = holdfast("resume", "runs/first-capitls", code=2)
    assert "There is no run 'runs/first-capitls'" in ended.err
    assert "first-capitals" in ended.err
    assert ended.out == ""
    assert snapshot(tmp_path / "runs") == before
    assert not (tmp_path / "runs/first-capitls").exists()


def test_resume_28_ambiguous_name_lists_the_candidates(holdfast, tmp_path):
    """A name that fits two runs is refused and both are named; a name that fits one goes on."""
    for name in ("a-capitals", "b-capitals"):
        holdfast("run", echo_eval(tmp_path, 1), "--run-dir", f"runs/{name}", code=0)
    error = holdfast.json("resume", "capitals", code=2)
    assert error["kind"] == "usage"
    assert "a-capitals" in error["error"] and "b-capitals" in error["error"]
    assert holdfast("resume", "a-cap", code=0).out.endswith("a-capitals: complete, 1 of 1; nothing was run.\n")


@pytest.mark.parametrize("verb", ["resume", "status", "show", "report", "verify", "cat"])
def test_resume_28_a_directory_that_is_no_run_is_named(holdfast, tmp_path, verb):
    """Every verb that takes a run says of another directory that it is none, and leaves it as it is."""
    (tmp_path / "other").mkdir()
    error = holdfast(verb, "other", code=2).err
    assert "other is not a run" in error
    assert list((tmp_path / "other").iterdir()) == []


def test_resume_29_run_into_an_existing_run_is_refused_before_any_write(holdfast, tmp_path):
    """A directory that holds a run is not touched by `run`; the two ways on are named."""
    eval_file = echo_eval(tmp_path)
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    before = snapshot(tmp_path / "r")
    ended = holdfast("run", eval_file, "--run-dir", "r", code=2)
    assert "already holds a run" in ended.err
    assert "holdfast resume" in ended.err and "--or-resume" in ended.err
    assert snapshot(tmp_path / "r") == before
    assert not list(tmp_path.glob(".r.*"))


def test_resume_29_a_directory_with_other_files_is_refused(holdfast, tmp_path):
    """A directory that holds anything else is not turned into a run."""
    (tmp_path / "r").mkdir()
    (tmp_path / "r/notes.txt").write_text("mine")
    ended = holdfast("run", echo_eval(tmp_path), "--run-dir", "r", code=2)
    assert "not an empty directory" in ended.err
    assert snapshot(tmp_path / "r") == {"notes.txt": b"mine"}


@pytest.mark.parametrize("point", CREATION + LATER)
def test_resume_29b_the_same_command_goes_on_after_a_kill_at_any_moment(holdfast, tmp_path, point):
    """Killed while it creates the run or later, the same command finishes it and leaves nothing else behind."""
    command = ("run", echo_eval(tmp_path), "--run-dir", "here/r", "--or-resume")
    assert holdfast(*command, HOLDFAST_CRASH_AT=point).code == -signal.SIGKILL
    ended = holdfast(*command, code=0)
    assert "omplete" in ended.out and "6 of 6" in ended.out
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["r"]
    assert len(holdfast.records("here/r", "trial")) == 6


def test_resume_29b_goes_on_beside_a_creation_that_was_killed_twice(holdfast, tmp_path):
    """However often the creation was killed, the last one clears everything away."""
    command = ("run", echo_eval(tmp_path), "--run-dir", "r", "--or-resume")
    for point in CREATION[:3]:
        assert holdfast(*command, HOLDFAST_CRASH_AT=point).code == -signal.SIGKILL
    assert not (tmp_path / "r").exists()
    holdfast(*command, code=0)
    assert not list(tmp_path.glob(".r.*"))


def test_or_resume_needs_a_directory(holdfast, tmp_path):
    """Without --run-dir a restart could not find its run again."""
    assert "--or-resume needs --run-dir" in holdfast("run", echo_eval(tmp_path), "--or-resume", code=2).err


@pytest.mark.parametrize("command", [("resume", "r"), ("run", "eval.yaml", "--run-dir", "r", "--or-resume")])
def test_resume_31_complete_run_ends_at_once(holdfast, server, tmp_path, command):
    """Going on with a complete run calls no model, writes nothing and exits 0."""
    holdfast("run", http_eval(tmp_path, server.base_url, 3), "--run-dir", "r", code=0)
    before, received = snapshot(tmp_path / "r"), server.state()["received"]
    assert "complete, 3 of 3" in holdfast(*command, code=0).out
    told = holdfast.json(*command, code=0)
    assert {name: told[name] for name in ("state", "planned", "finished", "remaining")} == {
        "state": "complete",
        "planned": 3,
        "finished": 3,
        "remaining": 0,
    }
    assert snapshot(tmp_path / "r") == before
    assert server.state()["received"] == received == 3


def test_resume_31_complete_run_with_blocked_trials_exits_1_again(holdfast, tmp_path):
    """A blocked trial is kept and is not valid: no resume turns the exit code into 0."""
    model = {"provider": "scripted", "model": "echo", "args": {"errors": [{"contains": "q2", "blocked": {}}]}}
    ended = holdfast("run", echo_eval(tmp_path, 3, models={"m": model}), "--run-dir", "r", code=1).out
    assert ended.splitlines()[-2:] == [
        "Finished: 3 of 3 trials, 1 of them blocked by a content policy.",
        "See them with: holdfast show r --where status=blocked",
    ]
    assert holdfast.json("status", "r")["state"] == "complete"
    assert "complete, 3 of 3, 1 of them blocked by a content policy" in holdfast("resume", "r", code=1).out


def test_resume_31b_says_what_it_takes_up_before_the_first_call(holdfast, server, tmp_path):
    """A resume names the run, the configuration, what is finished, what remains and why, and only then calls."""
    killed_run(holdfast, server, tmp_path)
    server.behave(hold=True)
    before = server.state()["received"]
    started = holdfast.start("resume", "r")
    server.wait_for(in_flight=1)
    told = started.told()
    assert re.search(r"Resuming r \(id [0-9a-f]{8}, session 2\), with the configuration saved in the run", told)
    assert "1 of 6 trials are finished, 5 remaining: 2 interrupted, 3 not started.\n" in told
    server.behave()
    ended = started.wait()
    assert ended.code == 0 and "Complete: 6 of 6" in ended.out
    assert server.state()["received"] - before == 5


def test_a_second_resume_of_a_running_run_is_told_who_holds_it(holdfast, server, tmp_path):
    """While one session works, another exits 4 and names its process."""
    server.behave(hold=True)
    started = holdfast.start("run", http_eval(tmp_path, server.base_url, 2), "--run-dir", "r")
    server.wait_for(in_flight=2)
    assert holdfast.json("status", "r")["state"] == "running"
    error = holdfast.json("resume", "r", code=4)
    assert error["kind"] == "held" and str(started.pid) in error["error"]
    server.behave()
    assert started.wait().code == 0
