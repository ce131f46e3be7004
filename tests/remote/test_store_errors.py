"""A store that cannot be used is told in a sentence: what it answered, and what to set."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from holdfast.errors import UsageError
from holdfast.run.core.layout import spool_root
from object_store import BUCKET


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
