"""check: proving stored bytes unchanged without decompressing them: every frame's digest, and the index's own hash."""

from __future__ import annotations

from collections import deque
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

from bench.measure import Figure, Setting, Target, cpu_of, median_of
from bench.scan import steps_run
from bench.workload import journal_bytes, segments
from holdfast.journal import Journal
from holdfast.run import RunReader

_TARGET = Target("value", "at least", 300.0)


def measure(setting: Setting) -> list[Figure]:
    root = steps_run(setting)
    megabytes = journal_bytes(root / "journal") / 1e6
    reader = RunReader(root, index=root / "index.sqlite")
    frames, bare, index, bare_index = median_of(
        lambda: cpu_of(lambda: _check_frames(reader.journal)),
        lambda: cpu_of(lambda: _hash_files(root, lambda: blake2b(digest_size=16))),
        lambda: cpu_of(reader.refresh),
        lambda: cpu_of(lambda: _hash_files(root, sha256)),
    )
    reader.close()
    return [
        Figure("check", "frame digests (floor: blake2b)", megabytes / frames, "MB/s", megabytes / bare, _TARGET),
        Figure("check", "index (floor: sha256)", megabytes / index, "MB/s", megabytes / bare_index, _TARGET),
    ]


def _check_frames(journal: Journal) -> None:
    for segment in journal.segments():
        with journal.scan(segment) as scan:
            deque(scan.frames(), maxlen=0)


def _hash_files(root: Path, make: Any) -> None:
    for path in segments(root):
        found = make()
        with path.open("rb", buffering=0) as file:
            while part := file.read(1 << 20):
                found.update(part)
