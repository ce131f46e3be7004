"""Resume 76: processes that a solver has started do not keep the run of a killed runner.

The next session takes over at once. It ends a worker only if process id, start time and marker agree, and reports it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evals import python_eval
from holdfast.storage import RealFileSystem, take_lease
from holdfast.storage.leases.forked_children import CHILDREN_NAME
from holdfast.storage.leases.holder import start_ticks, this_process
from program import until

TASK = """
import asyncio, multiprocessing, os, subprocess, sys, threading, time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from holdfast import Sample, Task, exact, task

kept = []

def nothing(place):
    pass

def wait(place):
    Path(place, f"worker-{os.getpid()}").touch()
    while True:
        time.sleep(0.05)

def pool(place):
    workers = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork"))
    kept.extend([workers, workers.submit(wait, place), workers.submit(wait, place)])

def process(place):
    kept.append(multiprocessing.get_context("fork").Process(target=wait, args=(place,), daemon=True))
    kept[-1].start()

def fork(place):
    if os.fork() == 0:
        wait(place)

def fork_in_thread(place):
    thread = threading.Thread(target=fork, args=(place,))
    thread.start()
    thread.join()

def fork_of_a_fork(place):
    if os.fork() == 0:
        fork(place)
        os._exit(0)

COMMAND = "import os, sys, time, pathlib; pathlib.Path(sys.argv[1], f'command-{os.getpid()}').touch(); time.sleep(600)"

def command(place):
    kept.append(subprocess.Popen([sys.executable, "-c", COMMAND, place], close_fds=False))

def spawn(place):
    os.posix_spawn(sys.executable, [sys.executable, "-c", COMMAND, place], os.environ)

def fork_and_execute(place):
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", COMMAND, place])

async def solve(trial):
    if not kept:
        kept.append(0)
        globals()[Path(os.environ["PLACE"], "kind").read_text()](os.environ["PLACE"])
    return await trial.generate("q")

@task
def t():
    return Task(samples=[Sample(f"q{n}", target="Q") for n in range(4)], solver=solve, scorers=[exact()])
