"""A run in which no trial remains: the gate checks it like any other, and no session is opened.

Nothing in it changes; only a `config.yaml` that is missing or out of date is written again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from holdfast.engine.opening.resume_plan import ResumePlan, plan_resume
from holdfast.engine.planning.saved_eval import last_session
from holdfast.engine.trials.history import blocked_trials
from holdfast.errors import RunHeld, StorageFailure, UsageError
from holdfast.run.core.config_file import write_config
from holdfast.run.core.reader import RunReader
from holdfast.run.fold.remaining_trials import trials_missing_scores
from holdfast.spec import EvalSpec
from holdfast.spec.compare import Difference
from holdfast.storage import take_lease
from holdfast.tasks import Task


class CompleteRun(NamedTuple):
    """What there is to say of a run in which no trial remains."""

    planned: int
    blocked: int
    kept: list[Difference]
    """Where less is offered than the run has."""
    note: str


def find_complete_run(
    root: Path, offered: EvalSpec | None = None, tasks: Mapping[str, Task] | None = None
) -> CompleteRun | None:
    """What there is to say if every planned trial is finished, and what is offered changes nothing; else None.

    Raises:
        NotARun: there is no run at `root`.
        ResumeAborted: it cannot be resumed with what is offered.
    """
    reader = RunReader(root)
    try:
        planned = last_session(reader).planned
        finished = reader.finished_count - len(trials_missing_scores(reader))
        if not 0 < planned <= finished:
            return None
        plan = _resume_plan(reader, offered, tasks)
        if plan is None:
            return CompleteRun(planned, blocked_trials(reader), [], "")
        plan.inputs.close()
        if plan.decision.changes:
            return None
        if plan.note:
            _rewrite_config(reader)
        return CompleteRun(planned, blocked_trials(reader), plan.decision.kept, plan.note)
    finally:
        reader.close()


def _resume_plan(reader: RunReader, offered: EvalSpec | None, tasks: Mapping[str, Task] | None) -> ResumePlan | None:
    try:
        return plan_resume(reader, offered, tasks)
    except UsageError:
        if offered is not None:
            raise
        # A task's code or a library no longer exists here; the run is complete without it.
        return None


def _rewrite_config(reader: RunReader) -> None:
    """Writes the file unless another process holds the run; it is derived, and the next session writes it."""
    with contextlib.suppress(OSError, RunHeld, StorageFailure):
        lease = take_lease(reader.fs, reader.layout.root)
        try:
            write_config(reader.fs, reader.layout.config, reader.sessions)
        finally:
            lease.release()
