"""A program that runs under a supervisor: it ends with the session, with every process that it has started.

The supervisor is a process of its own (`supervisor_main.py`): it is there when this one is killed. Where it is killed
itself, this process ends what the program has left (`left_processes.py`), and so does the next session after a kill of
both.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import sys
import time
from pathlib import Path

import msgspec

from holdfast.processes import supervisor_main
from holdfast.processes.completion import completed, in_thread
from holdfast.processes.left_processes import (
    AGENT_MARKER,
    Invocation,
    end_left_processes,
    has_left_processes,
    write_invocation,
)
from holdfast.storage.leases.forked_children import MARKER
from holdfast.storage.leases.holder import this_process

LOST = "supervisor lost"
_PATIENCE_SECONDS = 10.0


class ProgramLimits(msgspec.Struct, frozen=True):
    """What a program may use, with everything that it starts; 0 where there is no limit."""

    output: int = 10 << 20
    """Bytes of each of its two outputs that are kept."""
    processes: int = 0
    memory: int = 0
    """Resident bytes of all its processes together."""
    cpu: int = 0
    """Seconds of processor time of each process."""
    file_size: int = 0
    """Bytes of each file that it writes."""


class Program(msgspec.Struct, frozen=True):
    """A program to be run."""

    command: list[str]
    cwd: Path
    env: dict[str, str]
    state: Path
    """A directory of its own: its outputs, and what is known of its processes."""
    limits: ProgramLimits = ProgramLimits()
    grace: float = 5.0
    """Seconds from SIGTERM to SIGKILL."""
    needles: list[tuple[str, str]] = []
    """Texts that are replaced in its outputs, and what they are replaced by."""
    tree: Path | None = None
    """A directory whose state is noted at the end."""

    @property
    def stdout(self) -> Path:
        return self.state / "stdout"

    @property
    def stderr(self) -> Path:
        return self.state / "stderr"


class ProgramEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a program ended."""

    exit_code: int | None = None
    signal: int = 0
    cause: str = ""
    """Why it was ended, where that is known: `oom`, `limit memory`, `limit processes`, `ended`, `runner` …"""
    bytes: dict[str, int] = {}
    cut: list[str] = []
    """Which of its outputs were longer than their cap."""
    unwritten: str = ""
    """Why not all that it printed could be written to its files; empty if all of it was."""
    most_processes: int = 0
    left: int = 0
    """How many of its processes could not be ended."""
    tree: str = ""
    """The state of its directory when everything had ended; empty if unknown."""
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """How it ended, in words."""
        if self.cause.startswith("limit "):
            return f"was ended: it reached its limit of {self.cause.removeprefix('limit ').replace('_', ' ')}"
        if self.cause == "oom":
            return "was killed: the machine, or its container, was out of memory"
        if self.cause == LOST:
            return "has killed its supervisor, and was ended"
        if self.signal:
            return f"ended by {_signal_name(self.signal)}{', cause unknown' if not self.cause else ''}"
        return f"ended with exit code {self.exit_code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


async def run_program(program: Program) -> ProgramEnd:
    """Runs it to its end; a cancellation ends it, with everything that it has started, before it passes on.

    Raises:
        OSError: no process can be started.
    """
    await _end_left(program)
    token, began = secrets.token_hex(16), time.monotonic()
    for name in ("ended.json", "processes.json"):
        (program.state / name).unlink(missing_ok=True)
    write_invocation(program.state, Invocation(token=token, boot=this_process().boot))
    # How it ends is known to a later session also if the disk is full by then.
    (program.state / supervisor_main.ENDED_NEW).write_bytes(bytes(supervisor_main.ENDED_BYTES))
    process = await _start_supervisor(program)
    try:
        report = await _report_of(process, _orders(program, token))
    except BaseException:
        await completed(_end_supervised(process, program))
        raise
    end = _read_end(report)
    if end.cause == LOST:
        await _end_left(program)
    else:
        (program.state / "invocation.json").unlink(missing_ok=True)
    return msgspec.structs.replace(end, seconds=round(time.monotonic() - began, 3))


async def _start_supervisor(program: Program) -> asyncio.subprocess.Process:
    own = {name: os.environ[name] for name in (MARKER,) if name in os.environ}
    log = os.open(program.state / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", supervisor_main.__file__),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            env=own,
        )
    finally:
        os.close(log)


def _orders(program: Program, token: str) -> bytes:
    runner = this_process()
    orders = {
        "command": program.command,
        "cwd": str(program.cwd),
        "env": {**program.env, AGENT_MARKER: token},
        "state": str(program.state),
        "stdout": str(program.stdout),
        "stderr": str(program.stderr),
        "limits": msgspec.to_builtins(program.limits),
        "grace": program.grace,
        "needles": program.needles,
        "tree": str(program.tree) if program.tree else "",
        "runner": {"pid": runner.pid, "started": runner.started},
    }
    text = msgspec.json.encode(orders)
    return b"%d\n%s" % (len(text), text)


async def _report_of(process: asyncio.subprocess.Process, orders: bytes) -> bytes:
    if process.stdin is None or process.stdout is None:
        raise OSError("the supervisor has no pipes")
    # A supervisor that is killed at once is noticed by what it does not report.
    with contextlib.suppress(ConnectionError):
        process.stdin.write(orders)
        await process.stdin.drain()
    report = await process.stdout.read()
    await process.wait()
    return report


def _read_end(report: bytes) -> ProgramEnd:
    try:
        return msgspec.json.decode(report, type=ProgramEnd)
    except msgspec.MsgspecError:
        return ProgramEnd(signal=signal.SIGKILL, cause=LOST)


async def _end_supervised(process: asyncio.subprocess.Process, program: Program) -> None:
    """Has the program ended, in order if it lets that happen, and waits until nothing of it is left."""
    with contextlib.suppress(ConnectionError, RuntimeError):
        if process.stdin is not None:
            process.stdin.write(b"end\n")
            await process.stdin.drain()
    try:
        await asyncio.wait_for(process.wait(), program.grace + _PATIENCE_SECONDS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    await _end_left(program)


async def _end_left(program: Program) -> None:
    if has_left_processes(program.state):
        await in_thread(end_left_processes, program.state)
