"""Which run is meant: a path, a part of a name, or the newest one, which is the one that was started last."""

from __future__ import annotations

import os

import pytest

from durable import begin_session, finished_run, segment_paths
from holdfast import NotARun, Run, UsageError
from holdfast.run import find_run
from holdfast.run.core import session_contents
from holdfast.run.core.start_time import start_time
from holdfast.run.locate import LATEST, known_runs


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A current directory, and a function that makes a run in it that was started at a time."""
    monkeypatch.chdir(tmp_path)

    def make(name, at):
        monkeypatch.setattr(session_contents, "utc_timestamp", lambda: at)
        return finished_run(tmp_path / name, "t1").relative_to(tmp_path)

    return make


def test_the_newest_run_was_started_last(place):
    """Whatever its name, and whatever was written last."""
    newest = place("runs/a", "2026-05-02T10:00:00+00:00")
    older = place("runs/b", "2026-05-02T09:59:59+00:00")
    oldest = place("z", "2025-05-02T10:00:00+00:00")
    assert find_run(LATEST) == newest
    begin_session(older).close("completed")
    os.utime(older)
    assert find_run(LATEST) == newest
    assert sorted(known_runs(), key=start_time) == [oldest, older, newest]


def test_times_in_other_zones_are_compared_as_moments(place):
    """A run that was copied from another machine has its own clock's zone."""
    place("runs/a", "2026-05-02T11:30:00+02:00")
    newest = place("runs/b", "2026-05-02T10:00:00+00:00")
    assert find_run(LATEST) == newest


def test_a_run_directory_beside_runs_counts(place):
    """`--run-dir r` is found as well; other directories are not looked into."""
    place("runs/a", "2026-05-02T10:00:00+00:00")
    newest = place("r", "2026-05-02T10:00:01+00:00")
    (newest.parent / "other" / "journal").mkdir(parents=True)
    assert find_run(LATEST) == newest
    assert Run.open(LATEST).path == newest
    place("deep/er", "2027-05-02T10:00:01+00:00")
    assert find_run(LATEST) == newest


def test_of_two_runs_of_one_second_the_later_one(place):
    """The record has seconds; the order in which they were written decides between equal ones."""
    for name in ("runs/b", "runs/a"):
        last = place(name, "2026-05-02T10:00:00+00:00")
        os.utime(segment_paths(last)[0], ns=(0, 10**18 + (name == "runs/a") * 1000_000_000))
    assert find_run(LATEST) == last


@pytest.mark.parametrize("ruin", [b"", b"\0" * 4096])
def test_a_damaged_run_is_ordered_by_its_name(place, ruin):
    """Damage to the newest run does not make an older one the newest."""
    place("runs/20260502-100000-a-aaaaaa", "2026-05-02T10:00:00+00:00")
    damaged = place("runs/20260502-110000-b-bbbbbb", "2026-05-02T11:00:00+00:00")
    for path in segment_paths(damaged):
        path.write_bytes(ruin)
    assert find_run(LATEST) == damaged


def test_a_damaged_run_without_a_time_in_its_name_is_ordered_by_its_files(place):
    """The last resort is when its oldest segment was last written."""
    damaged = place("runs/x", "2026-05-02T10:00:00+00:00")
    for path in segment_paths(damaged):
        path.write_bytes(b"")
        os.utime(path, (1.0, 1.0))
    older_than_that = place("runs/y", "1969-05-02T10:00:00+00:00")
    assert find_run(LATEST) == damaged
    assert start_time(older_than_that) < start_time(damaged)


def test_without_any_run_the_way_to_start_one_is_named(place, tmp_path):
    """@latest, and a name, in a directory without runs."""
    for text in (LATEST, "nobody"):
        with pytest.raises(NotARun, match=r"There is no run.* Start one with: holdfast run EVAL"):
            find_run(text)


def test_names_are_matched_in_both_places(place):
    """A part of a name that two runs have is refused with both; a whole name is not ambiguous."""
    below, beside = place("runs/2026-capitals", "2026-05-02T10:00:00+00:00"), place("capitals", "2026-05-02T10:00:00Z")
    assert find_run("2026-cap") == below
    assert find_run("capitals") == beside
    with pytest.raises(UsageError, match="'capital' matches 2 runs: runs/2026-capitals, capitals"):
        find_run("capital")
    with pytest.raises(NotARun, match="The newest runs are"):
        find_run("rivers")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_may_not_be_read_is_passed_over(place, tmp_path):
    """A current directory with other people's directories in it."""
    newest = place("r", "2026-05-02T10:00:01+00:00")
    (tmp_path / "theirs").mkdir(mode=0)
    assert find_run(LATEST) == newest
