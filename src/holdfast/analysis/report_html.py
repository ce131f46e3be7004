"""A report as HTML for a notebook: the table of scores. Every text in it is escaped; names come from anywhere."""

from __future__ import annotations

import html
from collections.abc import Sequence

from holdfast.analysis.failure_groups import failure_lines
from holdfast.analysis.report import Report
from holdfast.analysis.report_text import coverage_text
from holdfast.analysis.score_table import score_rows
from holdfast.terminal.text import printable


def report_html(report: Report) -> str:
    """The name of the run, its progress, a row for every task, model and scorer, and why trials failed."""
    state = "complete" if report.complete else "incomplete"
    title = f"<b>{_escaped(report.name)}</b>: {state}, {_escaped(coverage_text(report.coverage))}"
    header, rows = score_rows(report.tasks, report.currency)
    body = "".join(_row("td", row) for row in rows)
    notes = "".join(f"<div>{_escaped(note)}</div>" for note in report.notes)
    errors = "".join(f"<div>{_escaped(line.strip())}</div>" for line in failure_lines(report.errors))
    table = f"<table><thead>{_row('th', header)}</thead><tbody>{body}</tbody></table>"
    return f"<div>{title}</div>{table}{errors}{notes}"


def run_html(report: Report, place: str) -> str:
    """The same, and where the run is."""
    return f"{report_html(report)}<code>{_escaped(place)}</code>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_escaped(cell)}</{tag}>' for cell in cells)}</tr>"


def _escaped(text: str) -> str:
    return html.escape(printable(text))
