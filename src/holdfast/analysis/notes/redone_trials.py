"""Trials that were run again because of their results: their scores are not those of first attempts.

Who asks only the wrong answers again gives a model a second chance where it failed, and none where it was lucky. Such
a session leaves a note in the journal, and every new answer says what its trial was selected by.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from holdfast.run.core.records import BY_SCORES, REDO_NOTE, AnswerRecord
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.run_fold import FoldedTrial
from holdfast.terminal.text import quantity


class RedoneTrials(msgspec.Struct, frozen=True):
    """How many answers that count are those of trials that `--redo` has run again because of their results."""

    by_scores: int = 0
    by_other_results: int = 0
    """Selected by their status, cost, tokens or duration."""

    @property
    def trials(self) -> int:
        return self.by_scores + self.by_other_results

    def lines(self) -> list[str]:
        """A sentence about them; none if there are none."""
        if not self.trials:
            return []
        what = "results" if self.by_other_results else "scores"
        were, their = ("was", "its") if self.trials == 1 else ("were", "their")
        again = f"{quantity(self.trials, 'trial')} {were} run again because of {their} {what}"
        return [f"{again}: the scores above are not those of first attempts"]


def redone_trials(reader: RunReader) -> RedoneTrials:
    """Those of a run; only where a session has noted it are trials looked at."""
    if not any(note.kind == REDO_NOTE for _, note in reader.notes()):
        return RedoneTrials()
    planned = {(entry.task, entry.model) for entry in reader.fold.plan}
    found = Counter(
        _redone_by(reader, trial) for trial in reader.fold.answered_again() if trial.standing.group[:2] in planned
    )
    scores = found.pop(BY_SCORES, 0)
    return RedoneTrials(scores, found.total() - found[""])


def _redone_by(reader: RunReader, trial: FoldedTrial) -> str:
    """What a trial was selected by; empty if its answer is not from such an attempt."""
    records = (reader.read(placed.line) for placed in reader.lines_of(trial, "answer"))
    answers = [one for one in records if isinstance(one, AnswerRecord) and one.attempt == trial.row.answer_of]
    return answers[-1].redone_by if answers else ""
