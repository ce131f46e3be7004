"""macOS, simulated: no `fdatasync`, no `/proc`, no process descriptors; and what it has in their place is used."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from evals import http_eval
from holdfast.storage import RealFileSystem, operating_system, take_lease
from holdfast.storage.filesystem import write_atomically
from holdfast.storage.leases import holder
from holdfast.storage.leases.holder import is_alive, this_process
from holdfast.storage.leases.local import find_holder
from program import until

SHIM = Path(__file__).with_name("other_system")
FULL_SYNC = 51


@pytest.fixture
def without_proc(monkeypatch):
    """A system that has no /proc, and names its boot in another way."""
    monkeypatch.setattr(operating_system, "_PROC", "/nonexistent")
    monkeypatch.setattr(operating_system, "_sysctl", lambda name: f"boot by {name}")
    holder._own_start.cache_clear()
    yield
    holder._own_start.cache_clear()


@pytest.fixture
def full_syncs(monkeypatch):
    """The descriptors that were synced to the disk itself; any weaker sync is an error."""
    synced, real = [], os.fsync

    def control(fd, command, *_):
        assert command == FULL_SYNC
        synced.append(fd)
        real(fd)

    def refuse(fd):
        raise AssertionError(f"a weak sync of {fd}")

    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(os, "fsync", refuse)
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", FULL_SYNC, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    return synced


def test_a_file_and_its_name_are_synced_to_the_disk_itself(full_syncs, tmp_path):
    """Where F_FULLFSYNC exists, it is what a sync is: of the file, then of its directory."""
    write_atomically(RealFileSystem(), tmp_path / "file", b"bytes")
    assert (tmp_path / "file").read_bytes() == b"bytes"
    assert len(full_syncs) == 2


def test_a_filesystem_without_full_syncs_gets_what_it_has(monkeypatch, tmp_path):
    """A network share refuses F_FULLFSYNC: then fsync serves; any other failure is one."""
    synced = []

    def refuse(code):
        def control(*_):
            raise OSError(code, os.strerror(code))

        return control

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", FULL_SYNC, raising=False)
    monkeypatch.setattr(os, "fsync", synced.append)
    with (tmp_path / "file").open("wb") as file:
        monkeypatch.setattr(fcntl, "fcntl", refuse(45 if sys.platform == "darwin" else 95))
        operating_system.sync_file(file.fileno())
        assert synced == [file.fileno()]
        monkeypatch.setattr(fcntl, "fcntl", refuse(5))
        with pytest.raises(OSError, match="Input/output"):
            operating_system.sync_file(file.fileno())
    assert len(synced) == 1


def test_without_both_a_plain_sync_serves(monkeypatch, tmp_path):
    """A system with neither fdatasync nor F_FULLFSYNC has fsync."""
    synced = []
    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(os, "fsync", synced.append)
    with (tmp_path / "file").open("wb") as file:
        operating_system.sync_file(file.fileno())
        operating_system.sync_directory(file.fileno())
        assert synced == [file.fileno()] * 2


@pytest.mark.usefixtures("without_proc")
def test_whether_a_holder_lives_is_known_without_proc():
    """`ps` says when a process was started: a live one is alive, a dead, reused or uncollected one is not."""
    child = subprocess.Popen(["sleep", "60"])
    try:
        here = this_process()
        facts = operating_system.process_facts(child.pid)
        assert facts.parent == os.getpid() and facts.started > 0 and child.pid in operating_system.child_processes()
        other = msgspec.structs.replace(here, pid=child.pid, started=facts.started)
        assert is_alive(here) is True and is_alive(other) is True
        assert is_alive(msgspec.structs.replace(other, started=facts.started - 60)) is False
        assert is_alive(msgspec.structs.replace(other, boot="another")) is None
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_alive(other) is False
        child.wait()
        assert is_alive(other) is False
    finally:
        child.kill()
        child.wait()


@pytest.mark.usefixtures("without_proc")
def test_a_lease_is_exclusive_without_proc(tmp_path):
    """The kernel's lock decides, and the holder is named."""
    lease = take_lease(RealFileSystem(), tmp_path)
    assert lease.root == tmp_path and lease.is_held()
    found = find_holder(RealFileSystem(), tmp_path)
    assert found is not None and found.pid == os.getpid()
    lease.release()
    assert find_holder(RealFileSystem(), tmp_path) is None


def test_a_process_that_ps_does_not_know_is_gone(monkeypatch):
    """Also where `ps` prints something else, or cannot be started."""
    monkeypatch.setattr(operating_system, "_PROC", "/nonexistent")
    for text in ("", "1 S", "1 S Tue Nov 99:99 2026", "x y z"):
        monkeypatch.setattr(operating_system, "_ps", lambda *_, text=text: text)
        assert operating_system.process_facts(1).started == 0


def simulated(tmp_path):
    return {"PYTHONPATH": os.pathsep.join((str(SHIM), *filter(None, [os.environ.get("PYTHONPATH")]))),
            "SYNC_LOG": str(tmp_path / "syncs")}  # fmt: skip


def test_the_program_runs_is_killed_resumes_and_cleans_there(holdfast, server, tmp_path):
    """A run is started, killed, resumed, verified and cleaned; every sync goes to the disk itself."""
    shim = simulated(tmp_path)
    server.behave(hold=True, **{"pass": 5})
    started = holdfast.start("run", http_eval(tmp_path, server.base_url, 8), "--run-dir", "r", **shim)
    until(lambda: holdfast.json("status", "r")["finished"] == 5 if (tmp_path / "r").exists() else False, "five")
    held = holdfast.start("resume", "r", **shim).wait()
    assert held.code == 4 and f"process {started.pid}" in held.err
    started.send(signal.SIGKILL)
    started.wait()
    server.behave()
    for command in (("resume", "r"), ("verify", "r", "--deep"), ("clean", "r", "--steps"), ("verify", "r")):
        ended = holdfast.start(*command, **shim).wait()
        assert ended.code == 0, (command, ended)
    assert holdfast.json("report", "r")["coverage"]["valid"] == 8
    syncs = Counter((tmp_path / "syncs").read_text().split())
    assert syncs["full"] > 20 and set(syncs) == {"full"}


def test_without_syncfs_every_file_and_directory_is_synced(tmp_path, monkeypatch):
    """`sync` only schedules on macOS: each file and each directory is synced by itself; a link leads nowhere else."""
    (tmp_path / "work" / "below").mkdir(parents=True)
    for name in ("a", "below/b"):
        (tmp_path / "work" / name).write_text(name)
    (tmp_path / "elsewhere").write_text("not of this place")
    (tmp_path / "work" / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "work" / "pipe")
    synced = []

    def note(fd):
        synced.append(os.fstat(fd).st_ino)

    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())
    monkeypatch.setattr(operating_system, "sync_file", note)
    monkeypatch.setattr(operating_system, "sync_directory", note)
    operating_system.sync_filesystem(tmp_path / "work")
    names = ("work", "work/a", "work/below", "work/below/b")
    assert sorted(synced) == sorted((tmp_path / name).stat().st_ino for name in names)
