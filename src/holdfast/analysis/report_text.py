"""A report as text for a terminal: scores, coverage, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.analysis.failure_groups import failure_lines
from holdfast.analysis.ledger import saved_text
from holdfast.analysis.money import cost_text
from holdfast.analysis.report import Report
from holdfast.analysis.sampling_report import LoserReport, SamplingReport
from holdfast.analysis.score_table import WIDTH, axis_table, score_table, score_text
from holdfast.analysis.spending import tokens_text
from holdfast.analysis.text_table import plain_name
from holdfast.run.fold.states import StateCounts
from holdfast.terminal.text import printable, quantity

if TYPE_CHECKING:
    from holdfast.analysis.agreement.panel_report import PanelReport

_SHOWN_TURNS = 8
_BRIEF_SCORES = 4


def report_text(report: Report, width: int = WIDTH) -> str:
    """The report in a few lines, whatever names and errors hold; its tables fit into `width` columns."""
    tables = [score_table(report.tasks, report.currency, width), axis_table(report.tasks, width)]
    lines = [f"{plain_name(report.name)}: {report.state}, {coverage_text(report.coverage)}"]
    for table in filter(None, tables):
        lines += ["", *table]
    for table in _figure_tables(report, width):
        lines += ["", *table]
    lines += ["", *_group_lines(report)]
    if report.unassigned:
        lines.append(f"{report.unassigned} trials belong to no task above: the records that name them are lost")
    if report.transcripts_lost:
        lines.append(f"transcript lost: {report.transcripts_lost} trials; their scores are kept")
    tokens = f"tokens: {tokens_text(report.usage, is_partial=report.usage_is_partial)}"
    lines.append(f"{tokens}{cost_text(report.cost, report.currency, is_lower_bound=report.cost_is_lower_bound)}")
    lines += list(_model_lines(report))
    if report.saved.calls:
        lines.append(saved_text(report.saved, report.currency))
    lines += list(_served_lines(report))
    lines += [f"note: {note}" for note in report.notes]
    lines += list(_lineage_lines(report))
    return printable("\n".join([*lines, *_determinism_lines(report), *failure_lines(report.errors)]))


def _lineage_lines(report: Report) -> Iterator[str]:
    """What interruptions may have cost; the cost above is that of replies on record, and the same without them."""
    cut = [session for session in report.lineage if session.get("in_flight_at_kill")]
    in_flight = sum(session["in_flight_at_kill"] for session in cut)
    when = "a session ended" if any("ended_as" in session for session in cut) else "the process was killed"
    if in_flight and report.cost is not None:
        calls = quantity(in_flight, "call")
        yield f"lineage: up to {calls} in flight when {when} may have been billed beside this cost"


def _figure_tables(report: Report, width: int) -> Iterator[list[str]]:
    """The figures per axis value of every task and model that has axes beside the variants of its prompt."""
    for task, models in report.tasks.items():
        for model, group in models.items():
            if group.by_axis is not None and group.by_axis.axes.keys() - {"prompt"}:
                from holdfast.analysis.axes.axis_text import figure_lines  # noqa: PLC0415 - most runs have no axes

                title = f"{plain_name(task)} · {plain_name(model)}"
                times = report.timing.get("by_axis", {}).get(task, {}).get(model)
                yield figure_lines(title, group.by_axis, times, report.currency, width)


def _group_lines(report: Report) -> Iterator[str]:
    """What is missing from each task and model, where there are several, and how samplings and judges went."""
    is_single = sum(map(len, report.tasks.values())) == 1
    for task, models in report.tasks.items():
        for model, group in models.items():
            coverage = "" if is_single or group.coverage.is_complete else coverage_text(group.coverage)
            sampling = _sampling_figure_lines(group.sampling, report.currency)
            judged = _panel_lines(group.panels)
            if coverage or sampling or judged:
                yield f"{plain_name(task)} · {plain_name(model)}: {coverage}".rstrip(": ")
                yield from (f"  {line}" for line in (*sampling, *judged))


def _panel_lines(panels: dict[str, PanelReport] | None) -> list[str]:
    if not panels:
        return []
    from holdfast.analysis.agreement.panel_text import panel_lines  # noqa: PLC0415 - most runs have no judges

    return list(panel_lines(panels))


def _model_lines(report: Report) -> Iterator[str]:
    """What each model took, where judges or others have replied beside those under test."""
    for model, spent in (report.by_model or {}).items():
        tokens = tokens_text(spent.usage, is_partial=spent.is_partial)
        yield f"  {plain_name(model)}: {tokens}{cost_text(spent.cost, report.currency)}"


def _served_lines(report: Report) -> Iterator[str]:
    """Which models have answered, where a server has reported several."""
    for model, names in report.served.items():
        counts = [f"{plain_name(name) or 'no name'} ({count:,})" for name, count in names.items()]
        yield f"{plain_name(model)}: replies of several models: {', '.join(counts)}"


def brief_scores(report: Report) -> str:
    """The first scores of a report, as the end of a line."""
    found = [
        f"{task}, {model}, {scorer}: {score_text(metric.value)}"
        for task, models in report.tasks.items()
        for model, group in models.items()
        for scorer, metrics in group.metrics.items()
        for metric in metrics.values()
    ]
    more = "; …" if len(found) > _BRIEF_SCORES else ""
    # A representation is one line, whatever the names hold.
    return "".join(f"; {repr(text)[1:-1]}" for text in found[:_BRIEF_SCORES]) + more


def _determinism_lines(report: Report) -> list[str]:
    found = report.determinism
    if found is None:
        return []
    limits = [f"  not guaranteed: {limit}" for limit in found.not_guaranteed]
    return [f"deterministic: every call has a seed, derived from {found.seed}", *limits]


def coverage_text(coverage: StateCounts) -> str:
    """The denominator, and what is not in it."""
    if not coverage.planned:
        return f"{coverage.valid} trials valid; how many are planned is not known"
    parts = [f"{coverage.valid} of {coverage.planned} trials valid"]
    parts += [
        f"{count} {name}" for name, count in (("limited", coverage.limited), ("blocked", coverage.blocked)) if count
    ]
    return ", ".join(parts + ([coverage.remaining_text()] if coverage.remaining else []))


def _sampling_figure_lines(sampling: SamplingReport | None, currency: str) -> list[str]:
    if sampling is None:
        return []
    by_turn = ", ".join(f"{turn}: {share:.0%}" for turn, share in enumerate(sampling.success_by_turn[:_SHOWN_TURNS]))
    more = ", …" if len(sampling.success_by_turn) > _SHOWN_TURNS else ""
    candidates = ", ".join(f"{count} {status}" for status, count in sampling.candidates.items()) or "none"
    lines = [
        f"sampling ({', '.join(sampling.strategies)}): {sampling.successes} of {sampling.samplings} succeeded",
        *([f"  success by turn: {by_turn}{more}"] if by_turn else []),
        f"  turns used: {sampling.mean_turns:.2f} (mean); calls: {sampling.calls:,}; candidates: {candidates}",
        f"  losers: {_loser_text(sampling.losers, currency)}",
    ]
    caps = ", ".join(f"{count} by {cap}" for cap, count in sampling.capped.items())
    return [*lines, f"  capped: {caps}"] if caps else lines


def _loser_text(losers: LoserReport, currency: str) -> str:
    share = f" ({losers.share:.0%} of all tokens)" if losers.share is not None else ""
    used = losers.usage
    return f"{used.input_tokens:,} tokens in, {used.output_tokens:,} out{share}{cost_text(losers.cost, currency)}"
