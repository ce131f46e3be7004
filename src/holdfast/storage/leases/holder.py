"""Who holds a run: enough to name the process, and to tell whether it still lives where that can be told.

A process id alone proves nothing: it is used again after a restart, and means another process in another
container. So the start time, the boot and the process-id namespace stand beside it.
"""

from __future__ import annotations

import contextlib
import os
import socket
from datetime import UTC, datetime
from pathlib import Path

import msgspec


class Holder(msgspec.Struct, frozen=True):
    """One process, named so that it cannot be confused with another."""

    host: str
    boot: str
    namespace: str
    pid: int
    started: int
    """Clock ticks from boot to the start of the process."""
    since: str
    """When it took the run, as ISO 8601 in UTC; shown, never compared."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"


def _first_line(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    return ""


def _pid_namespace() -> str:
    with contextlib.suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return ""


def start_ticks(pid: int) -> int:
    """When the process with this id started, in clock ticks since boot; 0 where there is none."""
    stat = _first_line(f"/proc/{pid}/stat")
    fields = stat.rpartition(")")[2].split()
    # A zombie has ended, though its entry is still there.
    if len(fields) < 20 or fields[0] == "Z":
        return 0
    return int(fields[19])


def this_process() -> Holder:
    """The holder that this process would be."""
    return Holder(
        host=socket.gethostname(),
        boot=_first_line("/proc/sys/kernel/random/boot_id"),
        namespace=_pid_namespace(),
        pid=os.getpid(),
        started=start_ticks(os.getpid()),
        since=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def is_alive(holder: Holder) -> bool | None:
    """Whether the holder still runs; None where this process cannot tell (another host or container)."""
    here = this_process()
    # A host's name says nothing: two machines may share it. A boot and a namespace are one kernel's, and one /proc.
    if not here.boot or (holder.boot, holder.namespace) != (here.boot, here.namespace):
        return None
    return start_ticks(holder.pid) == holder.started != 0


def decode_holder(data: bytes) -> Holder | None:
    """The holder written in a lease file, or None if nothing legible is."""
    try:
        return msgspec.json.decode(data.split(b"\n", 1)[0], type=Holder)
    except msgspec.MsgspecError:
        return None
