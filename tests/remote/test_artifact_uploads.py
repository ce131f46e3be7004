"""Artifacts in a store: each is uploaded once, and again if a later attempt has replaced it."""

import os
from pathlib import Path

import pytest

from holdfast.errors import StorageFailure
from holdfast.run.core.layout import Layout
from holdfast.run.remote.artifact_files import ArtifactFiles

LONG_AGO = 1_000_000_000


class Store:
    """Takes files, and remembers what it was given."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.puts: list[str] = []
        self.refused = ""

    def put_file(self, key: str, path: Path) -> None:
        if key == self.refused:
            raise StorageFailure("The store does not answer.")
        self.puts.append(key)
        self.objects[key] = path.read_bytes()


@pytest.fixture
def layout(tmp_path):
    for trial in ("a", "b"):
        write(tmp_path, trial, "result.json", b"first")
    return Layout(tmp_path)


def write(root, trial, name, data):
    """As an atomic write does: another file takes the place of the old one; the directory changed long ago."""
    directory = root / "artifacts" / trial
    directory.mkdir(parents=True, exist_ok=True)
    (directory / ".new").write_bytes(data)
    (directory / ".new").rename(directory / name)


def settle(root):
    for place in [root / "artifacts", *(root / "artifacts").rglob("*")]:
        if place.is_dir():
            os.utime(place, ns=(LONG_AGO, LONG_AGO))


def test_a_file_that_was_replaced_is_uploaded_again(layout):
    """Also of a directory that was looked at before; others are not uploaded twice."""
    store, files = Store(), ArtifactFiles(layout)
    settle(layout.root)
    files.upload_changed(store)
    write(layout.root, "a", "result.json", b"second")
    files.upload_changed(store)
    assert store.objects["artifacts/a/result.json"] == b"second"
    assert sorted(store.puts) == ["artifacts/a/result.json"] * 2 + ["artifacts/b/result.json"]


def test_files_of_an_inner_directory_are_found_after_their_trial_was_uploaded(layout):
    store, files = Store(), ArtifactFiles(layout)
    write(layout.root, "a/attempt-2", "diff.patch", b"one")
    settle(layout.root)
    files.upload_changed(store)
    write(layout.root, "a/attempt-2", "diff.patch", b"two")
    files.upload_changed(store)
    assert store.objects["artifacts/a/attempt-2/diff.patch"] == b"two"


def test_a_file_that_the_store_did_not_take_is_uploaded_the_next_time(layout):
    store, files = Store(), ArtifactFiles(layout)
    settle(layout.root)
    store.refused = "artifacts/b/result.json"
    with pytest.raises(StorageFailure):
        files.upload_changed(store)
    store.refused = ""
    files.upload_changed(store)
    assert sorted(store.puts) == ["artifacts/a/result.json", "artifacts/b/result.json"]


def test_what_is_in_the_store_already_is_not_uploaded(layout):
    """By name, when a session begins: whoever opens the run compares the content."""
    store, files = Store(), ArtifactFiles(layout)
    files.take_as_uploaded({"artifacts/a/result.json"})
    files.upload_changed(store)
    assert store.puts == ["artifacts/b/result.json"]


def test_a_directory_that_has_not_changed_is_not_read_again(layout, monkeypatch):
    store, files = Store(), ArtifactFiles(layout)
    settle(layout.root)
    files.upload_changed(store)
    read = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: read.append(str(path)) or scan(path))
    files.upload_changed(store)
    assert read == []


def test_links_and_unfinished_files_are_not_uploaded(layout):
    store, files = Store(), ArtifactFiles(layout)
    (layout.root / "artifacts" / "a" / "link").symlink_to("/etc/hostname")
    (layout.root / "artifacts" / "linked").symlink_to("/etc")
    (layout.root / "artifacts" / "b" / ".half").write_bytes(b"half")
    files.upload_changed(store)
    assert sorted(store.objects) == ["artifacts/a/result.json", "artifacts/b/result.json"]
