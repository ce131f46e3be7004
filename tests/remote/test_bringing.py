"""Bringing a run home: killed at every point, with a full disk, and by two at once."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from evals import http_eval
from holdfast.storage import RealFileSystem, crashpoints, take_lease

POINTS = [point for point in crashpoints.MAINTENANCE if point.startswith("recover.")]
FILE_BYTES = 600
SMALL_FILES = f"""
import resource, sys
import holdfast
resource.setrlimit(resource.RLIMIT_FSIZE, ({FILE_BYTES}, {FILE_BYTES}))
try:
    holdfast.recover(sys.argv[1], sys.argv[2])
except holdfast.StorageFailure as failure:
    print(failure)
"""


@pytest.fixture
def uploaded(holdfast, place, server, tmp_path):
    """A complete run of 12 trials in the store only, in several segments."""
    server.behave(latency=0.03)
    eval_file = http_eval(tmp_path, server.base_url, 12, concurrency_limit=2, runner={"upload_interval": 0.05})
    holdfast("run", eval_file, "--run-dir", place.url, code=0)
    place.lose_machine()
    assert len(place.segments()) > 2
    return place


def names(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


@pytest.mark.parametrize("nth", [1, 3])
@pytest.mark.parametrize("point", POINTS)
def test_recovery_06_a_kill_leaves_nothing_under_the_name(holdfast, uploaded, tmp_path, point, nth):
    """Whenever a recovery is killed, its name stands for the whole run or for nothing; the next try goes on."""
    killed = holdfast("recover", uploaded.url, "--to", "home", HOLDFAST_CRASH_AT=f"{point}:{nth}")
    was_named = (tmp_path / "home").exists()
    assert killed.code == (-signal.SIGKILL if nth == 1 or point in {"recover.fetched", "recover.taken"} else 0)
    assert was_named == (point == "recover.named" or killed.code == 0)
    again = holdfast.json("recover", uploaded.url, "--to", "home", code=0)
    assert (again["finished"], again["warnings"]) == (12, [])
    if point == "recover.taken" and nth == 3:
        assert again["already"] >= 3
    assert holdfast.json("verify", "home", code=0)["ok"]
    assert {f"journal/{name.rpartition('/')[2]}" for name in uploaded.segments()} <= set(names(tmp_path / "home"))
    assert [name for name in names(tmp_path) if "fetching" in name or "recovering" in name] == []


def test_recovery_06_a_full_disk_ends_it_and_leaves_nothing_out(holdfast, uploaded, tmp_path):
    """Files that cannot be written end the recovery; they are not left out with a warning."""
    command = [sys.executable, "-c", SMALL_FILES, uploaded.url, str(tmp_path / "home")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cannot be written" in done.stdout
    assert not (tmp_path / "home").exists()
    assert holdfast.json("recover", uploaded.url, "--to", "home", code=0)["finished"] == 12


def test_recovery_12_two_at_once_do_not_disturb_each_other(holdfast, uploaded, tmp_path):
    """A recovery into a directory that another is at work on is told so, and goes on once that one is gone."""
    first = holdfast.start("recover", uploaded.url, "--to", "home", HOLDFAST_CRASH_AT="recover.brought")
    assert first.wait().code == -signal.SIGKILL
    lease = take_lease(RealFileSystem(), tmp_path / ".home.recovering")
    try:
        assert "is in use by" in holdfast("recover", uploaded.url, "--to", "home", code=4).err
    finally:
        lease.release()
    assert holdfast.json("recover", uploaded.url, "--to", "home", code=0)["already"] > 0


def test_recovery_08_of_a_segment_that_is_there_twice_the_sealed_one_comes(holdfast, uploaded, tmp_path):
    """A copy that went up before its segment was sealed gives way to the whole one."""
    sealed = uploaded.segments()[1]
    data = uploaded.read(sealed)
    uploaded.write(sealed.replace(".jsonl", ".open.jsonl"), data[: len(data) // 2])
    found = holdfast.json("recover", uploaded.url, "--to", "home", code=0)
    assert (found["finished"], found["warnings"]) == (12, [])
    assert not list((tmp_path / "home" / "journal").glob("*.open.*"))
    assert holdfast.json("verify", "home", code=0)["ok"]
