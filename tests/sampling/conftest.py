"""Tests of samplings start the program, and may ask a server that draws by seeds."""

import pytest

from program_fixtures import holdfast, server, server_process, zygote
from seeded_server import seeded_server

__all__ = ["drawing", "holdfast", "server", "server_process", "zygote"]


@pytest.fixture
def drawing():
    """A server whose replies follow from the seed of the request."""
    with seeded_server() as running:
        yield running
