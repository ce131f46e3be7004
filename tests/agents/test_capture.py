"""What is taken from a workspace is its bytes, all of them, or says what is missing."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from agents.agent_evals import git, make_repository, make_template
from holdfast.digests import file_digest
from holdfast.errors import ConfigurationError
from holdfast.tasks.workspaces import capture
from holdfast.tasks.workspaces.checkout import TemplateFile, check_out
from holdfast.tasks.workspaces.tree_state import read_tree
from holdfast.tasks.workspaces.trial_directory import TrialDirectory
from holdfast.tasks.workspaces.workspace_template import WorkspaceTemplate, pack_template


def prepared(run, template):
    """A workspace of the template, ready for an agent."""
    (run / "inputs").mkdir(parents=True)
    packed = run / "inputs" / "packed"
    with packed.open("wb") as stream:
        pack_template(template, stream)
    file = TemplateFile(run, file_digest(packed))
    packed.rename(run / "inputs" / file.digest)
    directory = TrialDirectory(run, "trial")
    directory.make()
    check_out(file, directory)
    capture.write_base(directory)
    return directory, file


@pytest.fixture
def workspace(tmp_path):
    return prepared(tmp_path / "project" / "run", WorkspaceTemplate(path=str(make_template(tmp_path))))


def test_neither_attributes_nor_a_repository_around_the_run_have_an_effect(tmp_path, workspace):
    """A filter of the project that the run is in is not executed for an agent's files."""
    directory, file = workspace
    project, marker = tmp_path / "project", tmp_path / "executed"
    git(project, "init", "-q")
    git(project, "config", "filter.own.clean", f"touch {marker}; cat")
    git(project, "config", "core.autocrlf", "true")
    (directory.workspace / ".gitattributes").write_text("* filter=own text eol=crlf -diff\n")
    (directory.workspace / "main.py").write_bytes(b"print('two')\r\n")

    found = capture.capture_workspace(directory, file, [], 100_000)

    assert not marker.exists()
    assert b"\n+print('two')\r\n" in found.patch
    assert (found.patch_cut, found.patch_error) == (False, "")


def test_a_directory_in_a_repository_is_no_repository(tmp_path):
    below = make_repository(tmp_path) / "docs"

    with pytest.raises(ConfigurationError, match="is not a git repository"):
        prepared(tmp_path / "run", WorkspaceTemplate(repo=str(below)))


def test_a_comparison_that_dies_is_said(workspace, monkeypatch):
    directory, file = workspace
    (directory.workspace / "main.py").write_text("other\n")
    monkeypatch.setattr(capture, "_DIFF", ("diff", "--no-index", "--unknown-option"))

    found = capture.capture_workspace(directory, file, [], 100_000)

    assert found.patch_cut
    assert "exit code 129" in capture.capture_value(found)["patch_error"]


def test_a_comparison_has_a_time_limit(workspace, monkeypatch):
    directory, file = workspace
    (directory.workspace / "main.py").write_text("other\n")
    monkeypatch.setattr(capture, "git_command", lambda *_: ["sleep", "300"])
    monkeypatch.setattr(capture, "_empty_repository", lambda place: place)
    monkeypatch.setattr(capture, "_DIFF_SECONDS", 0.1)

    found = capture.capture_workspace(directory, file, [], 100_000)

    assert found.patch_cut
    assert "signal 9" in found.patch_error


def test_many_directories_need_few_descriptors(tmp_path):
    for number in range(300):
        (tmp_path / "tree" / f"d{number}" / "e").mkdir(parents=True)
        (tmp_path / "tree" / f"d{number}" / "e" / "f").touch()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (max(int(path.name) for path in Path("/proc/self/fd").iterdir()) + 20, hard)
    )
    try:
        found = read_tree(tmp_path / "tree")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (len(found.entries), found.left_out) == (300, 0)


def test_too_few_descriptors_are_an_error_and_not_an_empty_tree(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").touch()
    refuse(monkeypatch, {b"file"}, OSError(errno.EMFILE, "Too many open files"))

    with pytest.raises(OSError, match="Too many open files"):
        read_tree(tmp_path)


def refuse(monkeypatch, names, error):
    """From now on, files of these names cannot be opened."""
    real = os.open

    def refusing(path, flags, *args, **options):
        if path in names:
            raise error
        return real(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", refusing)


def test_what_cannot_be_opened_is_counted_and_has_no_digest(tmp_path, monkeypatch):
    for name in ("shut", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    (tmp_path / "secret").write_text("text")
    refuse(monkeypatch, {b"shut", b"secret"}, PermissionError(errno.EACCES, "Permission denied"))
    found = read_tree(tmp_path)

    assert sorted(found.entries) == [b"open/file", b"secret"]
    assert (found.entries[b"secret"].digest, found.left_out) == ("", 1)
