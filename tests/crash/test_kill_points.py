"""SIGKILL at every named point loses nothing that was acknowledged, and the run goes on."""

from __future__ import annotations

import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mutants
import pytest
from account import Broken
from programs import KEYS, check_finished, check_kept, work

import holdfast
import workload
from holdfast.run.core import codec
from holdfast.storage import crashpoints

ARRIVALS = (1, 2, 5)
POINTS = [point for point in crashpoints.POINTS if not point.startswith("repair.")]
"""Those of creating, executing and resuming a run; a repair is no session."""


@pytest.fixture(scope="module")
def arrivals(tmp_path_factory):
    """How often the workload arrives at each point, when nothing happens to it."""
    count: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crashpoints, "reach", lambda name: count.update([name]))
        patch.setattr(crashpoints, "is_armed", lambda name: name == "frame.half-written")
        patch.setattr(codec, "BLOB_BYTES", codec.BLOB_BYTES)
        patch.setattr(workload, "tell", lambda *_: None)
        assert workload.main([str(tmp_path_factory.mktemp("points") / "undisturbed"), *KEYS]) == 0
    return count


def test_the_workload_arrives_at_every_point_of_a_session(arrivals):
    """No name is dead: the workload that is killed there gets there, and every name stands somewhere in the code."""
    print(arrivals)
    assert set(arrivals) == set(POINTS)
    source = "".join(path.read_text() for path in Path(holdfast.__file__).parent.rglob("*.py"))
    assert [point for point in crashpoints.POINTS if f'reach("{point}")' not in source] == []


def kill_and_resume(root, crash, *options):
    """A workload dies at a point; what it told is there, before and after another has finished the run."""
    told = work(root, *options, crash=crash)
    print(crash, told)
    # How many records share a frame is a matter of time, so a later arrival may not come about.
    assert told.code == -signal.SIGKILL or (told.code == 0 and not crash.endswith(":1"))
    check_kept(root, told)
    again = work(root)
    assert again.code == 0, again.errors
    check_kept(root, told)
    check_kept(root, again)
    check_finished(root)


def kill_at(directory, point, arrivals):
    """One run for each arrival, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        killed = [pool.submit(kill_and_resume, directory / f"{each}", f"{point}:{each}") for each in arrivals]
    for each in killed:
        each.result()


@pytest.mark.parametrize("point", POINTS)
def test_resume_41_a_process_killed_at_any_point_has_lost_nothing_it_was_told(tmp_path, arrivals, point):
    """Killed at its first, second and fifth arrival; each time the next session finishes the trials, each once."""
    kill_at(tmp_path, point, [arrival for arrival in ARRIVALS if arrival <= arrivals[point]])


@pytest.mark.soak
@pytest.mark.parametrize("point", POINTS)
def test_soak_a_process_killed_at_any_point_at_any_arrival_has_lost_nothing(tmp_path, arrivals, point):
    """As above, at every arrival that the workload has."""
    kill_at(tmp_path, point, range(1, arrivals[point] + 1))


def test_a_kill_betrays_a_writer_that_buffers(tmp_path):
    """Frames that were acknowledged from a buffer of the process are lost with it."""
    with pytest.raises(Broken, match="lost"):
        kill_and_resume(tmp_path / "run", "segment.successor-created:1", "--mutant", mutants.buffered.__name__)
