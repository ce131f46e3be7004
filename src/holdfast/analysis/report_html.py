"""A report as HTML for a notebook: the table of scores. Every text in it is escaped; names come from anywhere."""

from __future__ import annotations

import html
from collections.abc import Iterator

from holdfast.analysis.metrics import Metric
from holdfast.analysis.report import GroupReport, Report
from holdfast.analysis.report_text import coverage_text
from holdfast.terminal.text import printable

_HEADER = ("task", "model", "scorer", "score", "±", "n", "trials", "cost")


def report_html(report: Report) -> str:
    """The name of the run, how far it is, and a row for every task, model and scorer."""
    state = "complete" if report.complete else "incomplete"
    title = f"<b>{_escaped(report.name)}</b>: {state}, {_escaped(coverage_text(report.coverage))}"
    header = "".join(f"<th>{_escaped(name)}</th>" for name in _HEADER)
    rows = "".join(_row(cells) for cells in _table(report))
    notes = "".join(f"<div>{_escaped(note)}</div>" for note in report.notes)
    return f"<div>{title}</div><table><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>{notes}"


def run_html(report: Report, place: str) -> str:
    """The same, and where the run is."""
    return f"{report_html(report)}<code>{_escaped(place)}</code>"


def _table(report: Report) -> Iterator[list[str]]:
    for task, models in report.tasks.items():
        for model, group in models.items():
            end = [_trials_text(group), "" if group.cost is None else f"{group.cost:.4f}"]
            if not group.metrics:
                yield [task, model, "", "", "", "", *end]
            for scorer, metrics in group.metrics.items():
                for metric in metrics.values():
                    yield [task, model, scorer, *_metric_cells(metric), *end]


def _metric_cells(metric: Metric) -> list[str]:
    spread = "" if metric.stderr is None else f"{metric.stderr:.3f}"
    return [f"{metric.value:.3f}", spread, str(metric.n)]


def _trials_text(group: GroupReport) -> str:
    return f"{group.coverage.finished} of {group.coverage.planned}"


def _row(cells: list[str]) -> str:
    return f"<tr>{''.join(f'<td>{_escaped(cell)}</td>' for cell in cells)}</tr>"


def _escaped(text: str) -> str:
    return html.escape(printable(text))
