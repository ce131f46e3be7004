"""Row 22: what stands beside the journal cannot be written. The run goes on, and the ledger says so."""

from __future__ import annotations

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

TRIALS = 8


@pytest.fixture
def interrupted(holdfast, server, tmp_path):
    """A run that was killed with three of its trials finished."""
    server.behave(hold=True, **{"pass": 3})
    started = holdfast.start("run", http_eval(tmp_path, server.base_url, TRIALS), "--run-dir", "r")
    server.wait_for(answered=3)
    until(lambda: len(holdfast("cat", "r").out.split('"type":"trial"')) > 3, "three are on record")
    started.send(signal.SIGKILL)
    started.wait()
    server.behave()
    server.wait_until_idle()
    return tmp_path / "r"


@pytest.fixture(scope="module")
def strace():
    """strace, where it is there and may trace."""
    program = shutil.which("strace")
    probe = ["-f", "-qq", "-o", "/dev/null", "-e", "inject=getppid:error=EIO", "true"]
    if program is None or subprocess.run([program, *probe], capture_output=True, check=False).returncode:
        pytest.skip("strace is not there, or may not trace here")
    return program


def resume_with(strace, run, faults, paths, *words):
    """Resumes under faults of the given system calls on the given files, with a witness of what is acknowledged."""
    calls = ",".join(fault.split(":")[0] for fault in faults)
    traced = ["-f", "-qq", "-o", os.devnull, "-e", f"trace={calls}"]
    traced += [word for fault in faults for word in ("-e", f"inject={fault}")]
    traced += [word for path in paths for word in ("-P", str(run / path))]
    command = [strace, *traced, sys.executable, witnessed, "resume", "r", *words]
    environment = {**os.environ, ACKS: str(run.parent / ".acks"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=run.parent, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done


def check_promises(holdfast, server, run):
    """Nothing that was acknowledged is lost, nothing that was on record was paid again, and the run is sound."""
    kept = [record["trial"] for record in holdfast.records("r", "trial")]
    assert len(kept) == len(set(kept)) == TRIALS
    acks = acknowledged(run.parent / ".acks")
    assert set(acks) <= set(kept)
    # Five calls were in flight at the kill.
    assert server.state()["received"] == 2 * TRIALS - 3
    assert holdfast.json("verify", "r", code=0)["ok"]


def ledger(holdfast):
    """What the last session's end says has failed; `status` says the same."""
    end = holdfast.records("r", "session_end")[-1]
    told = holdfast.json("status", "r", code=0)["sessions"][-1]["failures"]
    assert end["ledger"]["failures"] == told
    return {failure["what"]: failure for failure in told}


INDEX_IN_USE = [".index.sqlite", ".index.sqlite-journal"]
"""What a session writes; it is published as index.sqlite when the session ends."""
CASES = [
    pytest.param(["pwrite64:error=ENOSPC"], INDEX_IN_USE, [], "index.sqlite", id="index"),
    pytest.param(["fsync:error=ENOSPC"], [""], ["--set", "concurrency_limit=2"], "config.yaml", id="config"),
    pytest.param(["ftruncate:error=EIO:when=1"], ["lease"], [], "lease", id="name of the holder"),
    pytest.param(
        ["flock:error=ENOLCK", "pwrite64:error=EIO:when=1"], ["lease", "lease-1"], [], "lease", id="local heartbeat"
    ),
]


@pytest.mark.parametrize(("faults", "paths", "words", "what"), CASES)
def test_recovery_22_what_is_beside_the_journal_fails(
    holdfast, server, interrupted, strace, faults, paths, words, what
):
    """An index, config.yaml or a heartbeat that cannot be written stops nothing, and stands in the ledger."""
    done = resume_with(strace, interrupted, faults, paths, *words)
    failure = ledger(holdfast)[what]
    assert failure["count"] >= 1 and failure["reason"]
    assert f"note: {what} could not be written" in done.stderr
    assert f"{what} could not be written" in holdfast("status", "r").out
    check_promises(holdfast, server, interrupted)


@pytest.mark.parametrize("name", [".index.sqlite", "index.sqlite"], ids=["in use", "published"])
def test_recovery_22_no_file_can_stand_where_the_index_should(holdfast, server, interrupted, name):
    """Something else is in the place of the index: it is left alone, the run goes on, the ledger names it."""
    (interrupted / name).unlink(missing_ok=True)
    (interrupted / name).mkdir()
    ended = holdfast.json("resume", "r", code=0)
    assert [failure["what"] for failure in ended["failures"]] == ["index.sqlite"]
    assert list(ledger(holdfast)) == ["index.sqlite"]
    assert (interrupted / name).is_dir()
    check_promises(holdfast, server, interrupted)


def test_recovery_22_a_session_that_is_killed_has_told_its_failures(holdfast, server, interrupted):
    """The ledger of a session that never ended names what had failed by then."""
    (interrupted / ".index.sqlite").unlink(missing_ok=True)
    (interrupted / ".index.sqlite").mkdir()
    server.behave(hold=True, **{"pass": 1})
    started = holdfast.start("resume", "r")
    until(lambda: len(holdfast("cat", "r").out.split('"type":"trial"')) > 4, "a fourth is on record")
    assert holdfast.json("status", "r")["sessions"][-1]["failures"][0]["what"] == "index.sqlite"
    started.send(signal.SIGKILL)
    started.wait()
    (session,) = [found for found in holdfast.json("status", "r")["sessions"] if found["number"] == 2]
    assert (session["ended_as"], session["failures"][0]["what"]) == ("killed", "index.sqlite")


def test_a_sound_session_has_no_failures_in_its_ledger(holdfast, server, interrupted):
    """The ledger names only what failed."""
    holdfast("resume", "r", code=0)
    assert "failures" not in holdfast.records("r", "session_end")[-1]["ledger"]
    assert holdfast.json("status", "r")["sessions"][-1]["failures"] == []
