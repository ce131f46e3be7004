"""Several look at one run by its URL: what one has fetched is not taken away by another who listed the store before."""

from __future__ import annotations

import pytest

from evals import fast_eval as fast
from holdfast.run.remote import merged_view as remote
from holdfast.run.remote.merged_view import open_merged_view
from holdfast.run.remote.run_objects import list_run_objects
from holdfast.storage.object_store import ObjectStore


@pytest.fixture
def fetched(holdfast, place, server, tmp_path):
    """A complete run in the store whose machine is gone, and the view that somebody has just put together."""
    holdfast("run", fast(tmp_path, server, 4), "--run-dir", place.url, code=0)
    place.lose_machine()
    root, downloaded = open_merged_view(place.url)
    assert downloaded.fetched and not downloaded.warnings
    return root


def looked_at_earlier(monkeypatch, place, key):
    """From now on the store is listed as it was before the object came up."""
    entries = [entry for entry in list_run_objects(ObjectStore(place.url)) if entry.key != key]
    monkeypatch.setattr(remote, "list_run_objects", lambda _store: entries)


def test_what_came_up_since_the_store_was_listed_stays(fetched, place, monkeypatch):
    """An object that is not in an older list is asked for before its copy counts as stale."""
    key = place.segments()[-1]
    looked_at_earlier(monkeypatch, place, key)
    open_merged_view(place.url)
    assert (fetched / key).read_bytes() == place.read(key)


def test_what_is_gone_from_the_store_is_gone_from_the_view(fetched, place):
    """The view shows what is there: a copy of an object that was deleted does not stand in for it (recovery 8)."""
    key = place.segments()[-1]
    place.delete(key)
    open_merged_view(place.url)
    assert not (fetched / key).exists()
