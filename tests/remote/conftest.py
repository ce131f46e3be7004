"""Tests of runs in an object store: a real server, one for each process of the tests."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest

from object_store import BUCKET, KEYS, Proxy, StoreServer
from program_fixtures import holdfast, observed, server, server_process, zygote
from remote_place import Place

__all__ = ["holdfast", "observed", "server", "server_process", "zygote"]


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """The server; started once."""
    directory = tmp_path_factory.mktemp("store")
    started = StoreServer(directory)
    yield started
    started.kill()
    shutil.rmtree(directory)


def _reach(monkeypatch, endpoint: str, spool: Path) -> None:
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": endpoint, "HOLDFAST_SPOOL": str(spool)}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def place(store, monkeypatch, tmp_path):
    """A place for a run in the store, that the program reaches from this test's own spool."""
    _reach(monkeypatch, store.endpoint, tmp_path / "spool")
    prefix = f"{uuid.uuid4().hex}/run"
    return Place(f"s3://{BUCKET}/{prefix}", store.bucket(prefix), tmp_path / "spool")


@pytest.fixture
def proxy(store, place, monkeypatch):
    """A proxy between the program and the server."""
    made = Proxy(store.endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", made.endpoint)
    yield made
    made.close()
