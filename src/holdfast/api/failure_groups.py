"""Why trials remain, with equal errors counted: "3 trials with the error ValueError: my bug (bug.py:4)"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from holdfast.api.failure_text import failure_line
from holdfast.api.trial_results import TrialResults
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.rows.trial_row import INTERRUPTED, NOT_SCORED, TASK_ERROR
from holdfast.run.fold.run_fold import FoldedTrial, RunFold
from holdfast.run.fold.states import RUNNING, State, reason_text

_TIMES = "\N{MULTIPLICATION SIGN}"
_READ = 500
"""The errors of this many trials are read: more would take long, and say little more."""
_SHOWN_GROUPS = 5
_SHOWN_CHARACTERS = 300
_DISABLED = " is disabled for this session. "
_WITHOUT_ERROR = {INTERRUPTED, NOT_SCORED, RUNNING}


class FailureGroup(NamedTuple):
    """Trials that remain for the same reason and with the same error."""

    trials: int
    reason: str
    """As in `remaining_by_reason`."""
    error: str
    """In one line; empty where none is on record."""

    def __str__(self) -> str:
        # That a model is disabled is said by the reason.
        error = self.error.partition(_DISABLED)[2] or self.error
        if error and self.reason == TASK_ERROR:
            return error
        return f"{reason_text(self.reason)}: {error}" if error else reason_text(self.reason)


def failure_groups(reader: RunReader) -> list[FailureGroup]:
    """The trials that have failed or got no reply, most frequent first; of very many trials, the first few hundred."""
    results, trials = TrialResults(reader), islice(_with_errors(reader.fold), _READ)
    found = Counter((trial.standing.reason, _error_line(results, trial)) for trial in trials)
    groups = [FailureGroup(count, reason, error) for (reason, error), count in found.items()]
    return sorted(groups, key=lambda group: (-group.trials, group.reason, group.error))


def failure_lines(groups: Sequence[FailureGroup]) -> Iterator[str]:
    """Each error once, with the number of its trials, and how many other errors there are."""
    for group in groups[:_SHOWN_GROUPS]:
        text = str(group)
        cut = text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
        yield f"  {group.trials} {_TIMES} {cut}"
    if others := groups[_SHOWN_GROUPS:]:
        trials, errors = sum(group.trials for group in others), len(others)
        yield f"  {trials} {_TIMES} " + ("another error" if errors == 1 else f"{errors} other errors")


def _with_errors(fold: RunFold) -> Iterator[FoldedTrial]:
    planned = {(entry.task, entry.model) for entry in fold.plan}
    for trial in fold.trials(State.FAILED, State.UNFINISHED):
        standing = trial.standing
        if standing.reason not in _WITHOUT_ERROR and standing.group[:2] in planned:
            yield trial


def _error_line(results: TrialResults, trial: FoldedTrial) -> str:
    error = results.row(trial, with_sample=False).error
    return " ".join(failure_line(error).split()) if error is not None else ""
