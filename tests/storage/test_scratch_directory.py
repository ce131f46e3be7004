"""Temporary directories: those of killed processes are removed, those of others are not."""

from __future__ import annotations

import errno
import fcntl
import signal
import subprocess
import sys
import tempfile

import pytest

from holdfast.storage.scratch_directory import ScratchDirectory

MAKE = """
import sys, os, signal
from holdfast.storage.scratch_directory import ScratchDirectory
place = ScratchDirectory()
(place.path / "rows").write_text("x")
print(place.path, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def start(temporary):
    command = [sys.executable, "-c", MAKE]
    environment = {"TMPDIR": str(temporary), "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    return process, process.stdout.readline().strip()


def test_what_a_killed_process_has_left_is_removed_and_nothing_else(temporary):
    """Experiments 23: a directory of a living process, and one that only has the name, stay."""
    (temporary / "holdfast-mine").mkdir()
    killed, left = start(temporary)
    living, held = start(temporary)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    try:
        with ScratchDirectory() as own:
            names = {str(path) for path in temporary.iterdir()}
            assert left not in names
            assert {held, str(own), str(temporary / "holdfast-mine")} == names
        assert not own.exists()
    finally:
        living.communicate("\n")


def test_without_locks_a_directory_can_be_used_and_belongs_to_nobody_else(monkeypatch, tmp_path):
    """As on some network file systems: nobody can tell that it was abandoned, so nobody removes it."""

    def no_locks(_fd, _how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(fcntl, "flock", no_locks)
    first = ScratchDirectory()
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with ScratchDirectory() as second:
        assert first.path.is_dir() and second.is_dir()
    first.close()
    assert list(tmp_path.iterdir()) == []
