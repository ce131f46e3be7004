"""Resume 43 and 44: one session executes a run; who that is does not depend on a process id."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from holdfast.errors import RunHeld, StorageFailure
from holdfast.storage import RealFileSystem, take_lease
from holdfast.storage.leases.holder import LeaseHolder, decode_holder, is_alive, start_ticks, this_process
from holdfast.storage.leases.local import find_holder
from holdfast.testing import FaultyFileSystem, InjectedFault

PROGRAM = str(Path(__file__).with_name("holder_process.py"))
LONG = 1000.0
"""A lifetime that no test waits for: who takes over before it ended has asked the kernel."""


class Process:
    """A taker of leases in a process, and perhaps a process-id namespace, of its own."""

    def __init__(self, run, kind="locks", lifetime=LONG, what="take", *, contained=False):
        command = [sys.executable, PROGRAM, str(run), kind, str(lifetime), what]
        if contained:
            command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *command]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def said(self):
        return self.process.stdout.readline()

    def take(self):
        self.go()
        return self.said()

    def release(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def kill(self):
        self.process.kill()
        self.release()


@pytest.fixture
def start(tmp_path):
    """Starts takers; ends them with the test."""
    with contextlib.ExitStack() as started:

        def begin(*arguments, **options):
            process = Process(tmp_path, *arguments, **options)
            started.callback(end, process)
            return process

        def end(process):
            if process.process.poll() is None:
                process.process.kill()
            with contextlib.suppress(BrokenPipeError, ValueError):
                process.process.stdin.close()
            process.process.wait()
            process.process.stdout.close()

        yield begin


def without_locks():
    return FaultyFileSystem(RealFileSystem(), [InjectedFault("lock", 0, errno.ENOLCK)])


def take(kind, run, lifetime=LONG):
    """Takes a lease in this process, with the one warning that belongs to it."""
    if kind == "locks":
        return take_lease(RealFileSystem(), run, lifetime_seconds=lifetime)
    with pytest.warns(RuntimeWarning, match="filesystem without locks"):
        return take_lease(without_locks(), run, lifetime_seconds=lifetime)


def can_contain():
    done = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", "true"], check=False, capture_output=True, timeout=30
    )
    return done.returncode == 0


needs_containers = pytest.mark.skipif(
    shutil.which("unshare") is None or not can_contain(), reason="no process-id namespace can be made here"
)
both = pytest.mark.parametrize("kind", ["locks", "no-locks"])


@both
def test_resume_43_a_held_run_is_refused_and_its_holder_named(tmp_path, kind):
    """The second taker is told host, process and since when; exit code 4."""
    lease = take(kind, tmp_path)
    assert lease.is_held()
    with pytest.raises(RunHeld) as refused:
        take(kind, tmp_path)
    told = str(refused.value)
    assert f"process {os.getpid()} on {this_process().host}" in told
    assert re.search(r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", told)
    assert refused.value.exit_code == 4
    lease.release()
    lease.release()
    assert not lease.is_held()
    take(kind, tmp_path).release()


@both
def test_resume_44_a_killed_holder_is_succeeded_at_once(tmp_path, start, kind):
    """Nothing has to be cleaned up, or waited for, after SIGKILL."""
    first = start(kind)
    assert first.take() == "taken\n"
    first.kill()
    take(kind, tmp_path).release()


@both
def test_resume_44_a_dead_holder_whose_process_id_is_used_again_is_succeeded(tmp_path, start, kind):
    """The id now belongs to another program that is alive; that does not keep the run."""
    first = start(kind)
    assert first.take() == "taken\n"
    path = tmp_path / ("lease" if kind == "locks" else "lease-1")
    first.kill()
    other = subprocess.Popen(["sleep", "60"])
    try:
        text = path.read_bytes()
        dead = decode_holder(text)
        assert dead.pid != other.pid
        path.write_bytes(text.replace(b'"pid":%d' % dead.pid, b'"pid":%d' % other.pid))
        assert decode_holder(path.read_bytes()).pid == other.pid
        take(kind, tmp_path).release()
    finally:
        other.kill()
        other.wait()


@needs_containers
def test_resume_44_a_holder_alive_in_another_container_with_the_same_process_id_is_respected(start):
    """Two containers, in each of which the taker is process 1: the second is refused."""
    first, second = start(contained=True), start(contained=True)
    assert first.take() == "taken\n"
    told = second.take()
    assert told.startswith("held: ") and "process 1 on " in told
    first.release()
    third = start(contained=True)
    assert third.take() == "taken\n"


@needs_containers
def test_resume_44_without_locks_a_beating_holder_in_another_container_is_respected(start):
    """The same process id in two containers: the second sees the heartbeat and is refused."""
    first, second = start("no-locks", 6.0, contained=True), start("no-locks", 6.0, contained=True)
    assert first.take() == "taken\n"
    told = second.take()
    assert told.startswith("held: ") and "process 1 on " in told


@needs_containers
def test_resume_44_without_locks_a_silent_holder_of_another_container_is_succeeded_by_one(tmp_path, start):
    """Of several takers that watched a whole lifetime pass in silence, in real processes, exactly one takes over."""
    first = start("no-locks", 1.0, contained=True)
    assert first.take() == "taken\n"
    first.kill()
    takers = [start("no-locks", 1.0) for _ in range(5)]
    for taker in takers:
        taker.go()
    told = [taker.said() for taker in takers]
    assert sorted(text.split(":")[0].strip() for text in told) == ["held"] * 4 + ["taken"]
    assert [path.name for path in tmp_path.glob("lease-*")] == ["lease-2"]


@both
def test_of_many_takers_of_a_free_run_one_wins(start, kind):
    """Processes that arrive together: one has the run, the others are told who."""
    takers = [start(kind) for _ in range(5)]
    for taker in takers:
        taker.go()
    told = [taker.said() for taker in takers]
    assert sorted(text.split(":")[0].strip() for text in told) == ["held"] * 4 + ["taken"]


@pytest.mark.parametrize("leftover", ["nothing", "a dead holder's name"])
def test_a_reader_that_looks_who_holds_a_run_keeps_nobody_from_taking_it(tmp_path, start, leftover):
    """Two readers look without a pause while a session takes the run again and again."""
    if leftover != "nothing":
        dead = start()
        assert dead.take() == "taken\n"
        dead.kill()
        text = (tmp_path / "lease").read_bytes()
    probes = [start("locks", LONG, "probe") for _ in range(2)]
    for _ in range(25):
        lease = take_lease(RealFileSystem(), tmp_path)
        lease.release()
        if leftover != "nothing":
            (tmp_path / "lease").write_bytes(text)
    for process in probes:
        process.release()


@both
def test_a_reader_sees_who_holds_a_run(tmp_path, kind):
    """The holder is named while it holds, and nobody is before and after."""
    fs = RealFileSystem() if kind == "locks" else without_locks()
    assert find_holder(fs, tmp_path) is None
    lease = take(kind, tmp_path)
    holder = find_holder(fs, tmp_path)
    assert (holder.pid, holder.started) == (os.getpid(), start_ticks(os.getpid()))
    lease.release()
    assert find_holder(fs, tmp_path) is None


@both
def test_a_reader_sees_nobody_after_the_holder_was_killed(tmp_path, start, kind):
    """A name in a file holds nothing."""
    process = start(kind)
    assert process.take() == "taken\n"
    fs = RealFileSystem() if kind == "locks" else without_locks()
    assert find_holder(fs, tmp_path).pid == process.process.pid
    process.kill()
    assert find_holder(fs, tmp_path) is None


def test_an_illegible_lease_file_names_nobody_and_is_taken(tmp_path):
    """Garbage in the lease file is no holder."""
    (tmp_path / "lease").write_bytes(b"\xff\x00garbage")
    take("locks", tmp_path).release()
    assert decode_holder(b"") is None


def test_a_holder_that_could_not_write_its_name_is_still_respected(tmp_path, monkeypatch):
    """The lock is the authority; the message then names nobody."""
    monkeypatch.setattr("holdfast.storage.leases.local._ATTEMPTS", 2)
    lease = take("locks", tmp_path)
    (tmp_path / "lease").write_bytes(b"")
    with pytest.raises(RunHeld, match="by another process"):
        take("locks", tmp_path)
    lease.release()


def test_a_holder_that_cannot_be_seen_from_here_is_respected(tmp_path):
    """A holder on another machine keeps the run as long as it keeps the lock."""
    lease = take("locks", tmp_path)
    there = msgspec.structs.replace(this_process(), boot="another", host="elsewhere", pid=7)
    (tmp_path / "lease").write_bytes(msgspec.json.encode(there) + b"\n")
    with pytest.raises(RunHeld, match="process 7 on elsewhere"):
        take("locks", tmp_path)
    lease.release()


def test_a_lease_file_that_cannot_be_opened_is_a_storage_failure(tmp_path):
    """An error that does not mean "no locks here" is told as what it is."""
    with pytest.raises(StorageFailure, match="cannot be taken: Input/output error"):
        take_lease(FaultyFileSystem(RealFileSystem(), [InjectedFault("lock", 1, errno.EIO)]), tmp_path)


def test_a_replaced_holder_knows_it(tmp_path):
    """A holder whose file has a younger brother holds the run no more."""
    lease = take("no-locks", tmp_path)
    assert lease.is_held()
    (tmp_path / "lease-2").touch()
    lease._beat()
    assert not lease.is_held()
    lease.release()


def test_a_holder_that_could_not_beat_for_a_lifetime_holds_the_run_no_more(tmp_path, monkeypatch):
    """On its own clock, before anybody may have taken over; beating again does not bring the lease back."""
    clock = [1000.0]
    monkeypatch.setattr("holdfast.storage.leases.local.time.monotonic", lambda: clock[0])
    lease = take("no-locks", tmp_path, LONG)
    clock[0] += LONG - 1
    assert lease.is_held()
    lease._beat()
    clock[0] += LONG - 1
    assert lease.is_held()
    clock[0] += 2
    assert not lease.is_held()
    lease._beat()
    assert not lease.is_held()
    lease.release()


def test_a_failing_heartbeat_lets_the_lease_run_out(tmp_path, monkeypatch):
    """A disk that takes no heartbeat does not end the process, only its hold."""
    clock = [1000.0]
    monkeypatch.setattr("holdfast.storage.leases.local.time.monotonic", lambda: clock[0])
    lease = take("no-locks", tmp_path, LONG)

    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr("holdfast.storage.leases.local.os.pwrite", fail)
        clock[0] += LONG - 1
        lease._beat()
        clock[0] += 2
        assert not lease.is_held()
        lease.release()


def test_the_heart_beats_by_itself(tmp_path):
    """The file changes without anybody asking, well within a lifetime."""
    lease = take("no-locks", tmp_path, 0.3)
    before = (tmp_path / "lease-1").read_bytes()
    while (tmp_path / "lease-1").read_bytes() == before:
        pass
    lease.release()


def test_a_lease_goes_with_a_directory_that_is_renamed(tmp_path, monkeypatch):
    """A run is made under another name; its lease is held, and kept alive, under the new one."""
    clock = [1000.0]
    monkeypatch.setattr("holdfast.storage.leases.local.time.monotonic", lambda: clock[0])
    old, new = tmp_path / "old", tmp_path / "new"
    for kind in ("locks", "no-locks"):
        old.mkdir()
        lease = take(kind, old)
        old.rename(new)
        lease.moved_to(new)
        for _ in range(2 if kind == "no-locks" else 0):
            clock[0] += LONG - 1
            lease._beat()
        assert lease.is_held()
        with pytest.raises(RunHeld):
            take(kind, new)
        lease.release()
        shutil.rmtree(new)


def test_a_taker_that_comes_late_does_not_take_over_from_a_successor(tmp_path, monkeypatch):
    """A taker that judged an older generation finds a newer one, and withdraws its own."""
    (tmp_path / "lease-3").write_bytes(b"{}\n1 \n")
    monkeypatch.setattr("holdfast.storage.leases.local._newest_generation", sequence(1, 3, 3))
    monkeypatch.setattr("holdfast.storage.leases.local._is_released", lambda *_: True)
    with pytest.warns(RuntimeWarning), pytest.raises(RunHeld):
        take_lease(without_locks(), tmp_path)
    assert [path.name for path in tmp_path.glob("lease-*")] == ["lease-3"]


def test_a_taker_that_loses_the_race_names_the_winner(tmp_path, monkeypatch):
    """The file of the next generation is there already."""
    (tmp_path / "lease-2").write_bytes(msgspec.json.encode(this_process()) + b"\n1 \n")
    monkeypatch.setattr("holdfast.storage.leases.local._newest_generation", sequence(1, 2))
    monkeypatch.setattr("holdfast.storage.leases.local._is_released", lambda *_: True)
    with pytest.warns(RuntimeWarning), pytest.raises(RunHeld, match=f"process {os.getpid()}"):
        take_lease(without_locks(), tmp_path)


def sequence(*values):
    """A function that gives one value after another, whatever it is asked."""
    left = list(values)
    return lambda *_: left.pop(0)


HERE = this_process()


@pytest.mark.parametrize(
    ("changes", "alive"),
    [
        ({}, True),
        ({"host": "renamed"}, True),
        ({"started": HERE.started + 1}, False),
        ({"pid": 2**22 + 1}, False),
        ({"boot": "another boot, or another machine of the same name"}, None),
        ({"namespace": "pid:[1]"}, None),
    ],
)
def test_whether_a_holder_lives_is_asked_only_where_it_can_be_told(changes, alive):
    """The same kernel and namespace give an answer; another machine, boot or container gives none."""
    assert is_alive(msgspec.structs.replace(HERE, **changes)) is alive


def test_a_zombie_holds_nothing():
    """A process that has ended is not alive, though nobody has collected it."""
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert start_ticks(child.pid) == 0
    child.wait()


def test_where_the_kernel_tells_nothing_nobody_is_said_to_be_alive_or_dead(monkeypatch):
    """Without /proc, and without what other systems have in its place, a holder is one that cannot be told."""
    monkeypatch.setattr("holdfast.storage.operating_system._PROC", "/nonexistent")
    here = this_process()
    assert (here.boot, here.namespace) == ("", "")
    assert is_alive(here) is None


def test_a_holder_survives_its_file():
    """What is written of a holder is read back."""
    assert decode_holder(msgspec.json.encode(HERE) + b"\n17 \n") == HERE
    assert isinstance(HERE, LeaseHolder)
