"""Data frames of a run, for pandas and polars alike: one complete row for each trial, or for each step.

Columns are flat, and each has one type. Scores, axes and metadata have a column for every name, with a prefix. A value
that is no text, number or truth value (a list of messages, a map) is JSON text, and so is every value of a column that
would otherwise hold several types. What is missing is missing in the way of the library.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from holdfast.api.trial_results import TrialResult
from holdfast.engine.trials.scopes import scope_in_key
from holdfast.errors import UsageError
from holdfast.models.message import Usage
from holdfast.run.core.records import CANDIDATE, CHOICE, Failure, StepRecord
from holdfast.run.fold.candidate import coordinates
from holdfast.run.fold.run_fold import FoldedTrial
from holdfast.run.where.clause import Names

Rows = Literal["trials", "steps"]
AXIS, METADATA, SCORE = "axis.", "metadata.", "score."
_USAGE = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")
_TRIAL_COLUMNS = (
    *("trial", "task", "model", "sample", "epoch", AXIS, "state", "reason", "input", "target", METADATA, "answer"),
    *(SCORE, "attempt", "attempts", *_USAGE, "cost", "seconds", "transcript", "error_kind", "error"),
)
_STEP_COLUMNS = (
    *("trial", "task", "model", "sample", "epoch", AXIS, "attempt", "scope", "name", "kind", "called_model", "role"),
    *("request", "reply", *_USAGE, "tries", "at", "seconds", "source", "error_kind", "error", "step"),
)
_INTEGERS = frozenset({"epoch", "attempt", "attempts", "tries", *_USAGE})
_FLOATS = frozenset({"cost", "seconds", "at"})
_INFERRED = frozenset({"input", "target", METADATA})
_LARGEST_INTEGER = 2**63 - 1


def trial_row(trial: TrialResult) -> dict[str, Any]:
    """One trial as the cells of a row."""
    plain = {name: getattr(trial, name) for name in _TRIAL_COLUMNS if name in trial.__struct_fields__}
    return {
        **plain,
        "state": str(trial.state),
        **{f"{AXIS}{name}": value for name, value in trial.axes.items()},
        **{f"{METADATA}{name}": value for name, value in trial.metadata.items()},
        **{f"{SCORE}{name}": value for name, value in trial.scores.items()},
        **_usage_cells(trial.usage),
        **_error_cells(trial.error),
    }


def step_row(trial: FoldedTrial, step: StepRecord) -> dict[str, Any]:
    """One step as the cells of a row, with the trial that it belongs to."""
    about = coordinates(trial)
    return {
        "trial": trial.key,
        "task": about.task,
        "model": about.model,
        "sample": about.sample,
        "epoch": about.epoch,
        **{f"{AXIS}{name}": value for name, value in about.axes.items()},
        "attempt": step.attempt,
        "scope": scope_in_key(step.step),
        "name": step.name,
        "kind": _kind(step),
        "called_model": step.model or None,
        "role": str(step.role),
        "step": step.step,
        "request": _request_text(step.request),
        "reply": _reply_text(step.result),
        **_step_usage_cells(step),
        "tries": step.tries,
        "at": step.at,
        "seconds": step.seconds,
        "source": step.source or None,
        **_error_cells(_step_failure(step)),
    }


def _step_failure(step: StepRecord) -> Failure | None:
    """Why a step has no result, or what its function raised."""
    return step.error if step.raised is None else Failure(step.raised.class_name, step.raised.message)


def to_pandas(cells: Iterable[Mapping[str, Any]], rows: Rows, names: Names) -> Any:
    """A pandas data frame of rows; every axis and scorer in `names` has a column, whatever the rows have.

    Raises:
        UsageError: pandas is not installed.
    """
    pandas = _library("pandas")
    columns = _columns_of(cells, rows, names)
    series = {name: pandas.Series(values, dtype=_PANDAS[kind, None in values]) for name, kind, values in columns}
    return pandas.DataFrame(series)


def to_polars(cells: Iterable[Mapping[str, Any]], rows: Rows, names: Names) -> Any:
    """The same for polars.

    Raises:
        UsageError: polars is not installed.
    """
    polars = _library("polars")
    types = {"int": polars.Int64, "float": polars.Float64, "bool": polars.Boolean, "text": polars.String}
    columns = _columns_of(cells, rows, names)
    return polars.DataFrame([polars.Series(name, values, types[kind]) for name, kind, values in columns])


_PANDAS = {
    ("int", False): "int64",
    ("int", True): "Int64",
    ("float", False): "float64",
    ("float", True): "float64",
    ("bool", False): "bool",
    ("bool", True): "boolean",
    ("text", False): "string",
    ("text", True): "string",
}
"""The type of a column, by its kind and whether a value is missing."""


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UsageError(f"{name} is not installed.", hint=f"Install it with: pip install {name}") from None


def _columns_of(cells: Iterable[Mapping[str, Any]], rows: Rows, names: Names) -> Iterator[tuple[str, str, list[Any]]]:
    """The columns in their order, each with its kind and its values."""
    order = _TRIAL_COLUMNS if rows == "trials" else _STEP_COLUMNS
    found: dict[str, list[Any]] = {name: [] for name in _known_columns(order, names)}
    count = 0
    for row in cells:
        for name, value in row.items():
            column = found.setdefault(name, [])
            # A column that came late, or that rows before did not have, is filled up to this row.
            column.extend([None] * (count - len(column)))
            column.append(value)
        count += 1
    for name in sorted(found, key=lambda name: order.index(_group(name, order))):
        values = found[name] + [None] * (count - len(found[name]))
        yield name, *_typed(_group(name, order), values)


class TextColumns:
    """The columns of trials whose types do not depend on the rows: what a sample holds is text."""

    def __init__(self, names: Names) -> None:
        self.kinds = {name: _fixed_kind(name) for name in _in_order(_known_columns(_TRIAL_COLUMNS, names))}
        """By column, `int`, `float` or `text`."""

    def row(self, trial: TrialResult) -> dict[str, Any]:
        """One trial as cells of these types."""
        cells = trial_row(trial)
        cells["metadata"] = trial.metadata or None
        found = {name: cells.get(name) for name in self.kinds}
        return {name: _cell_text(found[name]) if kind == "text" else found[name] for name, kind in self.kinds.items()}


def _in_order(columns: Iterable[str]) -> list[str]:
    """The columns as a data frame has them, with the metadata as one."""
    order = _TRIAL_COLUMNS
    return [
        name.removesuffix(".")
        for name in sorted([*columns, METADATA], key=lambda name: order.index(_group(name, order)))
    ]


def _fixed_kind(name: str) -> str:
    if name in _INTEGERS:
        return "int"
    return "float" if name in _FLOATS or name.startswith(SCORE) else "text"


def _known_columns(order: tuple[str, ...], names: Names) -> Iterator[str]:
    """The columns that do not depend on the rows."""
    yield from (name for name in order if not name.endswith("."))
    yield from (f"{AXIS}{axis}" for axis in sorted(names.axes))
    if SCORE in order:
        yield from (f"{SCORE}{scorer}" for scorer in sorted(names.scorers))


def _group(name: str, order: tuple[str, ...]) -> str:
    """The column itself, or the prefix that it belongs to."""
    return name if name in order else f"{name.partition('.')[0]}."


def _typed(group: str, values: list[Any]) -> tuple[str, list[Any]]:
    if group in _INTEGERS:
        return "int", values
    if group in _FLOATS or group == SCORE:
        return "float", values
    kind = _common_kind(values) if group in _INFERRED else "text"
    return kind, [_cell_text(value) for value in values] if kind == "text" else values


def _common_kind(values: list[Any]) -> str:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return "bool"
    if kinds == {int}:
        is_small = all(value is None or abs(value) <= _LARGEST_INTEGER for value in values)
        return "int" if is_small else "text"
    return "float" if kinds in ({float}, {int, float}) else "text"


def _cell_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _usage_cells(usage: Usage) -> dict[str, int]:
    return {name: getattr(usage, name) for name in _USAGE}


def _step_usage_cells(step: StepRecord) -> Mapping[str, int | None]:
    """The tokens of a step: 0 where it calls no model, unknown for a call without a reply or without usage."""
    if step.is_unmetered:
        return dict.fromkeys(_USAGE)
    return _usage_cells(step.usage or Usage())


def _error_cells(error: Failure | None) -> dict[str, str | None]:
    return {"error_kind": error.kind if error else None, "error": error.message if error else None}


def _kind(step: StepRecord) -> str:
    if step.name in {CANDIDATE, CHOICE} and not step.model:
        return step.name
    return "call" if step.model else "step"


def _request_text(request: Any) -> str | None:
    """What was added to the conversation, or the arguments of a step."""
    messages = request.get("messages") if isinstance(request, dict) else None
    if not isinstance(messages, list):
        return None if request is None else _cell_text(request)
    return "\n".join(_message_line(message) for message in messages)


def _message_line(message: Any) -> str:
    content = message.get("content") if isinstance(message, dict) else None
    return f"{message.get('role')}: {content}" if isinstance(content, str) else str(_cell_text(message))


def _reply_text(result: Any) -> str | None:
    """The text of a reply; what is more than text, and the result of a step, is JSON."""
    text = result.get("text") if isinstance(result, dict) else None
    return text if isinstance(text, str) and text else _cell_text(result)
