"""The code behind a task, as digests that a later session compares."""

from __future__ import annotations

from hashlib import blake2b

from holdfast.run.records import TaskCode
from holdfast.tasks.ingest import canonical_json
from holdfast.tasks.solver import REVISION, Generate
from holdfast.tasks.source import source_files
from holdfast.tasks.task import Task


def code_of(task: Task) -> TaskCode:
    """What a task's answers and scores rest on, apart from its configuration."""
    built_in = isinstance(task.solve, Generate)
    files = {path.name for item in (task.solve, *task.scorers) for path in source_files(item)}
    return TaskCode(
        name=getattr(task.solve, "__qualname__", type(task.solve).__name__),
        solver=f"generate {REVISION}" if built_in else task.source,
        scorers={scorer.name: _digest(scorer.identity()) for scorer in task.scorers},
        files=sorted(files),
    )


def _digest(identity: dict[str, object]) -> str:
    return blake2b(canonical_json(identity), digest_size=16).hexdigest()
