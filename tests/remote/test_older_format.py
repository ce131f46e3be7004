"""Runs of format 1 in an object store: read, recovered and forked, and not resumed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from durable import formats_of, run_of_format_1, snapshot
from holdfast.journal import FORMAT
from observed import FIRST_NUMBERS
from remote_runs import send_away

EARLIER = Path(__file__).parents[1] / "data" / "earlier" / "keys-at-the-top"


@pytest.fixture
def stored(place, tmp_path, monkeypatch):
    """A run of format 1 that was interrupted, in the store and nowhere else; its eval is here.

    Its scorers have the behaviour numbers that they had then.
    """
    monkeypatch.setenv(FIRST_NUMBERS, "1")
    shutil.copytree(EARLIER, tmp_path, dirs_exist_ok=True)
    text = (tmp_path / "eval.yaml").read_text()
    (tmp_path / "eval.yaml").write_text(text.replace("deadline:", "retry_deadline:").replace("grace:", "grace_period:"))
    send_away(place, tmp_path / "run")
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
    return place


def test_a_run_of_format_1_in_a_store_is_read_and_not_resumed(holdfast, stored):
    """Every command that reads does; a resume is refused by URL too, and the store is as it was."""
    before = {key: stored.read(key) for key in stored.keys("")}
    for verb in ("status", "report", "show", "verify"):
        holdfast(verb, stored.url, code=0)
    assert holdfast.json("status", stored.url)["format"] == 1
    told = holdfast("resume", stored.url, code=3)
    assert "was written in format 1" in told.err and f"holdfast fork {stored.url}" in told.err
    told = holdfast("run", "eval.yaml", "--run-dir", stored.url, "--or-resume", code=3)
    assert f"holdfast fork {stored.url}" in told.err
    assert {key: stored.read(key) for key in stored.keys("")} == before


def test_a_run_of_format_1_is_recovered_as_it_is(holdfast, stored, tmp_path):
    """Its bytes are those of the store; it is still to be forked."""
    told = holdfast("recover", stored.url, "--to", "home", code=0)
    assert "holdfast fork home" in told.out and "holdfast resume" not in told.out
    assert formats_of(tmp_path / "home") == {1}
    assert holdfast.json("verify", "home", code=0)["ok"]
    before = snapshot(tmp_path / "home")
    assert "holdfast fork home" in holdfast("resume", "home", code=3).err
    assert snapshot(tmp_path / "home") == before


def test_without_steps_it_is_a_run_of_this_format(holdfast, stored, tmp_path):
    """Such a copy is a new run, with the same figures, and is resumed."""
    holdfast("recover", stored.url, "--to", "home", code=0)
    holdfast("recover", stored.url, "--to", "slim", "--no-steps", code=0)
    whole, slim = holdfast.json("report", "home"), holdfast.json("report", "slim")
    for name in ("tasks", "coverage", "usage", "cost"):
        assert slim[name] == whole[name]
    assert formats_of(tmp_path / "slim") == {FORMAT}
    holdfast("resume", "slim", code=0)
    assert holdfast.json("status", "slim")["state"] == "complete"


def test_without_steps_it_costs_what_it_cost(holdfast, place, tmp_path):
    """Replies of other runs cost nothing and copies what they cost, also once that copy is cleaned."""
    send_away(place, run_of_format_1(tmp_path / "run"))
    holdfast("recover", place.url, "--to", "home", code=0)
    holdfast("recover", place.url, "--to", "slim", "--no-steps", code=0)
    whole = holdfast.json("report", "home")
    assert whole["cost"] == 236
    for clean in (False, True):
        if clean:
            assert holdfast.json("clean", "slim", "--steps")["steps"] == 0
        slim = holdfast.json("report", "slim")
        for name in ("tasks", "coverage", "usage", "cost"):
            assert slim[name] == whole[name]
    assert formats_of(tmp_path / "slim") == {FORMAT}
    # The final conversations of the finished, and all steps of trials of which only the steps say what they took.
    kept = ["fr-1", "reuses", "reuses", "copied", "begun", "begun"]
    assert [record["trial"] for record in holdfast.records("slim", "step")] == kept
    rows = {name: holdfast.json("show", name)["trials"] for name in ("home", "slim")}
    assert [(row["trial"], row["cost"]) for row in rows["slim"]] == [
        (row["trial"], row["cost"]) for row in rows["home"]
    ]


def test_a_run_of_format_1_in_a_store_is_forked(holdfast, stored):
    """By its URL, into a directory."""
    finished = holdfast.json("status", stored.url)["finished"]
    told = holdfast.json("fork", stored.url, "--run-dir", "forked", code=0)
    assert told["taken"] == finished
    holdfast("resume", "forked", code=0)
    assert holdfast.json("status", "forked")["state"] == "complete"
