"""Inputs pinned: every session records the packages that were installed and the commit that the eval was at."""

from __future__ import annotations

import shutil
import subprocess
from importlib import metadata

import pytest

from holdfast.run.core.provenance import environment

GIT = shutil.which("git")


def git(directory, *words):
    """What git prints; nobody's own settings count."""
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")
    command = [GIT, "-C", str(directory), *identity, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_every_session_records_the_versions_of_packages(world):
    """The first session and each later one, as the packages' own metadata have them."""
    world.run()
    world.task["epochs"] = 2
    world.resume(code=0)
    sessions = world.records("session")
    assert len(sessions) == 2
    for session in sessions:
        for name in ("msgspec", "zstandard", "click"):
            assert session["packages"][name] == metadata.version(name)
    assert world.json("verify", "r", code=0)["ok"]


def test_packages_and_commits_are_recorded_and_never_compared(world, monkeypatch, tmp_path):
    """A package that has come or gone is no reason to refuse, and leaves config.yaml as it is."""
    world.begin()
    (tmp_path / "more" / "invented-1.0.dist-info").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path / "more"))
    before = world.config
    world.resume(code=0)
    assert world.config == before and world.entries == []
    assert [session["packages"].get("invented") for session in world.records("session")] == [None, "1.0"]


@pytest.mark.skipif(GIT is None, reason="needs git")
def test_the_commit_of_the_eval_is_recorded(world, tmp_path):
    """The commit that is checked out where the eval lies, whatever branch, packed reference or worktree it is."""
    git(tmp_path, "init", "-q", "-b", "trunk")
    world.write()
    git(tmp_path, "add", "eval.yaml")
    git(tmp_path, "commit", "-q", "-m", "one")
    first = git(tmp_path, "rev-parse", "HEAD")
    world.begin()
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "two")
    git(tmp_path, "pack-refs", "--all")
    world.resume(code=0)
    second = git(tmp_path, "rev-parse", "HEAD")
    assert [session["environment"]["commit"] for session in world.records("session")] == [first, second]
    git(tmp_path, "worktree", "add", "-q", str(tmp_path / "beside"), first)
    assert environment(str(tmp_path / "beside"))["commit"] == first
    git(tmp_path, "checkout", "-q", "--detach", first)
    assert environment(str(tmp_path))["commit"] == first


@pytest.mark.parametrize("content", ["", "gitdir: /nowhere\n", "\x00\xff", None])
def test_a_repository_that_is_none_is_left_out(tmp_path, content):
    """Nothing about it can fail a session."""
    if content is None:
        (tmp_path / ".git").mkdir()
        (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/none\n")
    else:
        (tmp_path / ".git").write_text(content, encoding="latin-1")
    assert "commit" not in environment(str(tmp_path))