"""
FORKED = ["pool", "process", "fork", "fork_in_thread", "fork_of_a_fork", "fork_and_execute"]
EXECUTED = ["command", "spawn"]


def left(directory):
    """The processes that the solver has started."""
    found = [*directory.glob("worker-*"), *directory.glob("command-*")]
    return [int(path.name.partition("-")[2]) for path in found]


@pytest.fixture
def killed(holdfast, server, tmp_path):
    """Starts a run whose solver starts processes, kills the runner and no other; gives those that are left."""
    pids = []

    def run(kind):
        (tmp_path / "kind").write_text(kind)
        server.behave(hold=True)
        eval_file = python_eval(tmp_path, server.base_url, TASK, concurrency_limit=4)
        started = holdfast.start("run", eval_file, "--run-dir", "r", PLACE=str(tmp_path))
        server.wait_for(in_flight=4)
        pids.extend(until(lambda: left(tmp_path), "the solver has started something"))
        os.kill(started.pid, signal.SIGKILL)
        started.wait()
        (tmp_path / "kind").write_text("nothing")
        server.behave()
        return pids

    yield run
    for pid in {*pids, *left(tmp_path)}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_running(pid):
    return start_ticks(pid) != 0


@pytest.mark.parametrize("kind", FORKED)
def test_resume_76_a_forked_worker_does_not_keep_the_run_and_is_ended_by_name(holdfast, killed, tmp_path, kind):
    """The run is taken over at once and completed; each worker that was left is ended, and a line says so."""
    pids = killed(kind)
    assert all(map(is_running, pids))
    ended = holdfast("resume", "r", code=0, PLACE=str(tmp_path))
    assert "Complete: 4 of 4" in ended.out
    for pid in pids:
        assert f"process {pid} (" in ended.err
        assert "), left by a killed session, was ended." in ended.err
        until(lambda pid=pid: not is_running(pid), "it has ended")
    assert not (tmp_path / "r" / CHILDREN_NAME).exists()


@pytest.mark.parametrize("kind", EXECUTED)
def test_resume_76_a_command_does_not_keep_the_run_and_is_left_running_and_named(holdfast, killed, tmp_path, kind):
    """A program may be meant to outlive its runner; what was started by the killed session is only named."""
    (pid,) = killed(kind)
    ended = holdfast("resume", "r", code=0, PLACE=str(tmp_path))
    assert "Complete: 4 of 4" in ended.out
    assert f"process {pid} (" in ended.err and "was started by the killed session and is still running" in ended.err
    assert is_running(pid)


def test_resume_76_what_a_session_that_ended_in_order_leaves_running_is_not_ended(holdfast, server, tmp_path):
    """Such a process may be meant to go on."""
    (tmp_path / "kind").write_text("fork")
    holdfast("run", python_eval(tmp_path, server.base_url, TASK), "--run-dir", "r", code=0, PLACE=str(tmp_path))
    (pid,) = until(lambda: left(tmp_path), "the solver has started something")
    try:
        assert not (tmp_path / "r" / CHILDREN_NAME).exists()
        (tmp_path / "kind").write_text("nothing")
        ended = holdfast("resume", "r", "--redo", "status=valid", code=0, PLACE=str(tmp_path))
        assert f"process {pid}" not in ended.err
        assert is_running(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("changed", ["pid", "start", "marker"])
def test_resume_76_a_process_of_which_one_of_the_three_differs_is_not_ended(tmp_path, changed):
    """A reused process id, another start time, or no marker: the process is not ours to end."""
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        name = _named(stranger.pid)
        if changed == "start":
            name["started"] += 1
        if changed == "pid":
            name["started"] -= 1
        (tmp_path / CHILDREN_NAME).write_text(json.dumps(name) + "\n")
        lease = take_lease(RealFileSystem(), tmp_path)
        lease.release()
        assert stranger.poll() is None
        named = [note for note in lease.notes if f"process {stranger.pid} (sleep)" in note]
        assert len(named) == (changed == "marker")
        assert all("was not ended" in note for note in named)
    finally:
        stranger.kill()
        stranger.wait()


def _named(pid):
    import msgspec  # noqa: PLC0415

    return msgspec.to_builtins(this_process()) | {"pid": pid, "started": start_ticks(pid)}


@pytest.mark.parametrize("content", [b"", b"\xff garbage\n", b'{"pid": 1}\n', b"\n\n" + b"x" * (2 << 20)])
def test_a_file_of_children_with_any_content_is_read_and_removed(tmp_path, content):
    """Nobody is ended by what cannot be read."""
    (tmp_path / CHILDREN_NAME).write_bytes(content)
    lease = take_lease(RealFileSystem(), tmp_path)
    assert lease.notes == []
    lease.release()
    assert not (tmp_path / CHILDREN_NAME).exists()


def test_a_forked_child_has_no_copy_of_any_lock(tmp_path):
    """Neither of the lease nor of a reader's index; and what it does with the lease changes nothing."""
    lease = take_lease(RealFileSystem(), tmp_path)
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        with contextlib.suppress(BaseException):
            links = []
            for path in Path("/proc/self/fd").iterdir():
                with contextlib.suppress(OSError):
                    links.append(str(path.readlink()))
            lease.release()
            lease.check()
            os.write(write, json.dumps([link for link in links if link.endswith("/lease")]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    assert json.loads(os.read(read, 1 << 16)) == []
    os.close(read)
    assert lease.is_held() and (tmp_path / "lease").read_bytes() != b""
    lease.release()


NATIVE = """
import ctypes, os, sys, time
from pathlib import Path
from holdfast.storage import RealFileSystem, take_lease
lease = take_lease(RealFileSystem(), Path(sys.argv[1]))
libc = ctypes.PyDLL(None)
if libc.fork() == 0:
    time.sleep(600)
print("forked", flush=True)
time.sleep(600)
"""


def test_resume_76_a_lock_that_code_outside_python_has_forked_is_refused_and_its_keeper_named(tmp_path, monkeypatch):
    """No hook of Python's runs in such a child: the run is not taken in silence, and the message says who keeps it."""
    monkeypatch.setattr("holdfast.storage.leases.local._ATTEMPTS", 3)
    from holdfast.errors import RunHeld  # noqa: PLC0415

    parent = subprocess.Popen([sys.executable, "-c", NATIVE, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout.readline() == "forked\n"
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    (child,) = map(int, children)
    try:
        with pytest.raises(RunHeld, match=rf"which has ended; its lock is kept by process {child} \("):
            take_lease(RealFileSystem(), tmp_path)
    finally:
        os.kill(child, signal.SIGKILL)
    until(lambda: not is_running(child), "it has ended")
    take_lease(RealFileSystem(), tmp_path).release()
