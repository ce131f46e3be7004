"""Tests of repair, verify and clean go through the command line."""

from __future__ import annotations

import json

import pytest

from cli_calls import call


@pytest.fixture
def told(capfdbinary):
    """Calls a verb in this process with --json; its exit code and its one JSON document."""

    def run(*words):
        ended = call(capfdbinary, *words, "--json")
        return ended.code, json.loads(ended.out)

    return run


@pytest.fixture
def text(capfdbinary):
    """Calls a verb in this process; its exit code and what it says on both streams."""

    def run(*words):
        ended = call(capfdbinary, *words)
        return ended.code, ended.out + ended.err

    return run
