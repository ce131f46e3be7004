"""Faults of the kernel's own calls: what was acknowledged is intact, the exit code tells, and a resume goes on."""

from __future__ import annotations

import shutil
import signal
import subprocess

import pytest
from programs import KEYS, Told, check_finished, check_kept, work

STORAGE_FAILURE = 5
SEGMENT = "journal/000002-0000-00000{}.open.jsonl.zst"
LAST_SEGMENT = "journal/000003-0000-000002.open.jsonl.zst"
"""Of the session that ends in an orderly way, the one that its end stands in."""


@pytest.fixture(scope="module", autouse=True)
def strace():
    """strace, where it is there and may trace."""
    program = shutil.which("strace")
    if program is None:
        pytest.skip("strace is not installed")
    probe = [program, "-f", "-qq", "-o", "/dev/null", "-e", "inject=getppid:error=EIO", "true"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"strace may not trace here: {done.stderr.strip()}")
    return program


def work_with(strace, root, fault, *paths) -> Told:
    """The workload with one fault, restricted to calls on the given paths in the run, if any."""
    call = fault.split(":")[0]
    restricted = [word for path in paths for word in ("-P", str((root / path).resolve()))]
    options = ["-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={fault}", *restricted]
    told = work(root, before=[strace, *options])
    print(fault, told)
    return told


@pytest.fixture(scope="module")
def killed_run(tmp_path_factory):
    """A run whose first session was killed half-way: the next is the second, and its segments have known names."""
    root = tmp_path_factory.mktemp("killed") / "run"
    told = work(root, crash="frame.acknowledged:5")
    assert told.code == -signal.SIGKILL
    return root, told


@pytest.fixture
def interrupted(tmp_path, killed_run):
    """A copy of that run, and what its first session told."""
    root, told = killed_run
    return shutil.copytree(root, tmp_path / "run"), told


def go_on(root, *told):
    """What was told is there; a workload without faults finishes the run, and it is there still."""
    for one in told:
        check_kept(root, one)
    again = work(root)
    assert again.code == 0, again.errors
    for one in (*told, again):
        check_kept(root, one)
    check_finished(root)


FAULTS = [
    ("fdatasync:error=EIO:when=1", [SEGMENT.format(1)]),
    ("fdatasync:error=EIO:when=5", [SEGMENT.format(1), SEGMENT.format(2)]),
    ("write:error=ENOSPC:when=3", [SEGMENT.format(1)]),
    ("openat:error=ENOSPC:when=1", [SEGMENT.format(2)]),
    ("rename:error=EIO:when=1", [SEGMENT.format(1)]),
    ("fsync:error=EIO:when=1", ["journal"]),
    ("fsync:error=EIO:when=1", ["blobs"]),
    ("rename:error=EIO:when=1", [LAST_SEGMENT]),
]
MORE_FAULTS = [
    ("fdatasync:error=EIO:when=2", [SEGMENT.format(1)]),
    ("fdatasync:error=ENOSPC:when=3", [SEGMENT.format(1)]),
    ("fdatasync:error=EIO:when=1", [LAST_SEGMENT]),
    ("write:error=ENOSPC:when=1", [SEGMENT.format(1)]),
    ("write:error=EDQUOT:when=1", [SEGMENT.format(2)]),
    ("write:error=EIO:when=1", [LAST_SEGMENT]),
    ("openat:error=EMFILE:when=1", [SEGMENT.format(1)]),
    ("openat:error=EROFS:when=1", [LAST_SEGMENT]),
    ("fsync:error=EIO:when=2", ["journal"]),
    ("fsync:error=EIO:when=3", ["journal"]),
]


def fail(strace, interrupted, fault, paths):
    """A call fails in a resumed session: it says so, and the next goes on."""
    root, before = interrupted
    told = work_with(strace, root, fault, *paths)
    assert told.code == STORAGE_FAILURE, told.errors
    assert not told.of("end")
    go_on(root, before, told)


@pytest.mark.parametrize(("fault", "paths"), FAULTS)
def test_resume_45_a_call_that_fails_ends_the_session_with_exit_code_5(interrupted, strace, fault, paths):
    """A failed write, sync, rename or creation is never passed over; what was acknowledged before it is intact."""
    fail(strace, interrupted, fault, paths)


@pytest.mark.soak
@pytest.mark.parametrize(("fault", "paths"), MORE_FAULTS)
def test_soak_more_calls_that_fail(interrupted, strace, fault, paths):
    """As above, elsewhere."""
    fail(strace, interrupted, fault, paths)


def kill(strace, interrupted, call, when):
    root, before = interrupted
    told = work_with(strace, root, f"{call}:signal=KILL:when={when}", *(SEGMENT.format(place) for place in range(1, 9)))
    assert told.code == -signal.SIGKILL
    go_on(root, before, told)


@pytest.mark.parametrize(("call", "when"), [("fdatasync", 1), ("fdatasync", 4), ("write", 2)])
def test_resume_41_a_process_killed_inside_a_call_has_lost_nothing_it_was_told(interrupted, strace, call, when):
    """Killed in the n-th sync or write of its session's segments."""
    kill(strace, interrupted, call, when)


@pytest.mark.soak
@pytest.mark.parametrize("when", range(1, 8))
@pytest.mark.parametrize("call", ["fdatasync", "write"])
def test_soak_a_process_killed_inside_any_call_has_lost_nothing_it_was_told(interrupted, strace, call, when):
    """As above, at every sync and write."""
    kill(strace, interrupted, call, when)


@pytest.mark.parametrize(
    "fault",
    [
        "mkdir:error=ENOSPC:when=4",
        "fdatasync:error=EIO:when=1",
        "fsync:error=EIO:when=1",
        "rename:error=EIO:when=2",
        "rename:signal=KILL:when=2",
    ],
)
def test_a_run_that_could_not_be_created_leaves_no_run_and_can_be_created_again(tmp_path, strace, fault):
    """Whatever fails before the run has its name, nothing stands under that name."""
    root = tmp_path / "run"
    told = work_with(strace, root, fault)
    assert told.code == (-signal.SIGKILL if "KILL" in fault else STORAGE_FAILURE), told.errors
    assert told.lines == []
    assert not root.exists()
    go_on(root, told)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_run_whose_name_could_not_be_synced_is_resumed(tmp_path, strace):
    """The sync of the parent directory fails when the run already has its name: said so, and it goes on."""
    root = tmp_path / "run"
    told = work_with(strace, root, "fsync:error=EIO:when=1", "..")
    assert told.code == STORAGE_FAILURE
    assert root.exists()
    assert f"resume {root}" in told.errors
    go_on(root, told)


@pytest.mark.parametrize("fault", ["pwrite64:error=ENOSPC", "pwrite64:error=EIO:when=3+", "fdatasync:error=EIO"])
def test_recovery_22_an_index_that_cannot_be_written_does_not_stop_the_run(interrupted, strace, fault):
    """The index is a cache: the session does without it."""
    root, before = interrupted
    told = work_with(strace, root, fault, "index.sqlite", "index.sqlite-journal")
    assert told.code == 0, told.errors
    go_on(root, before, told)


def test_the_workload_finishes_when_nothing_fails(tmp_path, strace):
    """The faults above are what stops it, not the tracing."""
    told = work_with(strace, tmp_path / "run", "fdatasync:error=EIO:when=9999")
    assert told.code == 0
    assert told.of("trial") == set(KEYS)
    check_finished(tmp_path / "run")
