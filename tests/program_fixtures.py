"""The program in a directory of the test's own, and a space on a server that counts."""

from __future__ import annotations

import uuid

import pytest

from counting_server import counting_server
from observed import Observed, Zygote
from program import Program


@pytest.fixture(scope="session")
def server_process():
    with counting_server() as space:
        yield space


@pytest.fixture
def server(server_process):
    """A space of this test's own on the counting server."""
    return server_process(uuid.uuid4().hex)


@pytest.fixture(scope="session")
def zygote():
    made = Zygote()
    yield made
    made.end()


@pytest.fixture
def holdfast(tmp_path, zygote):
    """The program; what it is still doing at the end of the test is killed."""
    program = Program(tmp_path, zygote)
    yield program
    program.end()


@pytest.fixture
def observed(tmp_path, zygote):
    """The program with a witness of its acknowledgements."""
    yield Observed(zygote, tmp_path)
    zygote.kill_all()
