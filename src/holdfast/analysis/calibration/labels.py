"""Labels of people: which answers of a run they pass.

A row names a trial (`trial`, or `sample` with `task`, `model` and `epoch` where they are needed) and has a `label`. It
is about all scorers of that trial, or about the one in `scorer`. Other columns are ignored, and so are rows whose label
is empty: they are still to be labelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.errors import ConfigurationError, UsageError
from holdfast.run.fold.run_fold import FoldedTrial, RunFold
from holdfast.run.trial_reference import TrialReferences
from holdfast.suggestions import suggest_or_list
from holdfast.tasks.datasets.formats import SUFFIXES, numbered_rows

_PASS, _FAIL = {"1", "1.0", "true", "pass", "yes", "correct"}, {"0", "0.0", "false", "fail", "no", "incorrect"}
_HOW = "Use pass or fail, true or false, yes or no, correct or incorrect, 1 or 0."
_ROW = 'A row is, for example, {"trial": "capitals/fr#1", "label": "pass"}.'
EVERY_SCORER = ""
"""The scorer of a label that names none."""


class Label(NamedTuple):
    """What a person says of an answer, and where."""

    passed: bool
    place: str
    """Its line in the file, in words."""


class Labels(NamedTuple):
    """All labels of a file."""

    by_trial: dict[str, dict[str, Label]]
    """By the key of the trial, then by scorer; the scorer is empty if it is about all."""
    groups: dict[str, tuple[str, str]]
    """By the key of the trial, its task and model."""
    unlabelled: int
    """Rows without a label."""

    def of(self, key: str, scorer: str) -> Label | None:
        """The label of a trial that is about this scorer."""
        labels = self.by_trial.get(key, {})
        return labels.get(scorer) or labels.get(EVERY_SCORER)

    def count_for(self, task: str, model: str, scorer: str) -> int:
        """How many trials of a task and model have a label that is about this scorer."""
        keys = (key for key, group in self.groups.items() if group == (task, model))
        return sum(self.of(key, scorer) is not None for key in keys)


class _Row(NamedTuple):
    place: str
    trial: str
    scorer: str
    passed: bool


def read_labels(path: Path, fold: RunFold, place: str) -> Labels:
    """The labels of a file, for the trials of a run; `place` names the run in errors.

    Raises:
        UsageError: the file cannot be read, or a row is not a label of one trial; it names the line.
    """
    rows, unlabelled = [], 0
    for place_in_file, row in _placed_rows(path):
        parsed = _label_row(row, place_in_file, path.name)
        unlabelled += parsed is None
        rows += [] if parsed is None else [parsed]
    if not rows:
        raise UsageError(f"{path.name} holds no labels.", hint=_ROW)
    return _resolved(rows, unlabelled, fold, place, path.name)


def _placed_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    form = SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise UsageError(
            f"--labels {path.name}: cannot infer the format from the file name.", hint="Use .jsonl, .json or .csv."
        )
    try:
        with path.open("rb") as stream:
            for number, row in numbered_rows(stream, form, path.name):
                yield f"{'row' if form == 'json' else 'line'} {number}", row
    except ConfigurationError as error:
        # The readers are those of datasets, and say so.
        raise UsageError(error.message.removeprefix("Dataset "), hint=error.hint) from None
    except OSError as error:
        raise UsageError(f"--labels {path}: {error.strerror or error}.") from None


def _label_row(row: Mapping[str, Any], place: str, name: str) -> _Row | None:
    """A row; None where it has no label yet."""
    if "label" not in row:
        raise _fault(name, place, "has no label", hint=suggest_or_list("label", set(row)))
    label = row["label"]
    if label is None or label == "":
        return None
    word = str(label).strip().lower()
    if not isinstance(label, str | bool | int | float) or word not in _PASS | _FAIL:
        raise _fault(name, place, f"has the label {label!r}, which is neither a pass nor a fail", hint=_HOW)
    return _Row(place, _reference(row, place, name), _column_text(row, "scorer", place, name), word in _PASS)


def _reference(row: Mapping[str, Any], place: str, name: str) -> str:
    """The text that names the trial."""
    if trial := _column_text(row, "trial", place, name):
        return trial
    sample, epoch = _column_text(row, "sample", place, name), _column_text(row, "epoch", place, name)
    if not sample:
        raise _fault(name, place, "names no trial", hint=_ROW)
    parts = [_column_text(row, "task", place, name), _column_text(row, "model", place, name), sample]
    return "/".join(filter(None, parts)) + (f"#{epoch}" if epoch else "")


def _column_text(row: Mapping[str, Any], column: str, place: str, name: str) -> str:
    value = row.get(column)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _fault(name, place, f"has {value!r} as its {column}, which is not a text")
    return str(value)


def _resolved(rows: list[_Row], unlabelled: int, fold: RunFold, place: str, name: str) -> Labels:
    references = TrialReferences(fold, place)
    known = references.find_many(row.trial for row in rows)
    found, groups = dict[str, dict[str, Label]](), dict[str, tuple[str, str]]()
    for row in rows:
        trial = known.get(row.trial) or _found(references, row, name)
        _check_scorer(row, trial, fold, name)
        labels = found.setdefault(trial.key, {})
        _check_repeated(row, labels, references.label(trial) if labels else "", name)
        labels[row.scorer] = Label(row.passed, row.place)
        groups[trial.key] = (trial.standing.group.task, trial.standing.group.model)
    return Labels(found, groups, unlabelled)


def _found(references: TrialReferences, row: _Row, name: str) -> FoldedTrial:
    try:
        return references.find(row.trial)
    except UsageError as error:
        raise UsageError(f"{name} {row.place}: {error.message}", hint=error.hint) from None


def _check_scorer(row: _Row, trial: FoldedTrial, fold: RunFold, name: str) -> None:
    if row.scorer == EVERY_SCORER:
        return
    known = {*fold.planned_scorers.get(trial.standing.group.task, ()), *fold.scores_of(trial.key)}
    if row.scorer not in known:
        what = f"names the scorer {row.scorer!r}, which the trial does not have"
        raise _fault(name, row.place, what, hint=suggest_or_list(row.scorer, known))


def _check_repeated(row: _Row, labels: Mapping[str, Label], trial: str, name: str) -> None:
    """One label for each trial and scorer; a label for all scorers is one for each of them."""
    for scorer, label in labels.items():
        if scorer != row.scorer and EVERY_SCORER not in (scorer, row.scorer):
            continue
        if label.passed == row.passed:
            raise _fault(name, row.place, f"labels {trial} again, after {label.place}", hint="Remove one of them.")
        first, second = ("pass", "fail") if label.passed else ("fail", "pass")
        what = f"labels {trial} as a {second}, and {label.place} as a {first}"
        raise _fault(name, row.place, what, hint="A trial has one label: where people disagree, settle on one first.")


def _fault(name: str, place: str, what: str, hint: str = "") -> UsageError:
    return UsageError(f"{name} {place} {what}.", hint=hint)
