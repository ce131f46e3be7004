"""Resume 78, at the start of a session: a run that takes the place of the one being opened is not written to.

The swap happens before every single operation on the disk in turn, from the moment the lease is held.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from durable import begin_run, begin_session, finish_trials, verified
from holdfast.errors import RunGone
from holdfast.storage import RealFileSystem


class SwappingDisk(RealFileSystem):
    """Once `begin` was called, puts another run in the place of one before the operation of a number."""

    def __init__(self, place: Path, other: Path, at: int) -> None:
        self._place, self._other, self._left = place, other, at
        self.is_counting = self.is_swapped = False

    def _count(self) -> None:
        if not self.is_counting or self.is_swapped:
            return
        if self._left == 0:
            self.is_swapped = True
            self._place.rename(self._place.with_name("away"))
            self._other.rename(self._place)
        self._left -= 1

    def lock(self, path, *, shared=False):
        found = super().lock(path, shared=shared)
        self.is_counting = self.is_counting or path == self._place / "lease"
        return found

    def rename(self, old, new):
        self._count()
        super().rename(old, new)
        self.is_counting = self.is_counting or new == self._place

    def create(self, path):
        self._count()
        return super().create(path)

    def open(self, path):
        self._count()
        return super().open(path)

    def list(self, path):
        self._count()
        return super().list(path)

    def sync_directory(self, path):
        self._count()
        super().sync_directory(path)


def content(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file()
    }


def killed_run(root: Path) -> None:
    session = begin_run(root, planned=4)
    finish_trials(session, "t1", "t2")
    session.abandon()


def other_run(root: Path, state: str) -> dict[str, tuple[bytes, int]]:
    session = begin_run(root, planned=2)
    finish_trials(session, "o1", "o2")
    session.close("completed") if state == "complete" else session.abandon()
    return content(root)


def use_session(place, disk, start):
    """What a session says that is started and records something: it notices a swap before it acknowledges that."""
    try:
        session = start(place, disk)
        with contextlib.closing(contextlib.ExitStack()) as undo:
            undo.callback(session.abandon)
            finish_trials(session, "t3")
    except RunGone as error:
        return str(error)
    return ""


def swap_at_every_operation(tmp_path, other, start):
    """Calls `start` until it does not come to the operation at which the runs would be swapped."""
    for at in range(1000):
        place = tmp_path / str(at) / "r"
        place.parent.mkdir()
        before = other_run(place.with_name("other"), other)
        disk = SwappingDisk(place, place.with_name("other"), at)
        found = use_session(place, disk, start)
        if disk.is_swapped:
            assert "was moved to" in found and f"Something else is at {place} now; nothing more is written" in found, at
        if not disk.is_swapped:
            return at
        assert content(place) == before, at
        with contextlib.suppress(FileNotFoundError):
            place.rename(place.with_name("replaced"))
        assert verified(place.with_name("away")).ok, at
    raise AssertionError("it never ended")


@pytest.mark.parametrize("other", ["complete", "killed"])
def test_resume_78_a_run_that_is_swapped_while_a_session_opens_is_not_written_to(tmp_path, other):
    """Neither a segment nor an index nor a time of the other changes, and the one that was held stays sound."""

    def resume(place, disk):
        killed_run(place)
        return begin_session(place, planned=4, fs=disk)

    assert swap_at_every_operation(tmp_path, other, resume) > 10


def test_resume_78_a_run_that_is_swapped_right_after_it_got_its_name_is_not_written_to(tmp_path):
    """The same where the run has just been made."""

    def create(place, disk):
        return begin_run(place, planned=4, fs=disk)

    assert swap_at_every_operation(tmp_path, "complete", create) > 2
