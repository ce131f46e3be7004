"""progress_file: a JSON file that is always whole, true while a session runs, and says how the session ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from evals import http_eval
from program import until

COUNTS = ["planned", "finished", "valid", "limited", "blocked", "failed", "unfinished", "not_started", "remaining"]


def read(path):
    return json.loads(path.read_text())


def held_eval(tmp_path, server, count=6, **keys):
    server.behave(hold=True)
    settings = {"concurrency_limit": 2, "progress_interval": 0.05, "progress_file": "progress.json"}
    return http_eval(tmp_path, server.base_url, count, **{**settings, **keys})


def test_it_is_true_while_the_session_runs_and_says_how_it_ended(holdfast, server, tmp_path):
    """The counts are those of status, by the same names; the last content has the exit code."""
    eval_file, path = held_eval(tmp_path, server), tmp_path / "progress.json"
    running = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(in_flight=2)
    seen = until(lambda: path.exists() and (found := read(path))["running"] == 2 and found, "two are running")
    assert (seen["state"], seen["ended_as"], seen["exit_code"]) == ("running", None, None)
    assert (seen["planned"], seen["finished"], seen["unfinished"], seen["not_started"]) == (6, 0, 2, 4)
    assert seen["remaining_by_reason"] == {"running": 2, "not started": 4}
    assert (seen["calls"]["in_flight"], seen["session"], seen["eta_seconds"]) == (2, 1, None)
    server.behave()
    assert running.wait().code == 0
    ended, status = read(path), holdfast.json("status", "r")
    assert (ended["state"], ended["ended_as"], ended["exit_code"]) == ("complete", "completed", 0)
    same = [*COUNTS, "remaining_by_reason", "usage", "cost", "name"]
    assert {key: ended[key] for key in same} == {key: status[key] for key in same}
    group = ended["tasks"]["t"]["m"]
    assert (group["planned"], group["finished"], group["failed"], group["retries"]) == (6, 6, 0, 0)
    assert group["scores"] == {"exact": {"mean": pytest.approx(4 / 6), "n_trials": 6}}
    assert group["tokens"] == status["usage"]["input_tokens"] + status["usage"]["output_tokens"] > 0


def test_after_a_kill_it_says_running_with_an_old_time_and_a_resume_continues_it(holdfast, server, tmp_path):
    """The file is whole; the next session of the run adds to what the first has done."""
    eval_file, path = held_eval(tmp_path, server), tmp_path / "progress.json"
    server.behave(hold=True, **{"pass": 3})
    running = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(in_flight=2)
    until(lambda: path.exists() and read(path)["finished"] == 3, "three are finished")
    running.send(signal.SIGKILL)
    running.wait()
    left = read(path)
    assert (left["state"], left["finished"], left["session"], left["ended_as"]) == ("running", 3, 1, None)
    server.behave()
    holdfast("resume", "r", code=0)
    ended = read(path)
    assert (ended["state"], ended["finished"], ended["session"], ended["id"]) == ("complete", 6, 2, left["id"])
    assert ended["tasks"]["t"]["m"]["scores"]["exact"]["n_trials"] == 6
    assert ended["usage"] == holdfast.json("status", "r")["usage"]
    assert not list(tmp_path.glob(".progress.json*"))


def test_an_interrupt_is_told(holdfast, server, tmp_path):
    """A session that was stopped says so, with its exit code."""
    eval_file, path = held_eval(tmp_path, server, grace_period=0), tmp_path / "progress.json"
    running = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(in_flight=2)
    running.send(signal.SIGINT)
    assert running.wait().code == 130
    ended = read(path)
    assert (ended["state"], ended["ended_as"], ended["exit_code"]) == ("incomplete", "interrupted", 130)


@pytest.mark.parametrize("place", ["no/such/directory/progress.json", "r"])
def test_what_cannot_be_written_stops_nothing(holdfast, server, tmp_path, place):
    """The run is complete, and says once what could not be written."""
    eval_file = http_eval(tmp_path, server.base_url, 3, progress_file=place, progress_interval=0.01)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=0)
    assert ended.err.count("could not be written") == 1 and str(tmp_path / place) in ended.err
    assert holdfast.json("status", "r")["state"] == "complete"


def test_a_pipe_is_left_alone_and_a_link_is_followed(holdfast, server, tmp_path):
    """Only a regular file is replaced."""
    os.mkfifo(tmp_path / "pipe")
    eval_file = http_eval(tmp_path, server.base_url, 3, progress_file="pipe")
    assert "not a regular file" in holdfast("run", eval_file, "--run-dir", "r", code=0).err
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "link").symlink_to("progress.json")
    holdfast("run", eval_file, "--run-dir", "s", "--set", "progress_file=link", code=0)
    assert (tmp_path / "link").is_symlink() and read(tmp_path / "progress.json")["state"] == "complete"


def test_it_may_move_on_resume(holdfast, server, tmp_path):
    """Where the file is has nothing to do with what is measured: it is a location."""
    server.behave(refuse_status=400, refuse_times=10**9)
    eval_file = http_eval(tmp_path, server.base_url, 2, progress_file="a.json")
    holdfast("run", eval_file, "--run-dir", "r", code=1)
    server.behave()
    holdfast("resume", "r", "--set", f"progress_file={tmp_path / 'b.json'}", code=0)
    assert read(tmp_path / "a.json")["state"] == "incomplete" and read(tmp_path / "b.json")["state"] == "complete"


def test_evaluate_writes_it_too(holdfast, tmp_path):
    """The file does not depend on who starts the session."""
    (tmp_path / "program.py").write_text(
        "from holdfast import Sample, Task, evaluate, exact, generate\n"
        "task = Task(samples=[Sample('x', target='x')], solver=generate(), scorers=[exact()], name='t')\n"
        "evaluate(task, models=['scripted/echo'], run='r', progress_file='progress.json')\n"
    )
    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, check=True, capture_output=True)
    assert read(tmp_path / "progress.json")["state"] == "complete"
