"""Recovering takes the memory that it takes, however large the run is (recovery 24, and 25 as far as a store is
concerned).
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.recover import round_trip
from bench.workload import write_transcripts
from remote_runs import send_away, upload

MB = 2**20
RECOVER = r"""
import re, sys
from pathlib import Path
from holdfast import recover
found = recover(sys.argv[1], sys.argv[2], steps=sys.argv[3] == "steps")
# Not what getrusage says, which begins with the memory of the process that started this one.
print(found.finished, re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def recovered(place, to, how="steps"):
    """How many trials came home, and the most memory that the process had at any time, in bytes."""
    command = [sys.executable, "-c", RECOVER, place.url, str(to), how]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    finished, most = done.stdout.split()
    return int(finished), int(most) * 1024


@pytest.mark.parametrize("transcripts", [[MB] * 120, [120 * MB]], ids=["many", "one"])
def test_memory_does_not_grow_with_the_run(place, tmp_path, transcripts):
    """A run of 120 MB comes home in far less memory than that, in many trials or in one."""
    upload(place, tmp_path / "made", transcripts)
    finished, most = recovered(place, tmp_path / "home")
    assert finished == len(transcripts)
    print(f"{most / MB:.0f} MB of memory")
    assert most < 100 * MB
    assert (tmp_path / "home" / "journal").is_dir()


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("how", ["steps", "no-steps"])
def test_recovery_24_one_gigabyte_comes_home_in_100_megabytes(place, tmp_path, how):
    """A run of 1 GB is recovered within 100 MB of memory, also without its steps."""
    count = write_transcripts(tmp_path / "made", 10**9)
    size = send_away(place, tmp_path / "made")
    finished, most = recovered(place, tmp_path / "home", how)
    print(f"{size / 1e9:.2f} GB, {count} trials: {most / MB:.0f} MB of memory")
    assert finished == count
    assert most < 100 * MB


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_recovery_24_five_gigabytes_come_home_in_300_megabytes(place, tmp_path):
    """A run of 5 GB is recovered within 300 MB of memory, for at most three times the CPU of `zstd -d`."""
    count = write_transcripts(tmp_path / "made", 5 * 10**9)
    size = send_away(place, tmp_path / "made")
    found = round_trip(place.url, tmp_path / "round")
    print(f"{size / 1e9:.2f} GB, {count} trials: {found['peak_mb']:.0f} MB of memory")
    print(f"{size / 1e6 / found['seconds']:.0f} MB/s, {found['cpu']:.1f} s of CPU")
    assert found["finished"] == count
    assert found["peak_mb"] < 300
    if "zstd_cpu" in found:
        print(f"zstd -d: {size / 1e6 / found['zstd_seconds']:.0f} MB/s, {found['zstd_cpu']:.1f} s of CPU")
        assert found["cpu"] < 3 * found["zstd_cpu"]
