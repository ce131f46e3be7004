"""Tests of samplings start the program, and ask servers that count, or that draw by seeds."""

from __future__ import annotations

import pytest

from program_fixtures import holdfast, observed, server, server_process, zygote
from seeded_server import seeded_server

__all__ = ["drawing", "holdfast", "observed", "server", "server_process", "zygote"]


@pytest.fixture
def drawing():
    """A server whose replies follow from the seed of the request."""
    with seeded_server() as running:
        yield running
