"""The list of trials: a row for each, with what was asked, expected, answered and scored.

Where a trial has an error, it is in a line of its own below the row.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.analysis.failure_groups import in_the_past
from holdfast.api.trial_results import TrialResult
from holdfast.cli.ui.table import Column, table_lines
from holdfast.models.reasoning_text import without_reasoning
from holdfast.run.fold.states import State
from holdfast.terminal.width import cut, one_line

_STATE_COLOURS = {"valid": "green", "limited": "yellow", "blocked": "yellow", "failed": "red", "unfinished": "yellow"}
_SCORE_COLUMNS = 4
"""More scorers than these share one column."""
_SCORER_CHARACTERS = 12
_SHOWN_CHARACTERS = 1000
_STATE_CHARACTERS = 16
_WIDE = 80
"""From this many columns on, why a trial is unfinished is not cut: "unfinished (model disabled)"."""


class ListedTrial(NamedTuple):
    """A trial in the list, and the reference that it is named by."""

    label: str
    result: TrialResult


def trial_table(trials: Sequence[ListedTrial], width: int, *, wrong_first: bool = False) -> list[str]:
    """The lines of the list; with `wrong_first`, a cell with many scores begins with those below 1."""
    scorers = _scorers_with_a_column(trials)
    columns = [
        Column("trial", most=width // 3, is_name=True),
        Column("state", is_flexible=True, least=_state_columns(trials, width), colours=_STATE_COLOURS),
        *([Column(one_line(name, _SCORER_CHARACTERS), is_number=True) for name in scorers] or [_all_scores(trials)]),
        *(Column(title, is_flexible=True, is_optional=True, is_prose=True) for title in ("input", "target", "answer")),
    ]
    header, *lines = table_lines(columns, [_cells(trial, scorers, wrong_first) for trial in trials], width)
    found = [header]
    for trial, line in zip(trials, lines, strict=True):
        found += [line, *_error_line(trial.result, width)]
    return found


def _state_columns(trials: Sequence[ListedTrial], width: int) -> int:
    """How wide the states are at least: why a trial is unfinished is in no other column."""
    reasons = [len(state_text(result)) for _, result in trials if result.state is State.UNFINISHED]
    return max([_STATE_CHARACTERS, *reasons]) if width >= _WIDE else _STATE_CHARACTERS


def _scorers_with_a_column(trials: Sequence[ListedTrial]) -> list[str]:
    """Who has a column: everybody, unless there are many, or each trial has a score of another scorer."""
    scorers = list(dict.fromkeys(name for _, result in trials for name in result.scores))
    most = max((len(result.scores) for _, result in trials), default=0)
    return scorers if len(scorers) == 1 or (most > 1 and len(scorers) <= _SCORE_COLUMNS) else []


def _all_scores(trials: Sequence[ListedTrial]) -> Column:
    has_several = any(len(result.scores) > 1 for _, result in trials)
    return Column("scores", is_flexible=True, least=16) if has_several else Column("score")


def _cells(trial: ListedTrial, scorers: Sequence[str], wrong_first: bool) -> list[str]:  # noqa: FBT001 - as above
    result = trial.result
    texts = [value_beginning(value) for value in (result.input, result.choice or result.target, _final(result))]
    return [trial.label, state_text(result), *_score_cells(result, scorers, wrong_first), *texts]


def _final(result: TrialResult) -> str | None:
    """The answer without the reasoning before it, which would fill the cell; where there is no more, the reasoning."""
    answer = result.answer
    return answer if answer is None else without_reasoning(answer).strip() or answer


def _score_cells(result: TrialResult, scorers: Sequence[str], wrong_first: bool) -> list[str]:  # noqa: FBT001 - as above
    if not scorers:
        # The cell may be cut, and why the trial is in the list must not be.
        by_score = sorted(result.scores.items(), key=lambda item: wrong_first and not _is_wrong(item[1]))
        return [" ".join(f"{name}={trial_score(value)}" for name, value in by_score)]
    return [trial_score(result.scores[name]) if name in result.scores else "" for name in scorers]


def _is_wrong(value: float | None) -> bool:
    return value is not None and value < 1


def state_text(result: TrialResult) -> str:
    """The state of a trial, and why."""
    return f"{result.state.value} ({result.reason})" if result.reason else result.state.value


def trial_score(value: float | None) -> str:
    """A score; a slot may be filled without one."""
    return "unscored" if value is None else f"{value:g}"


def value_beginning(value: Any) -> str:
    """The beginning of an input, a target or an answer; of several messages, the last one's."""
    if isinstance(value, list) and value and isinstance(value[-1], dict) and "content" in value[-1]:
        value = value[-1].get("parts") or value[-1]["content"]
    if value is None or isinstance(value, str):
        return (value or "")[:_SHOWN_CHARACTERS]
    return msgspec.json.encode(value)[:_SHOWN_CHARACTERS].decode(errors="ignore")


def _error_line(result: TrialResult, width: int) -> list[str]:
    if result.error is None:
        return []
    from holdfast.tasks.source.failure_text import failure_line  # noqa: PLC0415 - needed for failed trials only

    attempt = f"attempt {result.attempt}: " if result.attempt > 1 else ""
    return [cut(f"  {attempt}{one_line(in_the_past(failure_line(result.error)), _SHOWN_CHARACTERS)}", width)]
