"""recover: bringing a run home from a real S3 server on this machine, against the zstd program on the same segments.

The server is a process of its own: its CPU does not count, but wall time is what the two of them need together. Both
are given, because here the rate is the point.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from bench.measure import ROUNDS, Figure, Setting, Target, cpu_of_child, run_part
from bench.object_store import BUCKET, KEYS, StoreServer
from bench.workload import journal_bytes, segments, write_transcripts
from holdfast.run.core.layout import Layout
from holdfast.run.remote.upload_set import UploadSet
from holdfast.storage.object_store import ObjectStore

_Found = dict[str, float]


def measure(setting: Setting) -> list[Figure]:
    made = setting.directory / "transcripts"
    write_transcripts(made, setting.size(300_000_000, 30_000_000))
    megabytes = journal_bytes(made / "journal") / 1e6
    with _store(setting.directory / "store") as url:
        UploadSet(ObjectStore(url), Layout(made)).upload(everything=True)
        found = [round_trip(url, setting.directory / "round") for _ in range(ROUNDS)]
    shutil.rmtree(made)
    return _figures(megabytes, {name: statistics.median(each[name] for each in found) for name in found[0]})


def round_trip(url: str, directory: Path) -> _Found:
    """Recovers the run at the URL in a fresh process, and gives the same segments to zstd, where it is there."""
    home = directory / "home"
    found = run_part("recover", url, home, cache=directory / "cache")
    if program := shutil.which("zstd"):
        began = time.perf_counter()
        found["zstd_cpu"] = cpu_of_child([program, "-dcq", *segments(home)])
        found["zstd_seconds"] = time.perf_counter() - began
    shutil.rmtree(directory)
    return found


@contextlib.contextmanager
def _store(directory: Path) -> Iterator[str]:
    """The URL for a run in a server that is there as long as the block."""
    server = StoreServer(directory)
    reached = KEYS | {"HOLDFAST_SPOOL": str(directory / "spool"), "AWS_ENDPOINT_URL": server.endpoint}
    try:
        with patch.dict(os.environ, reached):
            yield f"s3://{BUCKET}/bench/run"
    finally:
        server.kill()
        shutil.rmtree(directory)


def _figures(megabytes: float, found: _Found) -> list[Figure]:
    what, bare = f"{megabytes:.0f} MB from a store", "zstd_cpu" in found
    cpu, rate = Target("ratio", "at most", 3.0), Target("ratio", "at least", 1 / 3)
    floor = megabytes / found["zstd_seconds"] if bare else None
    name = f"{what} (floor: zstd -d)" if bare else f"{what} (zstd is not there)"
    return [
        Figure("recover", f"{name}, CPU", found["cpu"], "s", found.get("zstd_cpu"), cpu if bare else None),
        Figure("recover", "the same, rate", megabytes / found["seconds"], "MB/s", floor, rate if bare else None),
        Figure("recover", "the same, peak memory", found["peak_mb"], "MB", target=Target("value", "at most", 300)),
    ]
