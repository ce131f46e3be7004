"""`python -m bench.part NAME ARGUMENT...`: one part of a benchmark in a process of its own, which prints its numbers.

A fresh process has no caches of an earlier round and a peak of memory of its own.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections import deque
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import holdfast
from bench.evals import carry_out, owing_eval
from bench.material import Prose, trial_records
from bench.measure import cpu_of
from bench.workload import segments, write_trials
from holdfast.journal import SegmentPin
from holdfast.run import RunReader, SessionContents, open_session, session_record
from holdfast.run.core.records import SessionRecord


def write(root: str, count: str) -> dict[str, float]:
    """Writes a run of `count` trials; what making up the records costs is taken off."""
    prose = Prose()
    written = cpu_of(lambda: write_trials(Path(root), int(count), prose))
    peak = _peak_mb()
    made = cpu_of(lambda: deque((trial_records(prose, number) for number in range(int(count))), maxlen=0))
    return {"cpu": written - made, "peak_mb": peak}


def resume(root: str) -> dict[str, float]:
    """Opens a run to execute it, up to the moment its session record is durable and the finished trials are known."""

    def make(reader: RunReader, number: int, pins: list[SegmentPin]) -> SessionRecord:
        return session_record(reader.run.hex(), number, pins, SessionContents(name="bench", config={}))

    before = time.process_time()
    session = open_session(Path(root), make)
    opened = time.process_time()
    finished = set(session.reader.fold.finished())
    known = time.process_time()
    session.abandon()
    return {"open": opened - before, "cpu": known - before, "finished": len(finished), "peak_mb": _peak_mb()}


def read(root: str) -> dict[str, float]:
    """Opens a run to read it, and asks which trials are finished."""
    finished: set[str] = set()

    def work() -> None:
        reader = RunReader(Path(root))
        finished.update(reader.fold.finished())
        reader.close()

    return {"cpu": cpu_of(work), "finished": len(finished), "peak_mb": _peak_mb()}


def evaluate(root: str, dataset: str, count: str) -> dict[str, float]:
    """Carries out an eval of `count` trials, of which the last one is left owed."""
    spec = owing_eval(Path(dataset), int(count), 256)
    used = cpu_of(lambda: carry_out(spec, Path(root)))
    return {"cpu": used, "peak_mb": _peak_mb()}


def recover(url: str, root: str) -> dict[str, float]:
    """Brings a run home from a store."""
    began, finished = time.perf_counter(), 0

    def work() -> None:
        nonlocal finished
        finished = holdfast.recover(url, root).finished

    used = cpu_of(work)
    return {"cpu": used, "seconds": time.perf_counter() - began, "finished": finished, "peak_mb": _peak_mb()}


def bare(root: str) -> dict[str, float]:
    """The floor of opening: hashes all segments once, and reads the keys from a table."""
    return {"cpu": cpu_of(lambda: _bare(Path(root)))}


def _bare(root: Path) -> None:
    for path in segments(root):
        sha256(path.read_bytes()).digest()
    db = sqlite3.connect(root / "index.sqlite")
    set(db.execute("SELECT key FROM trials"))
    db.close()


def _peak_mb() -> float:
    """The most memory this process has had; the operating system's own count for a child begins with its parent's."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


PARTS: dict[str, Callable[..., dict[str, float]]] = {
    "write": write,
    "resume": resume,
    "read": read,
    "evaluate": evaluate,
    "recover": recover,
    "bare": bare,
}

if __name__ == "__main__":
    print(json.dumps(PARTS[sys.argv[1]](*sys.argv[2:])))
