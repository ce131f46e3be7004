"""A report as text for a terminal: what was measured, on how many trials, and what is missing."""

from __future__ import annotations

from holdfast.analysis.metrics import Metric
from holdfast.analysis.report import GroupReport, Report
from holdfast.analysis.sampling_report import LoserReport, SamplingReport
from holdfast.run.fold.states import StateCounts

_SHOWN_TURNS = 8
_BRIEF_SCORES = 4


def report_text(report: Report) -> str:
    """The report in a few lines."""
    state = "complete" if report.complete else "INCOMPLETE"
    lines = [f"{report.name}: {state}, {coverage_text(report.coverage)}"]
    for task, models in report.tasks.items():
        for model, group in models.items():
            lines.append(f"  {task} · {model}: {coverage_text(group.coverage)}")
            lines += [f"    {line}" for line in _metric_lines(group)]
            lines += [f"    {line}" for line in _sampling_figure_lines(group.sampling)]
    if report.unassigned:
        lines.append(f"  {report.unassigned} trials belong to no task above: the records that name them are lost")
    if report.transcripts_lost:
        lines.append(f"  transcript lost: {report.transcripts_lost} trials; their scores stand")
    lines.append(
        f"  tokens: {report.usage.input_tokens:,} in, {report.usage.output_tokens:,} out{cost_text(report.cost)}"
    )
    lines += [f"  note: {note}" for note in report.notes]
    return "\n".join([*lines, *_determinism_lines(report)])


def brief_scores(report: Report) -> str:
    """The first scores of a report, as the end of a line."""
    found = [
        f"{task}, {model}, {scorer}: {metric.value:.3f}"
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
    limits = [f"    not guaranteed: {limit}" for limit in found.not_guaranteed]
    return [f"  deterministic: every call has a seed, derived from {found.seed}", *limits]


def coverage_text(coverage: StateCounts) -> str:
    """The denominator, and what is not in it."""
    if not coverage.planned:
        return f"{coverage.valid} trials valid; how many are planned is not known"
    parts = [f"{coverage.valid} of {coverage.planned} trials valid"]
    parts += [
        f"{count} {name}" for name, count in (("limited", coverage.limited), ("blocked", coverage.blocked)) if count
    ]
    return ", ".join(parts + ([coverage.remaining_text()] if coverage.remaining else []))


def _metric_lines(group: GroupReport) -> list[str]:
    lines = []
    for scorer, metrics in group.metrics.items():
        for name, metric in metrics.items():
            lines.append(f"{scorer} {name}: {metric_text(metric)}")
            lines += [f"  {line}" for line in _axis_lines(group, scorer)]
    return lines


def _sampling_figure_lines(sampling: SamplingReport | None) -> list[str]:
    if sampling is None:
        return []
    by_turn = ", ".join(f"{turn}: {share:.0%}" for turn, share in enumerate(sampling.success_by_turn[:_SHOWN_TURNS]))
    more = ", …" if len(sampling.success_by_turn) > _SHOWN_TURNS else ""
    candidates = ", ".join(f"{count} {status}" for status, count in sampling.candidates.items()) or "none"
    lines = [
        f"sampling ({', '.join(sampling.strategies)}): {sampling.successes} of {sampling.samplings} succeeded",
        *([f"  success by turn: {by_turn}{more}"] if by_turn else []),
        f"  turns used: {sampling.mean_turns:.2f} (mean); calls: {sampling.calls:,}; candidates: {candidates}",
        f"  losers: {_loser_text(sampling.losers)}",
    ]
    caps = ", ".join(f"{count} by {cap}" for cap, count in sampling.capped.items())
    return [*lines, f"  capped: {caps}"] if caps else lines


def _loser_text(losers: LoserReport) -> str:
    share = f" ({losers.share:.0%} of all tokens)" if losers.share is not None else ""
    used = losers.usage
    return f"{used.input_tokens:,} tokens in, {used.output_tokens:,} out{share}{cost_text(losers.cost)}"


def _axis_lines(group: GroupReport, scorer: str) -> list[str]:
    return [
        f"{axis}={value}: {metric_text(metric)}"
        for axis, values in group.axes.items()
        for value, metrics in values.items()
        for metric in metrics.get(scorer, {}).values()
    ]


def metric_text(metric: Metric) -> str:
    spread = f" ± {metric.stderr:.3f}" if metric.stderr is not None else ""
    return f"{metric.value:.3f}{spread} (n={metric.n})"


def cost_text(cost: float | None) -> str:
    """What it cost, as the end of a line; nothing where that is not known."""
    return f"; cost {cost:.4f}" if cost is not None else ""
