"""A run of which nothing is owed: the gate looks at it like at any other, and no session is opened.

What it says then is the same as before; only a `config.yaml` that is missing or behind is written again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from holdfast.engine.opening.examine_live import examine_beside_session
from holdfast.engine.opening.resume_plan import ResumePlan
from holdfast.engine.opening.start import last_session
from holdfast.engine.trials.history import blocked_trials
from holdfast.errors import RunHeld, StorageFailure, UsageError
from holdfast.run.core.config_file import write_config
from holdfast.run.core.reader import RunReader
from holdfast.run.fold.remaining_trials import trials_missing_scores
from holdfast.spec import EvalSpec
from holdfast.spec.compare import Difference
from holdfast.storage import take_lease
from holdfast.tasks import Task


class Complete(NamedTuple):
    """What there is to say of a run of which nothing is owed."""

    planned: int
    blocked: int
    kept: list[Difference]
    """Where less is offered than the run has."""
    note: str


def complete_run(
    root: Path, offered: EvalSpec | None = None, tasks: Mapping[str, Task] | None = None
) -> Complete | None:
    """What there is to say if every planned trial is finished, and what is offered changes nothing; else None.

    Raises:
        NotARun: there is no run at `root`.
        ResumeAborted: it may not go on with what is offered.
    """
    reader = RunReader(root)
    try:
        planned = last_session(reader).planned
        finished = reader.finished_count - len(trials_missing_scores(reader))
        if not 0 < planned <= finished:
            return None
        passage = _examined(reader, offered, tasks)
        if passage is None:
            return Complete(planned, blocked_trials(reader), [], "")
        passage.inputs.close()
        if passage.decision.changes:
            return None
        if passage.note:
            _write_config(reader)
        return Complete(planned, blocked_trials(reader), passage.decision.kept, passage.note)
    finally:
        reader.close()


def _examined(reader: RunReader, offered: EvalSpec | None, tasks: Mapping[str, Task] | None) -> ResumePlan | None:
    try:
        return examine_beside_session(reader, offered, tasks)
    except UsageError:
        if offered is not None:
            raise
        # A task's code or a library is not there any more; the run is complete without it.
        return None


def _write_config(reader: RunReader) -> None:
    """Writes the file unless somebody else is at it; it is derived, and the next session writes it."""
    with contextlib.suppress(OSError, RunHeld, StorageFailure):
        lease = take_lease(reader.fs, reader.layout.root)
        try:
            write_config(reader.fs, reader.layout.config, reader.sessions)
        finally:
            lease.release()
