"""Finished trials that were run again: their scores are not those of first attempts.

Who asks only the wrong answers again gives a model a second chance where it failed, and none where it was lucky; and
who names samples may have looked at their answers before. Such a session leaves a note in the journal, and every new
answer says what its trial was selected by.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from holdfast.run.core.records import BY_NAMES, BY_SCORES, REDO_NOTE, AnswerRecord, TrialRecord
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.run_fold import FoldedTrial
from holdfast.terminal.text import quantity


class RedoneTrials(msgspec.Struct, frozen=True):
    """How many results that count are those of finished trials that were run again, by what selected them."""

    by_scores: int = 0
    by_other_results: int = 0
    """Selected by their answer, status, cost, tokens or duration."""
    by_names: int = 0
    """Selected by nothing of their results: by task, model, sample, epoch and the like."""

    def lines(self) -> list[str]:
        """A sentence about those selected by results, and one about those selected by names, if there are any."""
        what = "results" if self.by_other_results else "scores"
        selected = {f"because of {{}} {what}": self.by_scores + self.by_other_results, "by name": self.by_names}
        return [_sentence(trials, why) for why, trials in selected.items() if trials]


def _sentence(trials: int, why: str) -> str:
    were, their = ("was", "its") if trials == 1 else ("were", "their")
    again = f"{quantity(trials, 'trial')} {were} run again {why.format(their)}"
    return f"{again}: the scores above are not those of first attempts"


def redone_trials(reader: RunReader) -> RedoneTrials:
    """Those of a run; only where a session has noted it are trials looked at."""
    if not any(note.kind == REDO_NOTE for _, note in reader.notes()):
        return RedoneTrials()
    planned = {(entry.task, entry.model) for entry in reader.fold.plan}
    found = Counter(
        _redone_by(reader, trial) for trial in reader.fold.attempted_again() if trial.standing.group[:2] in planned
    )
    scores, names = found.pop(BY_SCORES, 0), found.pop(BY_NAMES, 0)
    return RedoneTrials(scores, found.total() - found[""], names)


def _redone_by(reader: RunReader, trial: FoldedTrial) -> str:
    """What a trial was selected by; empty if its answer is not from such an attempt."""
    records = (reader.read(placed.line) for placed in reader.lines_of(trial, "answer"))
    answers = [one for one in records if isinstance(one, AnswerRecord) and one.attempt == trial.row.answer_of]
    if answers and (redone_by := answers[-1].redone_by):
        return redone_by
    # Its answer may be that of the first attempt, and only its scores are not.
    ends = (reader.read(placed.line) for placed in reader.lines_of(trial, "trial"))
    own = [one.redone_by for one in ends if isinstance(one, TrialRecord) and one.attempt == trial.row.counted]
    return own[-1] if own else ""
