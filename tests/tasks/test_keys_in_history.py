"""The search for keys in the history of a repository leaves nothing running, ends, and is done once."""

from __future__ import annotations

import subprocess

import pytest

from agents.agent_evals import git, make_repository
from holdfast.errors import ConfigurationError
from holdfast.storage.operating_system import child_processes
from holdfast.tasks.workspaces import keys_in_history
from holdfast.tasks.workspaces.git_command import GitFailed
from holdfast.tasks.workspaces.keys_in_history import refuse_keys_in_history

KEY = "a-long-value-of-a-key-4711"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", KEY)
    place = make_repository(tmp_path)
    # More than the pipes hold: git is still printing when the key is found.
    for number in range(3):
        (place / f"large-{number}").write_text(f"{number}\n" * (2 << 20))
    git(place, "add", "-A")
    git(place, "commit", "-qm", "large")
    return place


def commit_of(repository):
    return git(repository, "rev-parse", "HEAD")


def test_after_a_find_no_process_is_left(repository):
    """Also while the error, and with it the frames that it came through, is still at hand."""
    (repository / "A").write_text(KEY)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "key")
    before = child_processes()
    with pytest.raises(ConfigurationError, match="SOME_API_KEY") as found:
        refuse_keys_in_history(repository, commit_of(repository), "repo-found")
    assert child_processes() <= before
    assert found.value


def test_the_last_line_of_git_is_in_the_error(repository):
    """An exit code alone says nothing."""
    with pytest.raises(GitFailed, match=r"bad object|not a valid object|bad revision"):
        refuse_keys_in_history(repository, "0" * 40, "repo-failing")


def test_git_that_takes_too_long_is_ended(repository, monkeypatch):
    monkeypatch.setattr(keys_in_history, "GIT_SECONDS", 0.05)
    monkeypatch.setattr(keys_in_history, "git_command", lambda *_: ["sleep", "600"])
    before = child_processes()
    with pytest.raises(GitFailed, match=r"within 0\.05 seconds"):
        refuse_keys_in_history(repository, commit_of(repository), "repo-slow")
    assert child_processes() <= before


def test_what_was_searched_is_not_searched_again_unless_a_key_is_new(repository, monkeypatch):
    """A forecast and the run that follows look once."""
    commit, started = commit_of(repository), []
    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **more: started.append(given) or real(*given, **more))
    refuse_keys_in_history(repository, commit, "repo-once")
    refuse_keys_in_history(repository, commit, "repo-once")
    assert len(started) == 2
    monkeypatch.setenv("OTHER_API_KEY", "another-long-value-0815")
    refuse_keys_in_history(repository, commit, "repo-once")
    assert len(started) == 4
