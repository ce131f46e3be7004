"""Ctrl-C at any moment, once or twice: the resume command, or "Nothing was started."; exit 130 and no traceback."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evals import write_dataset, write_eval

SIGINT_AT = """
import importlib.abc, os, signal, sys, threading
point, times = sys.argv[1], int(sys.argv[2])
sys.argv[1:] = sys.argv[3:]

def interrupt():
    if times > 1:
        threading.Timer(0.002, os.kill, [os.getpid(), signal.SIGINT]).start()
    os.kill(os.getpid(), signal.SIGINT)

class Named:
    def __set_name__(self, owner, name):
        interrupt()

class AtImport(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == point:
            sys.meta_path.remove(self)
            class Made:
                held = Named()

from holdfast.__main__ import main
if point.startswith("holdfast."):
    sys.meta_path.insert(0, AtImport())
else:
    from holdfast.storage import crashpoints
    crashpoints.reach = lambda name: interrupt() if name == point else None
main()
"""
"""A program that gets its signals at a point of its own code, or while a class is made as a module is imported."""


def slow_eval(directory: Path) -> Path:
    """Two seconds of work."""
    write_dataset(directory, 40)
    model = {"provider": "scripted", "model": "echo", "args": {"latency": 0.1}}
    task = {"dataset": "rows", "prompt": "{question}", "target": "{question}", "scorers": ["exact"]}
    data = {"models": {"m": model}, "datasets": {"rows": {"path": "rows.jsonl"}}, "tasks": {"t": task}}
    return write_eval(directory, {**data, "concurrency_limit": 2})


def run_interrupted(directory: Path, point: str, times: int, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SIGINT_AT, point, str(times), *words]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=60)


def check_end(directory: Path, told: str) -> str:
    """What was told is true: nothing is there, or the command that it gives resumes the run."""
    assert "Traceback" not in told
    resume = re.search(r"holdfast resume (.+)", told)
    if resume is None:
        assert "Nothing was started." in told
        assert not (directory / "r").exists()
        return "nothing"
    command = [sys.executable, "-m", "holdfast", "resume", *shlex.split(resume[1])]
    resumed = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=60)
    assert resumed.returncode == 0, resumed.stderr
    return "resume"


POINTS = {
    "run.inputs-written": "nothing",
    "run.session-synced": "nothing",
    "run.renamed": "resume",
    "run.parent-synced": "resume",
    "holdfast.cli.main": "nothing",
    "holdfast.errors": "nothing",
    "holdfast.cli.run.run": "nothing",
    "holdfast.engine.opening.new_run": "nothing",
    "holdfast.models.scripted.provider": "nothing",
}


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("point", POINTS)
def test_while_a_run_is_created_it_exists_whole_or_not_at_all(tmp_path, point, times):
    """The message says which, and the command in it works; a second signal changes nothing."""
    eval_file = slow_eval(tmp_path)
    ended = run_interrupted(tmp_path, point, times, "run", str(eval_file), "--run-dir", "r")
    assert ended.returncode == 130
    assert check_end(tmp_path, ended.stdout + ended.stderr) == POINTS[point]


def test_a_run_without_a_directory_of_its_own_is_named_too(tmp_path):
    """The command names the directory below runs/ that was chosen for it."""
    ended = run_interrupted(tmp_path, "run.renamed", 1, "run", str(slow_eval(tmp_path)))
    assert (ended.returncode, check_end(tmp_path, ended.stderr)) == (130, "resume")


def test_a_verb_that_only_reads_says_that_it_stopped(tmp_path):
    """There is nothing to resume."""
    ended = run_interrupted(tmp_path, "holdfast.cli.look.status", 1, "status")
    assert (ended.returncode, ended.stderr.strip()) == (130, "Stopped.")


@pytest.mark.parametrize("gap", [None, 0.0, 0.01, 0.1])
def test_at_any_moment(tmp_path, gap):
    """Also in the first tenths of a second, and twice; only before the program's first line is Python on its own."""
    eval_file = slow_eval(tmp_path)
    for number, offset in enumerate([0.03, 0.08, 0.15, 0.25, 0.4, 0.6, 0.9]):
        place = tmp_path / str(number)
        place.mkdir()
        command = [sys.executable, "-m", "holdfast", "run", str(eval_file), "--run-dir", "r"]
        started = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for pause in [offset] if gap is None else [offset, gap]:
            time.sleep(pause)
            started.send_signal(signal.SIGINT)
        told = "".join(started.communicate(timeout=60))
        if started.returncode in {-signal.SIGINT, 1}:
            # Python itself was starting: nothing of the program had been executed.
            assert not re.search(r"holdfast/(?!__init__|__main__|version)\w", told), told
            assert not (place / "r").exists()
        else:
            assert started.returncode == 130, told
            check_end(place, told)
