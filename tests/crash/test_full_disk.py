"""A disk that is really full: the session ends with exit code 5, and goes on when there is room again."""

from __future__ import annotations

import os
import subprocess

import pytest
from programs import check_finished, check_kept, work

SIZE = 512 << 10


@pytest.fixture
def small_disk(tmp_path):
    """A filesystem of half a megabyte, in memory."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"a filesystem may not be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("left", [0, 4 << 10, 40 << 10, 120 << 10, 200 << 10])
def test_resume_45_a_full_disk_stops_the_session_and_space_lets_it_go_on(small_disk, left):
    """However much room there was, what was acknowledged is intact, and the run is finished once there is more."""
    filler = small_disk / "filler"
    filler.write_bytes(os.urandom(SIZE - left))
    root = small_disk / "run"
    told = work(root, "--bulk", "30000")
    print(left, told)
    assert told.code == 5, told.errors
    assert "No space left" in told.errors
    check_kept(root, told)
    still = work(root, "--bulk", "30000")
    assert still.code == 5, still.errors
    filler.unlink()
    again = work(root, "--bulk", "30000")
    assert again.code == 0, again.errors
    for one in (told, still, again):
        check_kept(root, one)
    check_finished(root)
