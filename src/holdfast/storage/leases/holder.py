"""The holder of a lease: enough to name the process, and to check whether it still runs where that is possible.

A process id alone proves nothing: it is reused after a restart, and means another process in another container. So the
start time, the boot id and the process-id namespace are recorded with it.
"""

import os
from datetime import UTC, datetime
from functools import lru_cache

import msgspec

from holdfast.storage.operating_system import boot_id, process_facts, process_namespace
from holdfast.terminal.text import time_text


class LeaseHolder(msgspec.Struct, frozen=True):
    """One process, named so that it cannot be confused with another."""

    host: str
    boot: str
    namespace: str
    pid: int
    started: int
    """When the process started: clock ticks since boot on Linux, seconds since the epoch on macOS; only compared."""
    since: str
    """When it took the run, as ISO 8601 in UTC; shown, never compared."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {time_text(self.since)}"


class AcknowledgedFrames(msgspec.Struct, frozen=True, array_like=True):
    """How far the holder of a run has come: every frame of its writer up to `seq` is durable."""

    session: int
    writer: int
    segment: int
    """The segment that it was writing then."""
    seq: int


LEASE_LOST = "lease lost"
"""How a session ended that another one has taken the run from."""


class UnrecordedEnd(msgspec.Struct, frozen=True):
    """How a session ended that could not write its end to the journal, as on a full disk."""

    session: int
    ended_as: str
    exit_code: int
    ended_at: str


def parent_pid(pid: int) -> int:
    """The process that has started this one; 0 where that is not known."""
    return process_facts(pid).parent


def start_ticks(pid: int) -> int:
    """When the process with this id started, in the units of the system; 0 if absent."""
    return process_facts(pid).started


@lru_cache(maxsize=1)
def _own_start(pid: int) -> int:
    """The same of this process, which never changes; by its id, because a forked child has another."""
    return start_ticks(pid)


def this_process() -> LeaseHolder:
    """The holder that this process would be."""
    return LeaseHolder(
        host=os.uname().nodename,
        boot=boot_id(),
        namespace=process_namespace(),
        pid=os.getpid(),
        started=_own_start(os.getpid()),
        since=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def is_alive(holder: LeaseHolder) -> bool | None:
    """Whether the holder still runs; None where this process cannot tell (another host or container)."""
    here = this_process()
    # A host's name says nothing: two machines may share it. A boot and a namespace are one kernel's.
    if not here.boot or (holder.boot, holder.namespace) != (here.boot, here.namespace):
        return None
    return start_ticks(holder.pid) == holder.started != 0


def decode_acknowledged(data: bytes) -> AcknowledgedFrames | None:
    """How far the holder had come, by the second line of a lease file; None if nothing readable is there."""
    try:
        return msgspec.json.decode(data.partition(b"\n")[2], type=AcknowledgedFrames)
    except msgspec.MsgspecError:
        return None


def decode_unrecorded_end(data: bytes) -> UnrecordedEnd | None:
    """The end that a lease file has instead of a holder; None if it has none."""
    try:
        return msgspec.json.decode(data, type=UnrecordedEnd)
    except msgspec.MsgspecError:
        return None


def decode_holder(data: bytes) -> LeaseHolder | None:
    """The holder written in a lease file, or None if nothing readable is."""
    try:
        return msgspec.json.decode(data.split(b"\n", 1)[0], type=LeaseHolder)
    except msgspec.MsgspecError:
        return None
