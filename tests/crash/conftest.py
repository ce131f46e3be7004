"""A directory in memory: what is simulated there needs no disk, and every state is opened many times faster."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from scribes import Scribe


@pytest.fixture
def memory_path(tmp_path):
    """A temporary directory, in memory where there is such a place."""
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK):
        yield tmp_path
        return
    directory = Path(tempfile.mkdtemp(prefix="holdfast-", dir=shared))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def scribes():
    """Starts writing processes; none outlives the test."""
    started: list[Scribe] = []

    def start(*arguments) -> Scribe:
        started.append(Scribe(*arguments))
        return started[-1]

    yield start
    for scribe in started:
        scribe.kill()
