"""The progress of a session as a JSON file, for dashboards and scripts that watch a run.

The file is replaced as a whole, so that a reader never sees half of one. It is not synced: the journal is the truth,
and after a power loss the next session writes the file again. What cannot be written is counted among the failures of
the session, and stops nothing. A process that is killed leaves the file as it was, with an old `updated_at`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from holdfast.engine.events import SessionEnded
from holdfast.engine.execution import Execution
from holdfast.engine.group_progress import GroupProgress
from holdfast.engine.opening.new_run import StartedSession
from holdfast.engine.progress import Progress
from holdfast.models.message import Usage
from holdfast.run.core.provenance import utc_timestamp
from holdfast.run.fold.states import RUNNING, StateCounts
from holdfast.storage.tolerated_failures import ToleratedFailures
from holdfast.version import SCHEMA_VERSION


@contextlib.asynccontextmanager
async def keeping_progress_file(started: StartedSession, execution: Execution) -> AsyncIterator[ProgressFile | None]:
    """Keeps the file that the eval names up to date while the block runs; its last content says how that ended."""
    spec = started.prepared.spec
    if spec.runner.progress_file is None:
        yield None
        return
    file = ProgressFile(Path(spec.locate(spec.runner.progress_file)), execution.progress, started.session.derived)
    execution.observe(file.session_ended, SessionEnded)
    file.write()
    task = asyncio.create_task(_keep_writing(file, spec.runner.progress_interval))
    try:
        yield file
    finally:
        task.cancel()


async def _keep_writing(file: ProgressFile, interval: float) -> None:
    while True:
        await asyncio.sleep(interval)
        file.write()


def correct_exit_code(started: StartedSession, exit_code: int) -> None:
    """Puts the exit code of the process into the file, where a score below its bound has changed it after the end."""
    spec = started.prepared.spec
    if spec.runner.progress_file is None:
        return
    path = Path(spec.locate(spec.runner.progress_file))
    # What could not be written was named at the session's end; another session may have the file by now.
    with contextlib.suppress(OSError, ValueError):
        found = msgspec.json.decode(path.read_bytes())
        if isinstance(found, dict) and found.get("session") == started.session.number:
            _write_whole(path, _formatted({**found, "exit_code": exit_code}))


def _formatted(content: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def _write_whole(path: Path, data: bytes) -> None:
    # A link is followed, and a device or a pipe is not replaced by a file.
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it exists and is not a regular file")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


class ProgressFile:
    """One such file."""

    def __init__(self, path: Path, progress: Progress, failures: ToleratedFailures) -> None:
        self._path, self._progress, self._failures = path, progress, failures
        self._started_at = utc_timestamp()
        self._has_ended = False

    def write(self) -> None:
        """Writes the present state."""
        if not self._has_ended:
            counts = self._progress.state_counts(not_ended=RUNNING)
            self._replace({"state": "running", "ended_as": None, "exit_code": None}, counts)

    def session_ended(self, event: SessionEnded) -> None:
        """Writes how the session has ended; nothing is written after that."""
        self.write_end(event.ended_as, event.exit_code, event.counts)

    def write_end(self, ended_as: str, exit_code: int, counts: StateCounts) -> None:
        """The same, for a session that is given up before its end."""
        self._has_ended = True
        state = "complete" if counts.is_complete else "incomplete"
        self._replace({"state": state, "ended_as": ended_as, "exit_code": exit_code}, counts)

    def _replace(self, state: dict[str, Any], counts: StateCounts) -> None:
        try:
            _write_whole(self._path, _formatted(self._content(state, counts)))
        except (OSError, ValueError) as error:
            # A name with a NUL, say, or no name at all is a ValueError.
            self._failures.note(str(self._path), error if isinstance(error, OSError) else str(error))

    def _content(self, state: dict[str, Any], counts: StateCounts) -> dict[str, Any]:
        progress, label = self._progress, self._progress.label
        about = {"schema_version": SCHEMA_VERSION, "run": label.place, "id": label.run, "name": label.name}
        times = {"session": label.session, "started_at": self._started_at, "updated_at": utc_timestamp()}
        return {
            **about,
            **times,
            **state,
            **msgspec.structs.asdict(counts),
            "running": progress.active,
            "paused": progress.lease_text() or None,
            "rate": round(progress.rate(), 3),
            "eta_seconds": _rounded(progress.eta_seconds()),
            "calls": self._calls(),
            "usage": msgspec.structs.asdict(sum(progress.shares().values(), Usage())),
            "cost": progress.cost,
            "tasks": self._tasks(),
        }

    def _calls(self) -> dict[str, int]:
        counts, tally = self._progress.counts, self._progress.tally
        return {
            "made": counts.made,
            "replayed": counts.replayed,
            "in_flight": tally.in_flight,
            "retries": counts.retries,
        }

    def _tasks(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for group in self._progress.groups.values():
            found.setdefault(group.task, {})[group.model] = self._group(group)
        return found

    def _group(self, group: GroupProgress) -> dict[str, Any]:
        now, is_paused = self._progress.working_now(), self._progress.is_paused
        return {
            "planned": group.planned,
            "finished": group.done,
            "failed": group.failed,
            "unfinished": group.unfinished,
            "rate": 0.0 if is_paused else round(group.rate(now), 3),
            "eta_seconds": None if is_paused else _rounded(group.eta_seconds(now)),
            "scores": {name: {"mean": mean, "n_trials": count} for name, (mean, count) in group.scores().items()},
            "tokens": group.tokens,
            "cost": group.cost(self._progress.prices),
            "retries": group.retries,
        }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
