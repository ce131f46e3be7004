"""Tasks that `fail_fast` has stopped or is checking, by the notes that its decisions leave in the journal.

A decision is durable before it takes effect, so that whoever resumes the run decides by the record. Of several notes
about a task the newest counts; one valid trial of the task outweighs them all.
"""

import enum
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from holdfast.run.core.records import NoteRecord

FAIL_FAST = "fail fast"
"""The kind of these notes."""


class WatchStep(enum.StrEnum):
    """What was decided about a task."""

    CHECKING = "checking"
    """Its first trials failed alike: a few others are tried, one at a time."""
    STOPPED = "stopped"
    """Those failed alike too: nothing more of the task is started."""
    LIFTED = "lifted"
    """Its trials do not all fail alike: it runs like any other."""
    REDO = "redo"
    """Some of its trials are run again, and the watch starts anew."""


class TaskDecision(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a note."""

    task: str
    step: WatchStep
    error: str = ""
    """The error as people read it, with the line of the task's own code."""
    trials: int = 0
    """How many trials had ended with it."""
    since: int = 0
    """The first session whose ends count for it: a redo starts anew."""

    def as_note(self) -> NoteRecord:
        """The note, to be recorded."""
        return NoteRecord(kind=FAIL_FAST, text=_TEXTS[self.step].format(self), data=self)


_TEXTS = {
    WatchStep.CHECKING: "{0.task}: {0.trials} trials failed alike; others are tried one at a time: {0.error}",
    WatchStep.STOPPED: "{0.task}: stopped; {0.trials} trials failed with the same error: {0.error}",
    WatchStep.LIFTED: "{0.task}: its trials do not all fail alike",
    WatchStep.REDO: "{0.task}: failed trials are run again",
}


class TaskStop(NamedTuple):
    """A task of which nothing more is started."""

    task: str
    error: str
    trials: int
    """How many of its trials have failed with the error."""


def newest_decisions(notes: Iterable[NoteRecord]) -> dict[str, TaskDecision]:
    """The newest decision about every task, given the notes of a run in order."""
    found: dict[str, TaskDecision] = {}
    for note in notes:
        if note.kind == FAIL_FAST and (decision := _decoded(note)) is not None:
            found[decision.task] = decision
    return found


def _decoded(note: NoteRecord) -> TaskDecision | None:
    try:
        return msgspec.convert(note.data, TaskDecision)
    except msgspec.ValidationError:
        # A later version may record more, in another form.
        return None
