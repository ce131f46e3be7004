"""Tests of samplings start the program, and ask servers that count, or that draw by seeds."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from program_fixtures import holdfast, observed, server, server_process, zygote
from same_code import same_code
from seeded_server import seeded_server

__all__ = ["drawing", "holdfast", "observed", "same_code", "server", "server_process", "zygote"]


def pytest_collection_modifyitems(items):
    """Row 30: no test of samplings depends on another; they run in an order that the header names."""
    own = [index for index, item in enumerate(items) if item.path.is_relative_to(Path(__file__).parent)]
    shuffled = [items[index] for index in own]
    random.Random(os.environ["HOLDFAST_TEST_SEED"]).shuffle(shuffled)
    for index, item in zip(own, shuffled, strict=True):
        items[index] = item


@pytest.fixture
def drawing():
    """A server whose replies follow from the seed of the request."""
    with seeded_server() as running:
        yield running
