"""Where output goes is no matter of the run: a closed, full or abandoned stream costs what was to be printed."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from evals import http_eval, write_dataset, write_eval

PROGRAM = f"{shlex.quote(sys.executable)} -m holdfast"


def small_eval(directory):
    """Six trials of a scripted model."""
    write_dataset(directory, 6)
    task = {"dataset": "rows", "prompt": "{question}", "target": "{question}", "scorers": ["exact"]}
    model = {"provider": "scripted", "model": "echo"}
    return write_eval(
        directory, {"models": {"m": model}, "datasets": {"rows": {"path": "rows.jsonl"}}, "tasks": {"t": task}}
    )


def shell(directory, line):
    """What a shell says of a line, and its exit code."""
    return subprocess.run(["bash", "-c", line], cwd=directory, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def finished(tmp_path):
    """A directory with an eval and a complete run of it."""
    small_eval(tmp_path)
    assert shell(tmp_path, f"{PROGRAM} run eval.yaml --run-dir r").returncode == 0
    return tmp_path


REDIRECTED = {
    "standard error is full": "2> /dev/full",
    "standard output is full": "> /dev/full",
    "both are full": "> /dev/full 2>&1",
    "standard error is closed": "2>&-",
    "all are closed": "<&- >&- 2>&-",
}


@pytest.mark.parametrize("name", REDIRECTED)
def test_a_run_is_carried_out_wherever_its_output_goes(tmp_path, name):
    """Every trial is finished, the exit code is that of the run, and no bytes of others are in the journal."""
    small_eval(tmp_path)
    done = shell(tmp_path, f"{PROGRAM} run eval.yaml --run-dir r {REDIRECTED[name]}")
    assert done.returncode == 0, done
    assert "Traceback" not in done.stderr
    told = shell(tmp_path, f"{PROGRAM} verify r && {PROGRAM} status r")
    assert told.returncode == 0 and "6 of 6 trials finished" in told.stdout
    assert "session 1: completed" in told.stdout


def test_a_run_outlives_the_reader_of_its_output(tmp_path):
    """`holdfast run … | tee log`, and tee is gone: the run goes on to its end, and its exit code is its own."""
    small_eval(tmp_path)
    done = shell(tmp_path, f"({PROGRAM} run eval.yaml --run-dir r 2>&1; echo $? > code) | true; sleep 0.1; cat code")
    assert done.stdout == "0\n", done
    assert "session 1: completed" in shell(tmp_path, f"{PROGRAM} status r").stdout


def test_an_interrupted_run_tells_its_exit_code_without_a_reader(holdfast, server, tmp_path):
    """The two stages of Ctrl-C hold where nobody reads what is said about them."""
    server.behave(hold=True)
    http_eval(tmp_path, server.base_url, 4, concurrency_limit=2)
    command = [sys.executable, "-m", "holdfast", "run", "eval.yaml", "--run-dir", "r"]
    with Path("/dev/full").open("w") as full:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=full, stderr=full)
    server.wait_for(in_flight=2)
    process.send_signal(2)
    server.behave()
    assert process.wait(30) == 130
    assert holdfast.json("status", "r")["finished"] == 2


@pytest.mark.parametrize("words", ["report r", "status r --json", "show r", "cat r", "verify r --json", "--help"])
def test_output_that_cannot_be_written_is_named_for_what_it_is(finished, words):
    """A full disk behind standard output is told on standard error, with exit code 5; it is no damage of the run."""
    done = shell(finished, f"{PROGRAM} {words} > /dev/full")
    assert done.returncode == 5, done
    assert done.stderr.startswith("holdfast: Standard output cannot be written: No space left on device.")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", ["report r", "status r --json", "cat r", "list models"])
def test_closed_output_is_nobody_to_tell(finished, words):
    """A verb that only prints ends as ever where standard output is closed."""
    done = shell(finished, f"{PROGRAM} {words} >&-")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", ["show r", "cat r", "report r --json"])
def test_output_into_head_is_quiet(finished, words):
    """A reader that has seen enough is no error to tell of."""
    done = shell(finished, f"{PROGRAM} {words} | head -n 1")
    assert done.stderr == "" and len(done.stdout.splitlines()) == 1
