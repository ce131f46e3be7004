"""killed: what a SIGKILL half-way through a run costs: calls that are paid again, and the CPU of the rest.

The server is a process of its own and counts the requests. The run is killed from outside, when half of its trials are
finished, and resumed by the command that a person would type. The same work without a kill is the floor.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from bench.evals import echo_eval, write_dataset
from bench.measure import Figure, Setting, cpu_of_child
from bench.server import canned_server
from holdfast.spec import eval_text

IN_FLIGHT = 200
_REPLY_SECONDS = 0.05
_MOST_SECONDS = 600.0


def measure(setting: Setting) -> list[Figure]:
    count = setting.size(10_000, 1_000)
    dataset = write_dataset(setting.directory / f"questions-{count}.jsonl", count)
    place, whole = setting.directory / "killed", setting.directory / "whole"
    with canned_server(_REPLY_SECONDS) as server:
        eval_file = _write_eval(setting.directory / "killed.yaml", dataset, server.url)
        uninterrupted = cpu_of_child(_command("run", eval_file, "--run-dir", whole), **_QUIET)
        finished = _run_and_kill(eval_file, place, count // 2)
        resumed = cpu_of_child(_command("resume", place), **_QUIET)
        again = server.stop() - 2 * count
    at = f"SIGKILL at {finished:,} of {count:,}, {IN_FLIGHT} in flight"
    return [
        Figure("killed", f"{at}: calls paid again", again, "calls"),
        Figure("killed", "the resume, CPU (floor: the whole run)", resumed, "s", uninterrupted),
    ]


def _write_eval(path: Path, dataset: Path, url: str) -> Path:
    model = {"provider": "openai", "model": "canned", "base_url": url}
    path.write_text(eval_text(echo_eval(dataset, IN_FLIGHT, model)), encoding="utf-8")
    return path


_QUIET = {"stderr": subprocess.DEVNULL}


def _command(*words: str | Path) -> list[str | Path]:
    return [sys.executable, "-m", "holdfast", *words]


def _run_and_kill(eval_file: Path, place: Path, half: int) -> int:
    """Runs the eval until half of it is finished, and kills it; the number of trials finished then."""
    process = subprocess.Popen(_command("run", eval_file, "--run-dir", place), stdout=subprocess.DEVNULL, **_QUIET)
    deadline = time.monotonic() + _MOST_SECONDS
    while process.poll() is None and time.monotonic() < deadline and _finished(place) < half:
        time.sleep(0.1)
    process.kill()
    process.wait()
    return _finished(place)


def _finished(place: Path) -> int:
    """As `holdfast status` says; 0 while there is no run yet."""
    done = subprocess.run(_command("status", place, "--json"), capture_output=True, check=False)
    return int(json.loads(done.stdout).get("finished", 0)) if done.stdout else 0
