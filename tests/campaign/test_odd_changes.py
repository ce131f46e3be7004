"""resume 52-60, 80-82: changes written by hand, each through the command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from gate_campaign import Bench, Verdict, write_files
from odd_changes import CHANGES, NAMED

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def bench():
    made = Bench()
    yield made
    made.zygote.end()


def place_files(place, files):
    """The eval's own files, and those beside its directory."""
    shutil.rmtree(place, ignore_errors=True)
    write_files(place / "eval", {name: text for name, text in files.items() if not name.startswith("../")})
    for name, text in files.items():
        if name.startswith("../"):
            path = place / name.removeprefix("../")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def holdfast(bench, place, environment, *words):
    """The program; with a path for Python it is started anew."""
    there = {name: str(place / value[1:]) if value.startswith("@") else value for name, value in environment.items()}
    if "PYTHONPATH" not in there:
        return bench.run(*words, directory=place / "eval", environment=there)
    command = [sys.executable, "-m", "holdfast", *map(str, words)]
    options = {"cwd": place / "eval", "env": {**os.environ, **there}}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)
    return Verdict(done.returncode, done.stderr)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_written_by_hand(name, tmp_path, bench):
    """Refused, accepted, or accepted with the value named; no code of an object is run to look at it."""
    change, place, run = CHANGES[name], tmp_path / "x", tmp_path / "run"
    place_files(place, change.before)
    ran = holdfast(bench, place, change.environments[0], "run", "eval.yaml", "--run-dir", run)
    assert ran.code == 0, ran.said
    place_files(place, change.after)
    verdict = holdfast(bench, place, change.environments[1], "resume", run)
    if change.expected == NAMED:
        assert verdict.code == 3 or "cannot be compared" in verdict.said, verdict
    else:
        assert verdict.code == change.expected, verdict
    assert not (place / "eval" / "TOUCHED").exists()
