"""The table of figures per axis value: a row for each value and scorer, in the width of a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.analysis.axes.axis_figures import AxisFigures, AxisReport, AxisTimes, Durations, ScoreFigures
from holdfast.analysis.money import money_text
from holdfast.analysis.text_table import plain_name, text_table
from holdfast.terminal.text import duration_text

_NONE = "-"
_NAMES = ["axis", "scorer"]
_FIGURES = ["pass", "valid", "median", "spread", "same", "tokens", "time"]
_COSTS = ["cost", "per pass"]


def figure_lines(title: str, report: AxisReport, times: AxisTimes | None, currency: str, width: int) -> list[str]:
    """The table of one task and model, below its title."""
    has_cost = report.overall.cost is not None
    rows = list(_rows(report, times, currency, has_cost=has_cost))
    header = [*_NAMES, *_FIGURES, *(_COSTS if has_cost else [])]
    # A column without any figure would only take the room of the names.
    names = len(_NAMES)
    told = [at for at in range(len(header)) if at < names or {row[at] for row in rows} - {"", _NONE}]
    cells = [[row[at] for at in told] for row in [header, *rows]]
    return [f"{title}, by axis:", *text_table(cells[0], cells[1:], names, width)]


def _rows(report: AxisReport, times: AxisTimes | None, currency: str, *, has_cost: bool) -> Iterator[list[str]]:
    for axis, values in report.axes.items():
        for value, figures in values.items():
            time = _time_text(times.axes[axis][value] if times is not None else None)
            yield from _value_rows(plain_name(f"{axis}={value}"), figures, time, currency, has_cost=has_cost)
    overall = _time_text(times.overall if times is not None else None)
    yield from _value_rows("all", report.overall, overall, currency, has_cost=has_cost)


def _time_text(times: Durations | None) -> str:
    return _NONE if times is None or times.median is None else duration_text(times.median)


def _value_rows(name: str, figures: AxisFigures, time: str, currency: str, *, has_cost: bool) -> Iterator[list[str]]:
    """What is not of the scorer is printed once."""
    tokens = figures.usage.input_tokens + figures.usage.output_tokens
    money = [_NONE if figures.cost is None else money_text(figures.cost, plain_name(currency))]
    valid, ends = _valid_text(figures), [f"{tokens:,}", time]
    for scorer, scores in figures.scores.items():
        per_pass = [_NONE if scores.cost_of_pass is None else money_text(scores.cost_of_pass, plain_name(currency))]
        costs = [*money, *per_pass] if has_cost else []
        share, *rest = _score_cells(scores)
        yield [name, plain_name(scorer), share, valid, *rest, *ends, *costs]
        name, valid, ends, money = "", "", ["", ""], [""]
    if not figures.scores:
        yield [name, _NONE, _NONE, valid, *[_NONE] * 3, *ends, *([*money, _NONE] if has_cost else [])]


def _valid_text(figures: AxisFigures) -> str:
    return f"{figures.valid}/{'?' if figures.planned is None else figures.planned}"


def _score_cells(scores: ScoreFigures) -> list[str]:
    found = (scores.pass_rate.value, scores.median, scores.spread, scores.consistency)
    return [_NONE if figure is None else f"{figure:.3g}" for figure in found]
