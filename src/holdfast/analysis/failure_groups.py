"""Why trials remain, with equal errors counted: "3 trials with the error ValueError: my bug (bug.py:4)"."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from holdfast.models.errors import Rejected, Unavailable
from holdfast.run.core.records import Failure
from holdfast.run.fold.ends_on_record import deciding_end, error_on_record
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.rows.trial_row import INTERRUPTED, NOT_SCORED, TASK_ERROR
from holdfast.run.fold.run_fold import FoldedTrial, RunFold, Standing
from holdfast.run.fold.states import RUNNING, State, reason_text

_TIMES = "\N{MULTIPLICATION SIGN}"
_READ = 500
"""The errors of this many trials are read: more would take long, and say little more."""
_SHOWN_GROUPS = 5
_SHOWN_CHARACTERS = 300
_DISABLED = " is disabled for this session. "
_WITHOUT_ERROR = {INTERRUPTED, NOT_SCORED, RUNNING}


class FailureGroup(msgspec.Struct, frozen=True):
    """Trials that remain for the same reason and with equal errors."""

    trials: int
    reason: str
    """As in `remaining_by_reason`."""
    error: str
    """That of the first, in one line; empty where none is on record."""
    setting: str = ""
    """The key of the eval to change, with its value, if that is known."""
    is_refused: bool = False
    """Whether a server refused the requests, as it will again."""
    may_pass: bool = False
    """Whether waiting may cure it, although a setting may too: nothing answers at an address."""

    @property
    def is_stuck(self) -> bool:
        """Whether a resume without any change could only meet the same error."""
        return self.is_refused or (bool(self.setting) and not self.may_pass)

    def __str__(self) -> str:
        # That a model is disabled is said by the reason.
        error = self.error.partition(_DISABLED)[2] or self.error
        if error and self.reason == TASK_ERROR:
            return error
        return f"{reason_text(self.reason)}: {error}" if error else reason_text(self.reason)


def in_the_past(text: str) -> str:
    """The text of a recorded error: a model was disabled for a session that is over."""
    return text.replace(_DISABLED, " was disabled for that session. ", 1)


class Failures(msgspec.Struct, frozen=True):
    """The trials that have failed or got no reply, by their errors."""

    trials: int = 0
    """How many there are; of very many, only the errors of the first few hundred are read and grouped."""
    groups: list[FailureGroup] = []
    """The most frequent first."""

    @property
    def only(self) -> FailureGroup | None:
        """The one group that all of them are in, if there is one error."""
        group = self.groups[0] if len(self.groups) == 1 else None
        return group if group is not None and group.error and group.trials == self.trials else None


def read_failures(reader: RunReader) -> Failures:
    """Why trials of a run have failed or got no reply."""
    # Slow to load, and needed only where trials remain.
    from holdfast.tasks.source.failure_text import error_identity  # noqa: PLC0415

    standings = list(_with_errors(reader.fold))
    trials = islice(_trials_in(reader.fold, {standing.number for standing in standings}), _READ)
    found: dict[tuple[str, str], FailureGroup] = {}
    for trial in trials:
        error = error_on_record(reader, trial, deciding_end(reader, trial))
        equal = trial.standing.reason, error_identity(error) if error is not None else ""
        group = found.get(equal) or _new_group(trial.standing.reason, error)
        found[equal] = msgspec.structs.replace(group, trials=group.trials + 1)
    groups = list(found.values())
    groups.sort(key=lambda group: (-group.trials, group.reason, group.error))
    return Failures(sum(standing.trials for standing in standings), groups)


def failure_lines(failures: Failures) -> Iterator[str]:
    """Each error once, with the number of its trials, and how many other errors there are."""
    groups, read = failures.groups, sum(group.trials for group in failures.groups)
    if read < failures.trials:
        yield f"  Errors of the first {read} of {failures.trials} trials:"
    for group in groups[:_SHOWN_GROUPS]:
        text = str(group)
        cut = text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
        yield f"  {group.trials} {_TIMES} {cut}"
    if others := groups[_SHOWN_GROUPS:]:
        trials, errors = sum(group.trials for group in others), len(others)
        yield f"  {trials} {_TIMES} " + ("another error" if errors == 1 else f"{errors} other errors")


def _with_errors(fold: RunFold) -> Iterator[Standing]:
    """The states of trials of the plan that have an error on record."""
    planned = {(entry.task, entry.model) for entry in fold.plan}
    for standing in fold.standings.values():
        is_left = standing.state in {State.FAILED, State.UNFINISHED}
        if is_left and standing.reason not in _WITHOUT_ERROR and standing.group[:2] in planned:
            yield standing


def _trials_in(fold: RunFold, standings: set[int]) -> Iterator[FoldedTrial]:
    for trial in fold.trials(State.FAILED, State.UNFINISHED) if standings else ():
        if trial.standing.number in standings:
            yield trial


def _new_group(reason: str, error: Failure | None) -> FailureGroup:
    if error is None:
        return FailureGroup(0, reason, "")
    from holdfast.tasks.source.failure_text import failure_line  # noqa: PLC0415 - as above

    text = " ".join(failure_line(error).split())
    may_pass = error.kind == Unavailable.kind
    return FailureGroup(0, reason, text, error.setting, is_refused=error.kind == Rejected.kind, may_pass=may_pass)
