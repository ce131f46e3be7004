"""Processes that a session's tasks have started: they do not keep the run, and those left by a kill are found again.

A forked child (`multiprocessing`, `ProcessPoolExecutor`, `os.fork`) has copies of all descriptors, and a lock lasts
until its last copy is closed. So every child closes its copies the moment it is forked. A program that is executed
loses them by itself (O_CLOEXEC), also where it was started with `close_fds=False`.

Workers whose runner was killed never end by themselves. Each child therefore writes its name (process id, start time,
boot) into the file `lease.children` of the run and keeps that file open, and what it executes has MARKER in its
environment. The next session ends such a process only if its id and start time are those in the file and it still has
the open file or the marker. All others are left running. Either is reported.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from holdfast.storage.filesystem import FileIdentity, is_file_at, open_identity
from holdfast.storage.leases.holder import LeaseHolder, decode_holder, is_alive, parent_pid, start_ticks, this_process
from holdfast.storage.operating_system import (
    all_processes,
    command_name,
    names_processes,
    open_files,
    process_environment,
)

CHILDREN_NAME = "lease.children"
MARKER = "HOLDFAST_HOLDER"
"""The environment variable that names the process which executes a run, for what that process starts."""
_MOST_BYTES = 1 << 20
"""A task may fork for every trial: beyond this, children are not written down, and so never ended."""
_END_SECONDS = 2.0
_PAUSE_SECONDS = 0.01


class InheritedLock(Protocol):
    """What holds a lock by a descriptor that a forked child would have too."""

    def leave_to_parent(self) -> None:
        """Closes the copies of this process, which is a forked child, and touches nothing else."""


_written: list[tuple[int, FileIdentity]] = []
"""In a child: the files that have its name, for the children that it forks in turn."""
_inherited: weakref.WeakSet[InheritedLock] = weakref.WeakSet()
_is_registered = False


def close_in_children(lock: InheritedLock) -> None:
    """From now on every forked child leaves this to its parent."""
    global _is_registered  # noqa: PLW0603 - a hook cannot be taken back, so it is registered once
    _inherited.add(lock)
    if not _is_registered:
        _is_registered = True
        os.register_at_fork(after_in_child=_leave_all)


def _leave_all() -> None:
    locks = list(_inherited)
    _inherited.clear()
    for fd, identity in _written:
        _write_own_name(fd, identity)
    for lock in locks:
        lock.leave_to_parent()


def write_child_name(directory: int) -> None:
    """Writes the name of this process, a forked child, into the run; it keeps that file open.

    Only where that takes no other program: between a fork and what follows, nothing else may be started.
    """
    if not names_processes():
        return
    with contextlib.suppress(OSError):
        fd = os.open(CHILDREN_NAME, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644, dir_fd=directory)
        identity = open_identity(fd)
        _write_own_name(fd, identity)
        _written.append((fd, identity))


def _write_own_name(fd: int, identity: FileIdentity) -> None:
    with contextlib.suppress(OSError):
        # A child may have closed everything, and have another file under this number now.
        if open_identity(fd) == identity and os.fstat(fd).st_size < _MOST_BYTES:
            os.write(fd, msgspec.json.encode(this_process()) + b"\n")


def forget_children(directory: int) -> None:
    """The session has ended in order: what its tasks have left running is theirs."""
    with contextlib.suppress(OSError):
        os.unlink(CHILDREN_NAME, dir_fd=directory)


# The marker.

_marking = threading.Lock()
_marked = 0


@contextlib.contextmanager
def marking_commands() -> Iterator[None]:
    """While the block runs, programs that this process executes have the marker in their environment."""
    global _marked  # noqa: PLW0603 - sessions of one process share its environment
    with _marking:
        _marked += 1
        os.environ[MARKER] = _marker_of(this_process())
    try:
        yield
    finally:
        with _marking:
            _marked -= 1
            if not _marked:
                os.environ.pop(MARKER, None)


def _marker_of(holder: LeaseHolder) -> str:
    return f"{holder.pid}-{holder.started}-{holder.boot}"


# After a kill.


def end_orphans(run: Path, killed: LeaseHolder | None) -> list[str]:
    """Ends the forked children that a killed session of the run has left; a line about each, and about others."""
    told: list[str] = []
    try:
        identity, names = _recorded_children(run / CHILDREN_NAME)
        spared = _own_ancestors()
        left = [child for child in names if child.pid not in spared and is_alive(child)]
        told += [_end_or_name(child, identity, killed) for child in left]
        (run / CHILDREN_NAME).unlink(missing_ok=True)
    except OSError as error:
        told.append(f"The file {CHILDREN_NAME} of the run cannot be read ({error.strerror}); no process was ended.")
    return told + _left_commands(killed)


def _own_ancestors() -> set[int]:
    """This process and those that it descends from: a child that was left may be the one that resumes the run."""
    found, pid = set[int](), os.getpid()
    while pid and pid not in found:
        found.add(pid)
        pid = parent_pid(pid)
    return found


def _recorded_children(path: Path) -> tuple[FileIdentity | None, list[LeaseHolder]]:
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            lines = file.read(_MOST_BYTES + 4096).splitlines()
    except FileNotFoundError:
        return None, []
    names = dict.fromkeys(filter(None, map(decode_holder, lines)))
    return FileIdentity(found.st_dev, found.st_ino), list(names)


def _end_or_name(child: LeaseHolder, identity: FileIdentity | None, killed: LeaseHolder | None) -> str:
    who = f"process {child.pid} ({command_name(child.pid)})"
    try:
        # Held from before the comparison: no other process can take the id unnoticed.
        process = os.pidfd_open(child.pid)
    except (OSError, AttributeError):
        return f"{who} may have been left by a killed session; it was not ended."
    try:
        is_ours = _has_open(child.pid, identity) or (killed is not None and _has_marker(child.pid, killed))
        if start_ticks(child.pid) != child.started or not is_ours:
            return f"{who} may have been left by a killed session; it was not ended, because it is not certain."
        is_ended = _end_process(process, child)
    finally:
        os.close(process)
    return (
        f"{who}, left by a killed session, was ended."
        if is_ended
        else f"{who}, left by a killed session, is still running."
    )


def _end_process(process: int, child: LeaseHolder) -> bool:
    """Whether it has ended; a forked child may have inherited handlers that take a signal and do nothing."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(process, number)
        deadline = time.monotonic() + _END_SECONDS
        while time.monotonic() < deadline:
            if start_ticks(child.pid) != child.started:
                return True
            time.sleep(_PAUSE_SECONDS)
    return False


