"""Listing what can be recovered: from little, whatever the size of the runs; nothing is changed (recovery 9)."""

from __future__ import annotations

import obstore
import pytest

import holdfast as api
from remote_runs import cut_short, tree, upload

__all__ = ["cut_short"]
MB = 2**20


def listed(place):
    """The runs below the prefix of this test, by the last part of their names."""
    above = place.url.rpartition("/")[0]
    return {item.run.rpartition("/")[2]: item for item in api.list_recoverable(above)}


def test_recovery_09_a_list_tells_where_each_run_is_and_changes_nothing(holdfast, place, cut_short, tmp_path):
    """Runs below a prefix or a directory are listed with state, counts, source and age (recovery 9)."""
    holdfast("recover", cut_short.url, "--to", "runs/home", code=0)
    before, objects = tree(tmp_path / "runs"), cut_short.keys()
    above = cut_short.url.rpartition("/")[0]
    listed = holdfast.json("recover", "--list", above, code=0)["runs"]
    (mine,) = [item for item in listed if item["run"] == cut_short.url]
    assert (mine["state"], mine["finished"], mine["planned"], mine["source"]) == ("incomplete", 5, 8, "remote")
    assert mine["age_seconds"] >= 0
    (local,) = holdfast.json("recover", "--list", "runs", code=0)["runs"]
    assert (local["source"], local["finished"]) == ("local", 5)
    assert tree(tmp_path / "runs") == before and cut_short.keys() == objects
    holdfast("resume", cut_short.url, code=0)
    (both,) = [item.source for item in api.list_recoverable(above) if item.run == cut_short.url]
    (spool,) = api.list_recoverable(place.spool)
    assert (both, spool.source, spool.state) == ("both", "both", "complete")


@pytest.fixture
def large(place, tmp_path):
    """A complete run of 40 MB that nobody ever held a lease on."""
    size = upload(place, tmp_path / "made", [MB] * 40)
    assert size > 25 * MB
    return place


def test_recovery_09_a_large_run_is_listed_from_little(large, proxy):
    """How a run ended and how much is finished comes from a few small reads, not from its bytes."""
    (found,) = listed(large).values()
    assert (found.state, found.finished, found.planned, found.source) == ("complete", 40, 40, "remote")
    assert 0 < proxy.passed_bytes < MB


def test_recovery_09_what_is_not_known_cheaply_is_said(large, proxy):
    """Without the end of a session and without a heartbeat the count is not known, and no number is made up."""
    large.delete(large.segments()[-1])
    (found,) = listed(large).values()
    assert (found.state, found.finished, found.planned) == ("incomplete", None, 40)
    assert "unknown" in found.note
    assert proxy.passed_bytes < 3 * MB


def test_recovery_09_a_segment_that_is_gone_makes_a_run_incomplete(large):
    """The end of a session names its segments; a run without one of them is not called complete."""
    large.delete(large.segments()[0])
    (found,) = listed(large).values()
    assert (found.state, found.finished) == ("incomplete", 40)
    assert "Missing: 1 segment of its last session" in found.note


def test_recovery_09_garbage_is_unreadable_and_hides_no_other_run(holdfast, large, store):
    """A run of which nothing is legible is listed as such, beside the others."""
    above = large.url.partition("://")[2].partition("/")[2].rpartition("/")[0]
    bucket = store.bucket(above)
    obstore.put(bucket, "torn/journal/000001-0000-000001.jsonl.zst", b"\0" * 5000)
    obstore.put(bucket, "torn/notes/journal/readme.txt", b"no segment")
    found = listed(large)
    assert sorted(found) == ["run", "torn"]
    assert (found["torn"].state, found["torn"].finished) == ("unreadable", None)
    assert found["run"].state == "complete"
    table = holdfast("recover", "--list", large.url.rpartition("/")[0], code=0).out
    assert "?/?" in table and "40/40" in table
