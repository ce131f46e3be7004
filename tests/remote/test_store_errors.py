"""A store that cannot be used is told in a sentence: what it answered, and what to set."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path

import pytest

from holdfast.errors import StorageFailure, UsageError
from holdfast.run.core.layout import spool_root
from holdfast.storage.object_store import ObjectStore
from moto_store import PROGRAM as MOTO
from object_store import BUCKET


@pytest.mark.skipif(bool(os.environ.get(MOTO)), reason="moto accepts any key")
@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_wrong_keys_are_told(holdfast, place, monkeypatch, name):
    """A refused key names the answer and the variables; neither key is printed."""
    monkeypatch.setenv(name, "not-the-right-one")
    ended = holdfast("status", place.url, code=5)
    assert "403 Forbidden" in ended.err and "Set the store's keys" in ended.err
    assert "not-the-right-one" not in ended.err and "<?xml" not in ended.err
    assert ended.err.count("\n") == 1


def test_a_bucket_that_is_not_there_is_told(holdfast, place):
    """A missing bucket is named as such."""
    ended = holdfast("status", f"s3://no-such-bucket-{BUCKET}/run", code=5)
    assert "404 Not Found, NoSuchBucket" in ended.err and "Does the bucket exist" in ended.err


def test_a_store_that_is_not_there_is_told(holdfast, place, monkeypatch):
    """An address at which nobody answers is named, with the variable that sets it."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        ended = holdfast("status", place.url, code=5)
    assert address in ended.err
    assert "AWS_ENDPOINT_URL" in ended.err and "intact" in ended.err


@pytest.mark.parametrize("key", ["409", "Conflict", "journal/000001"])
def test_an_outage_is_not_taken_for_a_lost_race(place, proxy, tmp_path, key):
    """Whatever the name or the address says, only an answer of 409 is one; a lease depends on it."""
    store, file = ObjectStore(place.url), tmp_path / "segment"
    file.write_bytes(b"frames")
    tag = store.put_new(key, b"first")
    proxy.mode = "503"
    with pytest.raises(StorageFailure, match="503"):
        store.put_new(key, b"second")
    with pytest.raises(StorageFailure, match="503"):
        store.put_over(key, b"second", tag)
    with pytest.raises(StorageFailure, match="503"):
        store.put_segment(f"other-{key}", file)


def test_an_answer_of_409_is_a_lost_race(place, monkeypatch):
    """Some servers answer so; where the object then does not exist, nothing is called a conflict."""
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_answer_conflicts, args=(listener,), daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{listener.getsockname()[1]}")
    assert ObjectStore(place.url).put_new("lease", b"mine") is None
    listener.close()


def _answer_conflicts(listener):
    body = b"<Error><Code>ConditionalRequestConflict</Code></Error>"
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            with client:
                client.recv(65536)
                client.sendall(b"HTTP/1.1 409 Conflict\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


def test_listing_a_directory_that_is_not_there_is_told(holdfast):
    """`recover --list` of nothing is a mistake; of the usual place without runs it is an empty list."""
    assert "nowhere is not a directory" in holdfast("recover", "--list", "nowhere", code=2).err
    assert "No runs found." in holdfast("recover", "--list", code=0).out


def test_a_user_without_a_home_is_told_where_a_spool_may_go(monkeypatch):
    """Where there is no place for a spool, the variable that gives one is named."""

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    for name in ("HOLDFAST_SPOOL", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(UsageError, match="Set HOLDFAST_SPOOL"):
        spool_root("s3://evals/run")
