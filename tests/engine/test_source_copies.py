"""Copies of code are unpacked below a directory of their own, whatever a record says, and are found by their names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.digests import content_digest
from holdfast.engine.planning.source_copies import unpack_copy
from holdfast.errors import RunDamaged, StorageFailure
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import Input
from holdfast.tasks.source.unpacked_copies import new_directory, original_path, remember_original


def with_copies(root, copies):
    """A run's layout and its record of inputs, with these copies of the task `t`."""
    layout = Layout(root)
    layout.inputs.mkdir(parents=True)
    inputs = {}
    for name, text in copies.items():
        digest = content_digest(text.encode())
        (layout.inputs / digest).write_text(text)
        inputs[f"sources/t/{name}"] = Input(digest=digest, size=len(text), source=name)
    return layout, inputs


@pytest.mark.parametrize("name", ["/{}", "//{}", "///{}", "../x.py", "a/../../x.py", "", ".", "a\0.py"])
def test_a_copy_is_never_written_outside(tmp_path, name):
    """A name that leads elsewhere is refused, and nothing is written at all."""
    outside = tmp_path / "outside" / "x.py"
    outside.parent.mkdir()
    given = name.format(str(outside).lstrip("/"))
    layout, inputs = with_copies(tmp_path / "r", {"my.py": f"# {name!r}", given: "print('hostile')"})
    with pytest.raises(RunDamaged, match="none of its code is loaded"):
        unpack_copy(layout, inputs, "t", "my.py")
    assert list(outside.parent.iterdir()) == []


def test_copies_that_cannot_be_beside_each_other_are_an_error(tmp_path):
    """A file and a directory of one name give a sentence."""
    layout, inputs = with_copies(tmp_path, {"a": "1", "a/my.py": "2"})
    with pytest.raises(StorageFailure, match="cannot be unpacked"):
        unpack_copy(layout, inputs, "t", "my.py")


def test_a_name_is_not_a_pattern(tmp_path):
    """A file that has moved is found by its name, also where that has brackets, and no other is."""
    layout, inputs = with_copies(tmp_path, {"code/a[1].py": "ONE = 1\n", "code/a1.py": "OTHER = 1\n"})
    found = unpack_copy(layout, inputs, "t", "moved/a[1].py")
    assert found is not None and found.read_text() == "ONE = 1\n"


def test_a_copy_stands_for_its_original():
    """Neighbours of a copy stand for the neighbours of the file that was copied; other files for themselves."""
    root = new_directory()
    remember_original(root / "code" / "my.py", Path("/evals/code/my.py"))
    assert original_path(root / "code" / "my.py") == Path("/evals/code/my.py")
    assert original_path(root / "code" / "deep" / "other.py") == Path("/evals/code/deep/other.py")
    assert original_path(root / "beside.py") == Path("/evals/beside.py")
    assert original_path(Path("/evals/my.py")) == Path("/evals/my.py")


def test_copies_are_deleted_when_the_process_is_ended_at_once(tmp_path):
    """An end without Python's own clean-up leaves no directory behind."""
    code = (
        "from holdfast.cli.session.process_exit import exit_now\n"
        "from holdfast.tasks.source.unpacked_copies import new_directory\n"
        "(new_directory() / 'my.py').write_text('')\n"
        "exit_now(7)\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert ended.returncode == 7
    assert list(tmp_path.iterdir()) == []
