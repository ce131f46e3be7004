"""The report: a pure function of the journal.

For a model whose replies can be reproduced, it is the same to the last byte whether the run was interrupted forty
times or never, apart from the sections `timing` and `lineage`. A trial counts once, by the first final record of the
newest session that has one: what a late holder of the run adds fills only what no newer session has finished. A failed
attempt counts nowhere but in what was spent. Nothing that is not on record is scored.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.analysis.metrics import Metric, TrialTotals
from holdfast.models.message import Usage
from holdfast.run.core.codec import decode
from holdfast.run.core.reader import RunReader
from holdfast.run.core.records import FAILURES, KEPT, ScoreRecord, SessionRecord, Status, TrialRecord
from holdfast.run.fold.remaining_trials import trials_missing_scores

_TRIAL = b'"type":"trial"'
_SCORE = b'"type":"score"'


class Coverage(msgspec.Struct, frozen=True):
    """How much of the plan the figures rest on."""

    planned: int
    valid: int
    failed: int
    limited: int = 0
    blocked: int = 0
    owed: int = 0


class GroupReport(msgspec.Struct, frozen=True):
    """The figures of one task and model."""

    metrics: dict[str, dict[str, Metric]]
    coverage: Coverage
    usage: Usage
    cost: float
    axes: dict[str, dict[str, dict[str, dict[str, Metric]]]] = {}
    """Axis → value → the metrics of the trials with that value."""


class Report(msgspec.Struct, frozen=True):
    """The whole report."""

    name: str
    complete: bool
    tasks: dict[str, dict[str, GroupReport]]
    coverage: Coverage
    usage: Usage
    cost: float
    timing: dict[str, Any]
    lineage: list[dict[str, Any]]

    def __str__(self) -> str:
        from holdfast.analysis.report_text import report_text  # noqa: PLC0415 - only when it is printed

        return report_text(self)


class _ReportGroup:
    """The trials of one task and model, added up: all of them, and by the values on each axis."""

    def __init__(self, planned: int) -> None:
        self.planned = planned
        self.all = TrialTotals()
        self.by_axis: dict[str, dict[str, TrialTotals]] = {}
        self.failed: set[str] = set()
        self.seconds = 0.0

    def add(self, trial: TrialRecord) -> None:
        self.all.add(trial)
        self.failed.discard(trial.trial)
        self.seconds += trial.seconds
        for axis, value in trial.axes.items():
            self.by_axis.setdefault(axis, {}).setdefault(value, TrialTotals()).add(trial)

    def add_failure(self, trial: TrialRecord) -> None:
        self.failed.add(trial.trial)
        if trial.status is Status.FAILED:
            self.all.add_failed(trial)

    def add_score(self, scorer: str, value: float, axes: dict[str, str]) -> None:
        self.all.add_score(scorer, value)
        for axis, at in axes.items():
            self.by_axis.setdefault(axis, {}).setdefault(at, TrialTotals()).add_score(scorer, value)

    def group_report(self) -> GroupReport:
        axes = {
            axis: {value: totals.metrics() for value, totals in sorted(values.items())}
            for axis, values in sorted(self.by_axis.items())
        }
        return GroupReport(self.all.metrics(), self.coverage(), self.all.usage, self.all.cost, axes)

    def coverage(self) -> Coverage:
        statuses = self.all.statuses
        return Coverage(
            planned=self.planned,
            valid=self.all.valid,
            failed=len(self.failed),
            limited=statuses[Status.LIMITED.value],
            blocked=statuses[Status.BLOCKED.value],
            owed=max(self.planned - self.all.kept, 0),
        )


def make_report(reader: RunReader) -> Report:
    """The report of a run in any state; trials lost to damage remain to be run, and coverage shows them."""
    session = reader.sessions[-1] if reader.sessions else None
    groups = _collect_groups(reader, session)
    tasks: dict[str, dict[str, GroupReport]] = {}
    for (task, model), group in sorted(groups.items()):
        tasks.setdefault(task, {})[model] = group.group_report()
    reports = [report for models in tasks.values() for report in models.values()]
    coverage = _total_coverage([report.coverage for report in reports])
    return Report(
        name=session.name if session else "",
        complete=coverage.planned > 0 and coverage.owed == 0 and not trials_missing_scores(reader),
        tasks=tasks,
        coverage=coverage,
        usage=sum((report.usage for report in reports), Usage()),
        cost=sum(report.cost for report in reports),
        timing={"trial_seconds": round(sum(group.seconds for group in groups.values()), 3)},
        lineage=_lineage_entries(reader),
    )


def _collect_groups(reader: RunReader, session: SessionRecord | None) -> dict[tuple[str, str], _ReportGroup]:
    groups = {(entry.task, entry.model): _ReportGroup(entry.planned) for entry in (session.plan if session else [])}
    counting = reader.kept_more_than_once()
    for ident, line in reader.stream([], "trial", "score"):
        if line.startswith(_SCORE, 1) and b'"task":' in line:
            _add_late_score(groups, decode(line))
        if not line.startswith(_TRIAL, 1) or not isinstance(trial := decode(line), TrialRecord):
            continue
        if (group := groups.get((trial.task, trial.model))) is None:
            continue
        if not trial.status.is_kept:
            group.add_failure(trial)
        elif counting.get(trial.trial, ident) == ident:
            group.add(trial)
    for group in groups.values():
        # A late writer may have added a failed attempt after the record that counts.
        group.failed = {key for key in group.failed if not _has_kept_end(reader, key)}
    return groups


def _has_kept_end(reader: RunReader, key: str) -> bool:
    return any(row.flag == KEPT for row in reader.index.rows("trial", key))


def _add_late_score(groups: dict[tuple[str, str], _ReportGroup], score: object) -> None:
    """Adds the score of a scorer that was added to the eval after the trial had ended."""
    if isinstance(score, ScoreRecord) and score.value is not None and (score.task, score.model) in groups:
        groups[score.task, score.model].add_score(score.scorer, score.value, score.axes)


def _total_coverage(parts: list[Coverage]) -> Coverage:
    names = Coverage.__struct_fields__
    return Coverage(*(sum(getattr(part, name) for part in parts) for name in names))


def _lineage_entries(reader: RunReader) -> list[dict[str, Any]]:
    """Every session: when it started, and how it ended."""
    ends = {end.number: end for end in reader.ends}
    found = []
    for session in reader.sessions:
        end = ends.get(session.number)
        entry: dict[str, Any] = {"session": session.number, "started_at": session.at, "version": session.version}
        if end is not None:
            calls = {name: count for name, count in end.ledger.items() if name != FAILURES}
            entry |= {"ended_at": end.at, "how": end.how, "exit_code": end.exit_code, "calls": calls}
        found.append(entry)
    return found
