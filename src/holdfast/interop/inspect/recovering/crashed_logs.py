"""Listing the logs of Inspect's whose evals did not come to an end. Listing changes nothing."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.errors import HoldfastError
from holdfast.interop.inspect.eval_archive import SUFFIX, EvalArchive, SampleKey
from holdfast.interop.inspect.recovering.buffer_database import find_databases, living_process
from holdfast.interop.inspect.recovering.recovery import Buffers, default_output, expected_samples, open_buffers

LOG_ONLY = "log only"


class CrashedLog(msgspec.Struct, frozen=True, omit_defaults=True):
    """One log that can be recovered, or whose eval is running."""

    log: str
    state: str
    """`crashed`, `running`, `recovered` (there is a recovered log beside it) or `unreadable`."""
    in_log: int
    """How many samples a flush has written."""
    complete: int
    """How many more are complete in a buffer."""
    in_progress: int
    planned: int | None
    source: str
    """`database`, `filestore` or `log only`."""
    age_seconds: float
    note: str = ""


def crashed_logs(place: Path) -> list[CrashedLog]:
    """The logs below a directory that have no end, in the order of their names."""
    return [found for path in _logs_below(place) if (found := _crashed_log_at(path)) is not None]


def _logs_below(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    for folder, folders, names in os.walk(place):
        # Buffers, journals and the like are hidden directories.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder) / name for name in sorted(names) if name.endswith(SUFFIX) and not name.startswith("."))


def _crashed_log_at(path: Path) -> CrashedLog | None:
    """What is known of a log; None if its eval has ended."""
    age = 0.0
    try:
        age = max(age, time.time() - path.stat().st_mtime)
        with EvalArchive(path) as archive, contextlib.ExitStack() as stack:
            return None if archive.has_ended else _counted(archive, open_buffers(path, stack), age)
    except (HoldfastError, OSError) as error:
        reason = error.message if isinstance(error, HoldfastError) else str(error)
        return CrashedLog(str(path), "unreadable", 0, 0, 0, None, LOG_ONLY, age, reason)


def _counted(archive: EvalArchive, buffers: Buffers, age: float) -> CrashedLog:
    in_log = set(archive.sample_members())
    found = [candidates[0] for key, candidates in buffers.found.items() if SampleKey(*key).member not in in_log]
    complete = sum(sample.is_complete for sample in found)
    return CrashedLog(
        str(archive.path),
        _state(archive.path),
        len(in_log),
        complete,
        len(found) - complete,
        expected_samples(archive.header()),
        buffers.sources[0] if buffers.sources else LOG_ONLY,
        age,
        "; ".join(buffers.warnings),
    )


def _state(log: Path) -> str:
    if any(living_process(database) for database in find_databases(log)):
        return "running"
    return "recovered" if default_output(log).exists() else "crashed"
