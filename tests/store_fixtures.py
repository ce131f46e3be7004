"""A real S3 server, one for each process of the tests, and a run's place in it."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

import pytest

from fault_proxy import Proxy
from moto_store import PROGRAM as MOTO
from moto_store import MotoServer
from object_store import BUCKET, KEYS, StoreServer
from remote_place import Place


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """The server; started once."""
    directory = tmp_path_factory.mktemp("store")
    started = MotoServer(directory) if os.environ.get(MOTO) else StoreServer(directory)
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
    return new_place(store, tmp_path / "spool")


def new_place(store: StoreServer, spool: Path) -> Place:
    """A place in the store that nothing else uses."""
    prefix = f"{uuid.uuid4().hex}/run"
    return Place(f"s3://{BUCKET}/{prefix}", store.bucket(prefix), spool)


@pytest.fixture
def proxy(store, place, monkeypatch):
    """A proxy between the program and the server."""
    made = Proxy(store.endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", made.endpoint)
    yield made
    made.close()
