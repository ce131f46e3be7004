"""Resume 45 for agents: a disk that is full, or fails, is the machine's fault and never the task's."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from agents.agent_evals import agent_eval, make_repository, make_template
from holdfast.errors import StorageFailure
from holdfast.tasks.workspaces import storage_errors as storage_module
from holdfast.tasks.workspaces.git_command import GitFailed, run_git
from holdfast.tasks.workspaces.storage_errors import check_disk, storage_errors

SIZE = 6 << 20


@pytest.fixture
def small_disk(tmp_path):
    """A filesystem of a few megabytes, in memory."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a filesystem may not be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


FILL = """
def fill(left):
    free = os.statvfs('.').f_bavail * os.statvfs('.').f_frsize
    with open({ballast!r}, 'wb') as file:
        file.write(bytes(max(free - left, 0)))
"""
CASES = {
    "setup": ("", {"setup": "[ -e {room} ] || head -c 20000000 /dev/zero > ballast"}),
    "capture": ("Path('new').write_text('x' * 900_000); print('done'); fill(400_000)", {}),
    "check": ("print('done'); fill(300_000)", {"checks": ["head -c 2000000 /dev/zero > out && rm out"]}),
    "output": ("fill(0); print('done' * 100_000)", {}),
    "agent": ("fill(0); Path('new').write_text('x' * 100_000); print('done')", {}),
}


@pytest.mark.parametrize(("case", "kind"), [*((case, "path") for case in CASES), ("capture", "repo")])
def test_resume_45_a_full_disk_under_a_workspace_fails_no_trial(holdfast, tmp_path, small_disk, case, kind):
    """The session stops with exit code 5; with room again, the trial is finished, and nothing was scored wrongly."""
    (make_repository if kind == "repo" else make_template)(tmp_path)
    script, workspace = CASES[case]
    ballast, log = small_disk / "ballast", tmp_path / "log"
    first = FILL.format(ballast=str(ballast)) + f"open({str(log)!r}, 'a').write('x')\n"
    script = f"if Path({str(tmp_path / 'room')!r}).exists():\n    print('done'); sys.exit()\n" + script
    if case == "setup":
        workspace = {"setup": workspace["setup"].format(room=tmp_path / "room")}
    eval_ = agent_eval(
        tmp_path, first + script, workspace={kind: "template", **workspace}, scorers=["includes"], max_retries=0
    )
    told = holdfast("run", eval_, "--run-dir", small_disk / "r", code=5)
    assert "No space left on device" in told.err and "Traceback" not in told.err
    (tmp_path / "room").touch()
    ballast.unlink(missing_ok=True)
    status = holdfast.json("status", small_disk / "r")
    assert (status["failed"], status["finished"]) == (0, 0), status
    holdfast("resume", small_disk / "r", code=0)
    (row,) = holdfast.json("show", small_disk / "r", code=0)["trials"]
    assert (row["state"], row["scores"]["includes"]) == ("valid", 1)
    if case in {"capture", "check"}:
        # Its work was finished and on disk: nothing of it is paid for again.
        assert log.read_text() == "x"


@pytest.mark.parametrize("code", ["ENOSPC", "EDQUOT", "EROFS", "EIO"])
def test_errors_of_the_machine_are_storage_failures(tmp_path, code):
    """And those of files are not."""
    with pytest.raises(StorageFailure, match=os.strerror(getattr(errno, code))), storage_errors(tmp_path):
        raise OSError(getattr(errno, code), "any")
    with pytest.raises(PermissionError), storage_errors(tmp_path):
        raise PermissionError(errno.EACCES, "any")


def test_a_git_that_fails_for_want_of_room_is_a_storage_failure(tmp_path, monkeypatch):
    """By what it says, or because nothing else can be written there either."""
    with pytest.raises(GitFailed):
        run_git(["no-such-command"], cwd=tmp_path)
    with pytest.raises(StorageFailure, match="Disk quota exceeded"):
        check_disk(tmp_path, "fatal: could not write: Disk quota exceeded")

    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "full", str(self))

    monkeypatch.setattr(storage_module.Path, "write_bytes", full)
    with pytest.raises(StorageFailure, match="No space left"):
        run_git(["no-such-command"], cwd=tmp_path)
