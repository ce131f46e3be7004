"""Why trials remain, with equal errors counted: so many trials with the error "ValueError: my bug (bug.py:4)"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from holdfast.api.failure_text import failure_line
from holdfast.api.trial_results import TrialResults
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.rows.trial_row import INTERRUPTED, NOT_SCORED, TASK_ERROR
from holdfast.run.fold.run_fold import FoldedTrial, RunFold
from holdfast.run.fold.states import RUNNING, State, reason_text

_READ = 500
"""The errors of so many trials are read: more would take long, and say little more."""
_WITHOUT_ERROR = {INTERRUPTED, NOT_SCORED, RUNNING}


class FailureGroup(NamedTuple):
    """Trials that remain for the same reason and with the same error."""

    trials: int
    reason: str
    """As in `remaining_by_reason`."""
    error: str
    """In one line; empty where none is on record."""

    def __str__(self) -> str:
        if self.error and self.reason == TASK_ERROR:
            return self.error
        return f"{reason_text(self.reason)}: {self.error}" if self.error else reason_text(self.reason)


def failure_groups(reader: RunReader) -> list[FailureGroup]:
    """The trials that have failed or got no reply, most frequent first; of very many trials, the first few hundred."""
    results, trials = TrialResults(reader), islice(_with_errors(reader.fold), _READ)
    found = Counter((trial.standing.reason, _error_line(results, trial)) for trial in trials)
    groups = [FailureGroup(count, reason, error) for (reason, error), count in found.items()]
    return sorted(groups, key=lambda group: (-group.trials, group.reason, group.error))


def _with_errors(fold: RunFold) -> Iterator[FoldedTrial]:
    planned = {(entry.task, entry.model) for entry in fold.plan}
    for trial in fold.trials(State.FAILED, State.UNFINISHED):
        standing = trial.standing
        if standing.reason not in _WITHOUT_ERROR and standing.group[:2] in planned:
            yield trial


def _error_line(results: TrialResults, trial: FoldedTrial) -> str:
    error = results.row(trial, with_sample=False).error
    return " ".join(failure_line(error).split()) if error is not None else ""
