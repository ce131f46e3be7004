"""Rows 45 and 49: a full disk, a disk that fails, and an end that cannot be written down."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from evals import http_eval
from observed import ACKS, acknowledged
from observed import __file__ as witnessed
from program import until


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 2 MiB, which is nearly full; where the test may not mount one, it is skipped."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system cannot be mounted here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk, left):
    """Takes all space of a disk but so many bytes."""
    free = os.statvfs(disk)
    (disk / "ballast").write_bytes(b"x" * (free.f_bavail * free.f_bsize - left))


def session_ends(holdfast, run):
    """How each session ended, and with which exit code."""
    found = json.loads(holdfast("status", run, "--json", code=0).out)
    return [(session["ended_as"], session["exit_code"]) for session in found["sessions"]]


def kept_trials(holdfast, run):
    return {end["trial"] for end in holdfast.records(run, "trial")}


def test_resume_45_full_disk_stops_the_session_and_loses_nothing(holdfast, observed, server, tmp_path, small_disk):
    """On a full disk no new work starts and the program exits 5; with space again a resume completes the run.

    `status` says of each session how it ended, although the journal of the first could not take that.
    """
    eval_file = http_eval(tmp_path, server.base_url, 2000, concurrency_limit=8)
    server.behave(latency=0.01)
    process = observed.start("run", eval_file, "--run-dir", small_disk / "r")
    until(lambda: len(observed.acknowledged()) > 5, "trials are being finished")
    fill(small_disk, 32 * 1024)
    ended = process.wait()
    assert ended.code == 5
    assert "No space left on device" in ended.err
    assert "All synced records are intact" in ended.err
    received, acks = server.wait_until_idle()["received"], observed.acknowledged()
    assert received < 2000
    assert set(acks) <= kept_trials(holdfast, small_disk / "r")
    assert session_ends(holdfast, small_disk / "r") == [("storage", 5)]
    still = observed("resume", small_disk / "r", code=5)
    assert "and that is still so: No space left on device. Nothing was called." in still.err
    assert server.state()["received"] == received and session_ends(holdfast, small_disk / "r") == [("storage", 5)]
    assert set(acks) <= kept_trials(holdfast, small_disk / "r")
    (small_disk / "ballast").unlink()
    server.behave()
    observed("resume", small_disk / "r", code=0)
    ends = session_ends(holdfast, small_disk / "r")
    assert ends[0] == ("storage", 5) and ends[-1] == ("completed", 0) and ("killed", None) not in ends
    kept = kept_trials(holdfast, small_disk / "r")
    assert len(kept) == 2000 and set(observed.acknowledged()) <= kept
    assert len(observed.acknowledged()) == len(set(observed.acknowledged()))
    assert sum(server.worked_on().values()) - 2000 <= 2 * 8


def test_resume_45_a_disk_that_is_full_from_the_start_leaves_nothing(holdfast, server, tmp_path, small_disk):
    """A run that cannot be created leaves nothing under its name, and no model is asked."""
    fill(small_disk, 0)
    eval_file = http_eval(tmp_path, server.base_url, 3)
    ended = holdfast("run", eval_file, "--run-dir", small_disk / "r", code=5)
    assert "could not be created: No space left on device" in ended.err
    assert not (small_disk / "r").exists()
    assert server.state()["received"] == 0


def test_resume_45_failed_sync_ends_the_session(holdfast, server, tmp_path):
    """A sync that fails is never taken for one that worked: exit 5, and what it held remains to be done."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    eval_file = http_eval(tmp_path, server.base_url, 60, concurrency_limit=4)
    server.behave(latency=0.01)
    inject = ["-f", "-qq", "-o", str(tmp_path / "trace"), "-e", "trace=fdatasync"]
    command = [strace, *inject, "-e", "inject=fdatasync:error=EIO:when=25+"]
    process = subprocess.run(
        [*command, sys.executable, witnessed, "run", eval_file, "--run-dir", "r"],
        cwd=tmp_path,
        env={**os.environ, ACKS: str(tmp_path / "acks")},
        capture_output=True,
        text=True,
        check=False,
    )
    if "ptrace" in process.stderr and not (tmp_path / "r").exists():
        pytest.skip("strace may not trace here")
    assert process.returncode == 5, process.stderr
    assert "Input/output error" in process.stderr and "Traceback" not in process.stderr
    assert (tmp_path / "trace").read_text().count("INJECTED") == 1
    acks = acknowledged(tmp_path / "acks")
    assert acks and set(acks) <= kept_trials(holdfast, "r")
    assert server.wait_until_idle()["received"] < 60
    holdfast("resume", "r", code=0)
    assert len(kept_trials(holdfast, "r")) == 60


def test_resume_49_an_end_that_cannot_be_written_is_a_warning(holdfast, server, tmp_path):
    """If the session's end cannot be recorded at Ctrl-C, a warning says so; the exit code stays 130."""
    eval_file = http_eval(tmp_path, server.base_url, 6, concurrency_limit=2)
    server.behave(hold=True, **{"pass": 2})
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(answered=2, in_flight=2)
    # The end has a segment of its own, whose name is taken; what is open can still be written to.
    newest = max(path.name for path in (tmp_path / "r/journal").iterdir())
    taken = tmp_path / "r/journal" / f"{newest[:12]}{int(newest[12:18]) + 1:06}.open.jsonl.zst"
    taken.mkdir()
    started.send(signal.SIGINT)
    until(lambda: "to stop immediately" in started.told(), "the signal was taken")
    started.send(signal.SIGINT)
    ended = started.wait()
    assert ended.code == 130
    assert "The end of the session could not be recorded" in ended.err
    assert "2 of 6 trials finished, 4 remaining: 2 interrupted, 2 not started.\n" in ended.out
    taken.rmdir()
    assert holdfast.json("status", "r")["finished"] == 2
    server.behave()
    holdfast("resume", "r", code=0)
    assert len(kept_trials(holdfast, "r")) == 6
