"""Rows 43 and 44 through the command line: who holds a run is a matter of locks, not of process ids."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest

from evals import http_eval
from program import until


def holding(holdfast, server, directory):
    """A run with two calls in flight, and the process that executes it."""
    eval_file = http_eval(directory, server.base_url, 4, concurrency_limit=2)
    server.behave(hold=True)
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(in_flight=2)
    return started


def lease(directory):
    return json.loads((directory / "r" / "lease").read_text().splitlines()[0])


def test_resume_44_a_process_id_that_another_program_uses_now_holds_nothing(holdfast, server, tmp_path):
    """The holder was killed and its id has gone to a program that lives: the run is taken over at once."""
    holding(holdfast, server, tmp_path).kill()
    server.behave()
    other = subprocess.Popen(["sleep", "60"])
    try:
        dead = lease(tmp_path)
        (tmp_path / "r" / "lease").write_text(json.dumps({**dead, "pid": other.pid}) + "\n")
        assert holdfast.json("status", "r")["state"] == "incomplete"
        assert "Complete: 4 of 4" in holdfast("resume", "r", code=0).out
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def contained(*words, directory):
    """The program as process 1 of a process-id namespace of its own."""
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-m", "holdfast", *words]
    return subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def can_contain():
    command = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
    return shutil.which("unshare") and subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_contain(), reason="no process-id namespace can be made here")
def test_resume_44_a_holder_in_another_container_with_the_same_process_id_is_respected(holdfast, server, tmp_path):
    """Two containers, in each of which the program is process 1: the second exits 4 and names the first."""
    eval_file = http_eval(tmp_path, server.base_url, 2)
    server.behave(hold=True)
    first = contained("run", str(eval_file), "--run-dir", "r", directory=tmp_path)
    try:
        server.wait_for(in_flight=2)
        assert lease(tmp_path)["pid"] == 1
        second = contained("resume", "r", directory=tmp_path)
        told = second.communicate(timeout=30)[1]
        assert second.returncode == 4 and "is in use by process 1 on " in told
        assert server.state()["received"] == 2
        server.behave()
        assert "Complete: 2 of 2" in first.communicate(timeout=30)[0]
    finally:
        first.kill()
        first.communicate()
    assert set(server.worked_on().values()) == {1}


@pytest.mark.parametrize("verb", ["resume r", "repair r", "clean r --steps", "run eval.yaml --run-dir r --or-resume"])
def test_resume_43_every_verb_that_writes_is_refused_while_the_run_is_held(holdfast, server, tmp_path, verb):
    """Exit code 4 with host, process and since when, as a sentence and as JSON; the holder is not disturbed."""
    started = holding(holdfast, server, tmp_path)
    ended = holdfast(*verb.split(), code=4)
    assert f"is in use by process {started.pid} on {lease(tmp_path)['host']} since " in ended.err
    assert re.search(r" since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\b", ended.err), ended.err
    assert holdfast.json(*verb.split(), code=4)["kind"] == "held"
    for reading in ("status r", "report r", "show r", "verify r"):
        holdfast(*reading.split(), code=0)
    server.behave()
    assert "Complete: 4 of 4" in started.wait().out
    until(lambda: not started.is_running, "it has ended")
    assert set(server.worked_on().values()) == {1}
