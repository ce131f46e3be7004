"""Processes of a program whose supervisor was killed: found by what was noted of them, and ended.

A process is ended only if it is certain that it is one of these: its id and start time were noted on this boot of
this machine, or it has the token of the invocation in its environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import msgspec

from holdfast.storage.leases.holder import start_ticks, this_process
from holdfast.storage.operating_system import all_processes, process_environment

AGENT_MARKER = "HOLDFAST_AGENT"
"""The environment variable with the token of the invocation."""
_INVOCATION, _PROCESSES = "invocation.json", "processes.json"
_END_SECONDS = 5.0
_MOST_BYTES = 4 << 20


class Invocation(msgspec.Struct, frozen=True):
    """A program that was started, and has not been seen to end."""

    token: str
    boot: str


def write_invocation(state: Path, invocation: Invocation) -> None:
    """Takes note of a program before it is started."""
    (state / _INVOCATION).write_bytes(msgspec.json.encode(invocation))


def has_left_processes(state: Path) -> bool:
    """Whether a program was started here and has not been seen to end."""
    return (state / _INVOCATION).is_file()


def end_left_processes(state: Path) -> int:
    """Ends what a program has left running, if anything; how many processes were ended."""
    found = _read_invocation(state)
    if found is None:
        return 0
    ended = 0
    if found.boot == this_process().boot:
        ended = _end_all(found.token, _noted_processes(state))
    for name in (_PROCESSES, _INVOCATION):
        (state / name).unlink(missing_ok=True)
    return ended


def _read_invocation(state: Path) -> Invocation | None:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(_first_bytes(state / _INVOCATION), type=Invocation)
    return None


def _noted_processes(state: Path) -> dict[int, int]:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return dict(msgspec.json.decode(_first_bytes(state / _PROCESSES), type=list[tuple[int, int]]))
    return {}


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MOST_BYTES)


def _end_all(token: str, noted: dict[int, int]) -> int:
    """Ends them in passes: one that is ended in the first may have started others meanwhile."""
    ended: set[int] = set()
    deadline = time.monotonic() + _END_SECONDS
    while left := _still_running(token, noted):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid, started in left.items():
                _send(pid, started, number)
        ended |= left.keys()
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return len(ended)


def _still_running(token: str, noted: dict[int, int]) -> dict[int, int]:
    """Those that still run, with their start times; never this process."""
    marker = f"{AGENT_MARKER}={token}".encode()
    found = {pid: started for pid, started in noted.items() if start_ticks(pid) == started != 0}
    for pid in all_processes():
        if pid not in found and marker in process_environment(pid) and (started := start_ticks(pid)):
            found[pid] = started
    found.pop(os.getpid(), None)
    return found


def _send(pid: int, started: int, number: int) -> None:
    """Signals a process that is held from before the comparison: no other can take its id unnoticed."""
    with contextlib.suppress(OSError, AttributeError):
        process = os.pidfd_open(pid)
        try:
            if start_ticks(pid) == started:
                signal.pidfd_send_signal(process, number)
        finally:
            os.close(process)
