"""Tests of the gate work in a directory of their own, on an eval that they change."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from program_fixtures import holdfast, server, server_process, zygote

# Values for every place of the schema are made beside the tests of the schema.
sys.path.append(str(Path(__file__).parents[1] / "spec"))

from code_project import Project
from gate_world import World

__all__ = ["holdfast", "project", "server", "server_process", "world", "zygote"]


@pytest.fixture
def world(tmp_path, monkeypatch, capfdbinary):
    """An eval, its dataset and its run, in a directory of the test's own, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    return World(tmp_path, capfdbinary)


@pytest.fixture
def project(world, holdfast):
    """A task in Python, whose files a test writes and edits."""
    return Project(world, holdfast)