def _has_open(pid: int, identity: FileIdentity | None) -> bool:
    return identity is not None and any(_is_open_on(path, identity) for path in open_files(pid))


def _is_open_on(path: str, identity: FileIdentity) -> bool:
    with contextlib.suppress(OSError):
        return is_file_at(path, identity)
    return False


def _has_marker(pid: int, killed: LeaseHolder) -> bool:
    return f"{MARKER}={_marker_of(killed)}".encode() in process_environment(pid)


def _left_commands(killed: LeaseHolder | None) -> list[str]:
    """Programs that tasks of a killed session have started: perhaps meant to outlive it, so they are only named."""
    if killed is None or is_alive(killed) is not False:
        return []
    spared = _own_ancestors()
    found = [pid for pid in all_processes() if pid not in spared]
    return [
        f"process {pid} ({command_name(pid)}) was started by the killed session and is still running."
        for pid in found
        if _has_marker(pid, killed)
    ]


def processes_with(path: Path) -> list[str]:
    """The processes of this machine that have a file open, as far as this user may see; for a message."""
    with contextlib.suppress(OSError):
        found = path.stat()
        identity = FileIdentity(found.st_dev, found.st_ino)
        return [f"process {pid} ({command_name(pid)})" for pid in all_processes() if _has_open(pid, identity)]
    return []
