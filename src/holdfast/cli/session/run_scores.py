"""The scores at the end of `run` and `resume`: read from the journal, as `report` reads them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import click

from holdfast.analysis.fail_under import ScoreBound, compare_bounds
from holdfast.analysis.ledger import Ledger, session_ledger
from holdfast.analysis.report import GroupReport, Report, make_report
from holdfast.analysis.report_text import coverage_text
from holdfast.analysis.score_table import score_table
from holdfast.analysis.text_table import plain_name
from holdfast.cli.ui.options.fail_under_option import bound_failures
from holdfast.cli.ui.output_text import output_columns
from holdfast.cli.ui.standard_streams import say
from holdfast.errors import HoldfastError
from holdfast.journal.index.database import INDEX_ERRORS
from holdfast.run.confirmed_results import open_results
from holdfast.run.core.records import PlanEntry, SessionRecord
from holdfast.run.core.task_stops import TaskStop
from holdfast.run.locate import find_run
from holdfast.terminal.text import printable


class RunScores(NamedTuple):
    """What a run has measured so far, and why trials of it remain."""

    report: Report
    plan: list[PlanEntry]
    first_session: SessionRecord | None
    stops: list[TaskStop]
    ledger: Ledger
    """Of the session that has just ended."""
    may_be_deleted: bool
    """Whether deleting the run loses no result."""

    def print_table(self) -> None:
        """Prints the scores, and below them what a reader of them has to know."""
        notes = [f"note: {printable(note)}" for note in self.report.notes]
        if lines := [*self._table_lines(), *self._unscored_lines(), *notes]:
            click.echo("\n".join([*lines, ""]))

    def _unscored_lines(self) -> Iterator[str]:
        """Which answers judges have left without a score, and why: the table has only a dash for them."""
        for task, models in self.report.tasks.items():
            for model, group in models.items():
                for name, panel in (group.panels or {}).items():
                    from holdfast.analysis.agreement.panel_text import unscored_lines  # noqa: PLC0415 - few have judges

                    where = f"{plain_name(task)} · {plain_name(model)}"
                    yield from (f"{where}: {line}" for line in unscored_lines(name, panel))

    def _table_lines(self) -> list[str]:
        """The table, and above it how many trials it is over if that is not all; nothing without scores."""
        report, planned = self.report, self.report.coverage.planned
        scored = sum(_scored_trials(group) for models in report.tasks.values() for group in models.values())
        if not scored:
            return []
        table = score_table(report.tasks, report.currency, output_columns())
        if scored == planned:
            # A scorer that failed leaves the run incomplete, although another one has scored every trial.
            return table if report.complete else [f"{report.state}: {coverage_text(report.coverage)}", *table]
        state = "" if report.complete else f"{report.state}: "
        return [f"{state}scores over {scored} of {planned} trials", *table]


def _scored_trials(group: GroupReport) -> int:
    return max((metric.n_trials for named in group.metrics.values() for metric in named.values()), default=0)


def read_scores(place: str, session: int = 0) -> RunScores | None:
    """The scores of a run whose session is over; None, with a note, if they cannot be read.

    `session` is the number of the one that has just ended, if there was one.
    """
    try:
        with contextlib.closing(open_results(find_run(place))) as reader:
            first = reader.sessions[0] if reader.sessions else None
            stops = list(reader.fold.stopped.values())
            ledger = session_ledger(reader, session)
            return RunScores(make_report(reader), reader.fold.plan, first, stops, ledger, reader.may_be_deleted())
    except KeyboardInterrupt:
        # The session is over, and all that it did is durable: only the table is left out.
        return None
    except (HoldfastError, OSError, *INDEX_ERRORS) as error:
        say(f"note: the scores could not be read: {error}")
        return None


def scores_object(scores: RunScores | None, bounds: Sequence[ScoreBound]) -> dict[str, Any]:
    """The keys of the scores in the JSON of a session, as in the report; null if they could not be read."""
    if scores is None:
        keys = ("tasks", "cost", "currency", "calls", "notes", "redone", "fail_under")
        return dict.fromkeys(keys)
    report, ledger = scores.report, scores.ledger
    repeated, refused = ledger.repeated, ledger.refused_model
    calls = {"repeated": repeated, "refused_model": refused, "unused": ledger.unused, "saved": {"calls": ledger.saved}}
    found: dict[str, Any] = {"tasks": report.tasks, "cost": report.cost, "currency": report.currency, "calls": calls}
    found |= {"notes": report.notes, "redone": report.redone}
    return {**found, "fail_under": compare_bounds(bounds, scores.plan, report.tasks)}


def failures_under(bounds: Sequence[ScoreBound], scores: RunScores | None, code: int) -> list[str]:
    """Why a session that would exit with `code` 0 exits with 1; another code stays as it is."""
    if code or not bounds:
        return []
    if scores is None:
        return ["the scores could not be read"]
    results = compare_bounds(bounds, scores.plan, scores.report.tasks)
    return bound_failures(results, is_complete=scores.report.complete)
