"""Recovering takes the memory that it takes, however large the run is (recovery 24, and 25 as far as a store is
concerned).
"""

from __future__ import annotations

import base64
import os
import random
import shutil
import subprocess
import sys
import time

import pytest

from holdfast.run import create_run
from holdfast.run.records import Status, Step, Trial
from holdfast.run.uploads import Uploads
from holdfast.storage.remote import RemoteStore

MB = 2**20
RECOVER = r"""
import re, sys
from pathlib import Path
from holdfast import recover
found = recover(sys.argv[1], sys.argv[2], steps=sys.argv[3] == "steps")
# Not what getrusage says, which begins with the memory of the process that started this one.
print(found.finished, re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def upload(place, root, transcripts):
    """A run of one trial for each transcript, made here, uploaded, and deleted here."""
    session = create_run(root, name="large", config={}, planned=len(transcripts))
    for number, size in enumerate(transcripts):
        noise = random.Random(number).randbytes(size * 3 // 4)
        text = base64.b64encode(noise).decode()
        trial = f"{number:020x}"
        session.append(Step(trial=trial, attempt=1, step="generate:x#1", name="generate", result={"text": text}))
        session.commit(Trial(trial=trial, attempt=1, status=Status.VALID, task="t", model="m", scores={"s": 1.0}))
    session.close("completed", finished=len(transcripts), planned=len(transcripts))
    Uploads(RemoteStore(place.url), session.layout).upload(everything=True)
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    shutil.rmtree(root)
    return size


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


def test_without_steps_the_run_shrinks(place, tmp_path):
    """Leaving out the transcripts of finished trials leaves out their bytes (recovery 10)."""
    size = upload(place, tmp_path / "made", [MB] * 20)
    finished, _ = recovered(place, tmp_path / "home", how="no-steps")
    left = sum(path.stat().st_size for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert finished == 20
    assert left < size / 20


@pytest.mark.soak
def test_five_gigabytes_come_home_in_300_megabytes(place, tmp_path):
    """A run of 5 GB is recovered within 300 MB of memory; its rate beside that of `zstd -d` is printed."""
    size = upload(place, tmp_path / "made", [MB] * 5 * 1024)
    began = time.monotonic()
    finished, most = recovered(place, tmp_path / "home")
    seconds = time.monotonic() - began
    assert finished == 5 * 1024
    assert most < 300 * MB
    if zstd := shutil.which("zstd"):
        segments = sorted((tmp_path / "home" / "journal").iterdir())
        before = os.times()
        for segment in segments:
            subprocess.run([zstd, "-dc", segment], stdout=subprocess.DEVNULL, check=True)
        after = os.times()
        print(f"{size / seconds / MB:.0f} MB/s; zstd -d {size / (after.elapsed - before.elapsed) / MB:.0f} MB/s")
    print(f"{most / MB:.0f} MB of memory")
