"""The table of scores that `run`, `resume` and `report` print: a row for each task, model and scorer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.analysis.metrics import Metric
from holdfast.analysis.money import money_text
from holdfast.analysis.report import GroupReport, TaskReports
from holdfast.analysis.text_table import fits, least_width, plain_name, text_table
from holdfast.run.core.display_text import list_text
from holdfast.run.core.slots.slot_names import VERSION_MARK, base_name

WIDTH = 80
_NONE = "-"
_NAMES = ["task", "model", "scorer"]
_FIGURES = ["score", "95% CI", "n"]
_OPTIONAL = ("cost", "95% CI", "failed", "left")
"""What goes first on a narrow terminal: the totals are below the table, and the counts above it."""


def score_table(tasks: TaskReports, currency: str, width: int = WIDTH) -> list[str]:
    """The lines of the table, and which version of a scorer is the newest; none where there is no task."""
    header, rows = score_rows(tasks, currency)
    return [*_table(header, rows, _NAMES, width), *version_lines(tasks)]


def version_lines(tasks: TaskReports) -> list[str]:
    """Where several versions of a scorer have scores: which of them is the newest."""
    groups = [group for models in tasks.values() for group in models.values()]
    earlier = sorted({name for group in groups for name in group.metrics if VERSION_MARK in name})
    if not earlier:
        return []
    names = list(dict.fromkeys(plain_name(base_name(name)) for name in earlier))
    newest = list_text(names)
    versions = "is the newest version" if len(names) == 1 else "are the newest versions"
    return [f"{newest} {versions}; names with {VERSION_MARK} are earlier versions."]


def score_rows(tasks: TaskReports, currency: str) -> tuple[list[str], list[list[str]]]:
    """The header and the rows; `cost` is left out where there is no price, `left` where no trial is left to run."""
    groups = [(task, model, group) for task, models in tasks.items() for model, group in models.items()]
    has_costs = any(group.cost is not None or group.has_price for _, _, group in groups)
    has_left = any(_left(group) for _, _, group in groups)
    header = [*_NAMES, *_FIGURES, *["cost"] * has_costs, "failed", *["left"] * has_left]
    rows = []
    for task, model, group in groups:
        counts = [str(group.coverage.failed), *[str(_left(group))] * has_left]
        ends = [*[_cost(group, currency)] * has_costs, *counts]
        for scored in _scorer_rows(group.metrics, group.without_scores or ()):
            rows.append([plain_name(task), plain_name(model), *scored, *ends])
            # They are of the task and model, and not of the scorer: printed once.
            ends = [""] * len(ends)
    return header, rows


def axis_table(tasks: TaskReports, width: int = WIDTH) -> list[str]:
    """The lines of a table with a row for each value on an axis; none where there are no axes."""
    rows = [
        [plain_name(task), plain_name(model), plain_name(f"{axis}={value}"), *scored]
        for task, models in tasks.items()
        for model, group in models.items()
        for axis, values in group.axes.items()
        for value, metrics in values.items()
        for scored in _scorer_rows(metrics)
    ]
    names = ["task", "model", "axis", "scorer"]
    return _table([*names, *_FIGURES], rows, names, width)


def _table(header: list[str], rows: list[list[str]], names: list[str], width: int) -> list[str]:
    """The table; where it is too wide, the names of metrics are the first to go."""
    if not rows:
        return []
    if not fits(header, rows, width):
        place = names.index("scorer")
        rows = [[*row[:place], row[place].rpartition(" ")[0] or row[place], *row[place + 1 :]] for row in rows]
    left_out = _columns_beyond(header, rows, len(names), width)
    kept = [place for place, title in enumerate(header) if title not in left_out]
    lines = text_table(
        [header[place] for place in kept], [[row[place] for place in kept] for row in rows], len(names), width
    )
    return [*lines, f"({', '.join(left_out)} left out)"] if left_out else lines


def _columns_beyond(header: list[str], rows: list[list[str]], names: int, width: int) -> list[str]:
    """The columns to leave out where the table is too narrow for all figures: never the score and its n."""
    left_out: list[str] = []
    for title in (title for title in _OPTIONAL if title in header):
        kept = [place for place, one in enumerate(header) if one not in left_out]
        shown = [[row[place] for place in kept] for row in (header, *rows)]
        if least_width(shown[0], shown[1:], names) <= width:
            break
        left_out.append(title)
    return left_out


def _scorer_rows(
    metrics: Mapping[str, Mapping[str, Metric]], without_scores: Sequence[str] = ()
) -> Iterator[list[str]]:
    """The scorer with the name of its metric, and its figures; a scorer that has given no score has none."""
    for scorer, named in metrics.items():
        for name, metric in named.items():
            yield [f"{plain_name(scorer)} {name}", *_figures(metric)]
    for scorer in without_scores:
        yield [plain_name(scorer), *[_NONE] * len(_FIGURES)]
    if not metrics and not without_scores:
        yield [_NONE] * 4


def _figures(metric: Metric) -> list[str]:
    # An interval has the digits of its score: 0.000589 beside 0.003 would look like another quantity.
    form = _score_form(metric.value)
    interval = _NONE if metric.interval is None else f"[{', '.join(format(end, form) for end in metric.interval)}]"
    return [score_text(metric.value), interval, str(metric.n_samples)]


def score_text(value: float) -> str:
    """A score in a few characters."""
    return format(value, _score_form(value))


def _score_form(value: float) -> str:
    return ".3g" if abs(value) >= 1000 or 0 < abs(value) < 0.001 else ".3f"


def _cost(group: GroupReport, currency: str) -> str:
    if group.cost is None:
        return _NONE
    return f"{'>=' if group.cost_is_lower_bound else ''}{money_text(group.cost, plain_name(currency))}"


def _left(group: GroupReport) -> int:
    """Trials that are neither finished nor failed."""
    return group.coverage.unfinished + group.coverage.not_started
