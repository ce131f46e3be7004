"""A process that takes the lease of a run and does as it is told on standard input; started by the lease tests.

usage: holder_process.py RUN locks|no-locks LIFETIME [take|probe]
"""

from __future__ import annotations

import errno
import sys
import warnings
from pathlib import Path

from holdfast.errors import RunHeld
from holdfast.storage import RealFileSystem, take_lease
from holdfast.storage.leases.local import find_holder
from holdfast.testing import FaultyFileSystem, InjectedFault

warnings.simplefilter("ignore")


def disk(kind: str):
    real = RealFileSystem()
    return real if kind == "locks" else FaultyFileSystem(real, [InjectedFault("lock", 0, errno.ENOLCK)])


def probe(run: Path, kind: str) -> None:
    """Looks who holds the run, over and over, until told to stop."""
    print("ready", flush=True)
    import threading  # noqa: PLC0415 - only this part needs it

    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    while not stop.is_set():
        find_holder(disk(kind), run)


def take(run: Path, kind: str, lifetime: float) -> None:
    """Takes the lease, says how that went, and keeps it until standard input ends."""
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        lease = take_lease(disk(kind), run, lifetime_seconds=lifetime)
    except RunHeld as error:
        print(f"held: {error}", flush=True)
        return
    print("taken", flush=True)
    sys.stdin.read()
    lease.release()


if __name__ == "__main__":
    run, kind, lifetime, what = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4]
    probe(run, kind) if what == "probe" else take(run, kind, lifetime)
