"""The plan of a run's next session, or the fact that there is nothing to run.

Nothing remains, or nothing but trials that have failed and are run again on request only. The gate checks such a run
like any other, and no session is opened. Nothing in it changes; only a `config.yaml` that is missing or out of date is
rewritten.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from holdfast.engine.opening.comparing.offer import Offer
from holdfast.engine.opening.restored_inputs import InputRestorer
from holdfast.engine.opening.resume_plan import ResumePlan, plan_resume
from holdfast.engine.planning.saved_eval import last_session
from holdfast.engine.trials.stages.cleaning import has_left_trials
from holdfast.errors import PAUSED_EXIT_CODE, RunHeld, StorageFailure, UsageError
from holdfast.run.core.config_file import write_config
from holdfast.run.core.display_text import shell_word
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.states import StateCounts
from holdfast.spec.compare import Difference
from holdfast.storage import take_lease
from holdfast.tasks.task import Task


class CompleteRun(NamedTuple):
    """What is reported about a run in which there is nothing to run."""

    counts: StateCounts
    kept: list[Difference]
    """Where less is offered than the run has."""
    note: str
    place: str = ""
    """How a person names the run: its directory or its URL."""
    selected: int | None = None
    """How many trials were selected, if only some were, and none of those is run."""
    blocked: int = 0
    """How many of those are blocked."""
    failed: int = 0
    """How many of those have failed, or belong to a task that was stopped."""
    rescoring: bool = False
    """Whether answers were to be scored, and no score was missing."""
    until: str = ""
    """The stage after which trials were to be left, where all that remain were left there before."""
    paused: int = 0
    """How many those are."""
    left_out: int = 0
    """How many answers lack a score and belong to models or tasks that the eval leaves out."""
    code_notes: Sequence[str] = ()
    """What a person should know of how its code was compared."""

    @property
    def left(self) -> int:
        """How many trials remain that a resume does not run, of those selected."""
        return self.counts.remaining if self.selected is None else self.failed

    @property
    def exit_code(self) -> int:
        if self.paused and not self.counts.failed:
            return PAUSED_EXIT_CODE
        return int(self.left + (self.counts.blocked if self.selected is None else self.blocked) > 0)


def plan_unless_complete(
    reader: RunReader, offer: Offer | None, tasks: Mapping[str, Task] | None, *, is_selected: bool = False
) -> ResumePlan | CompleteRun:
    """What the next session would do; or, where it would run nothing and change nothing, what there is to report.

    The files of the plan are gone: the session plans again, under its lease.

    Raises:
        NotARun: no session record is left.
        ResumeAborted: the run cannot be resumed with what is offered.
    """
    # Of a complete run too, trials may be selected to be run once more.
    is_finished = _has_nothing_to_run(reader) and not is_selected
    try:
        plan = plan_resume(reader, offer, tasks)
    except UsageError as error:
        if not is_finished or offer is not None:
            raise
        # A task's code or a library no longer exists here; nothing would be run with it.
        why = error.message.partition("\n")[0]
        note = f"The eval was not compared, and nothing is left to run: {why}"
        return _complete_run(reader, [], "")._replace(code_notes=[note])
    with contextlib.closing(plan.inputs):
        if not is_finished or plan.decision.changes or has_left_trials(reader.fold, plan.tasks):
            return plan
        notes = [*([plan.note] if plan.note else []), *_put_right(reader, plan)]
    return _complete_run(reader, plan.decision.kept, " ".join(notes))._replace(code_notes=plan.decision.notes)


def _has_nothing_to_run(reader: RunReader) -> bool:
    """Whether a resume runs nothing of what the last session planned."""
    last_session(reader)
    counts = reader.fold.counts
    return counts.planned > 0 and counts.to_run == 0


def _complete_run(reader: RunReader, kept: list[Difference], note: str) -> CompleteRun:
    told = [note] if note else []
    if reader.fold.counts.is_complete and any(damage.is_loss for damage in reader.damage()):
        repair = f"holdfast repair {shell_word(reader.place)}"
        told.append(f"The journal is damaged, and nothing remains to do because of it; `{repair}` notes that.")
    return CompleteRun(reader.fold.counts, kept, " ".join(told))


def _put_right(reader: RunReader, plan: ResumePlan) -> Iterator[str]:
    """Writes what is derived, or can be made again, unless another process holds the run: the next session does."""
    restorer = InputRestorer(reader, plan.inputs, plan.decision.spec, plan.tasks)
    known = last_session(reader).inputs
    if not plan.note and not restorer.damaged(known):
        return
    with contextlib.suppress(OSError, RunHeld, StorageFailure):
        lease = take_lease(reader.fs, reader.layout.root)
        try:
            if plan.note:
                write_config(reader.fs, reader.layout.config, reader.sessions)
            yield from restorer.restore(known, lease.check)
        finally:
            lease.release()
