"""The report: a pure function of the journal.

For a model whose replies can be reproduced, it is the same to the last byte whether the run was interrupted forty
times or never, apart from the sections `timing` and `lineage`. What counts is decided by the fold; a failed attempt
counts nowhere but in what was spent. Nothing that is not on record is scored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.analysis.failure_groups import Failures, read_failures
from holdfast.analysis.ledger import SavedCalls, given_up_text, saved_in
from holdfast.analysis.metrics import Metric, ScoreTotals
from holdfast.analysis.notes.determinism import Determinism, determinism_of
from holdfast.analysis.notes.odd_answers import odd_answer_notes
from holdfast.analysis.notes.redone_trials import RedoneTrials, redone_trials
from holdfast.analysis.sampling_report import SamplingReport, sampling_report
from holdfast.analysis.session_endings import KILLED, RUNNING, session_endings
from holdfast.analysis.spending import (
    ModelSpending,
    Spending,
    group_spending,
    no_spending,
    run_spending,
    spending_by_model,
)
from holdfast.models.message import Usage
from holdfast.run.core.records import FAILURES, PlanEntry
from holdfast.run.core.slots.slot_names import base_name
from holdfast.run.drift.served_names import replies_by_name
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.rows.fold_tables import unpack_key, unpack_sample
from holdfast.run.fold.run_fold import Group, RunFold, SlotValue
from holdfast.run.fold.states import StateCounts
from holdfast.run.import_origin import import_origin

if TYPE_CHECKING:
    from holdfast.analysis.agreement.panel_report import PanelReport
    from holdfast.analysis.axes.axis_figures import AxisReport, AxisTimes, AxisTotals


class GroupReport(msgspec.Struct, frozen=True):
    """The figures of one task and model."""

    metrics: dict[str, dict[str, Metric]]
    coverage: StateCounts
    """How much of the plan the figures rest on."""
    usage: Usage
    cost: float | None
    """By the newest prices on record; None where a model that was used has none."""
    axes: dict[str, dict[str, dict[str, dict[str, Metric]]]] = {}
    """Axis → value → the metrics of the trials with that value."""
    sampling: SamplingReport | None = None
    """How its samplings went; None where there are none."""
    without_scores: list[str] | None = None
    """Scorers of the plan that have given no score; None where each has given one."""
    panels: dict[str, PanelReport] | None = None
    """How judges got along, by scorer; None where no judge scores."""
    cost_is_lower_bound: bool = False
    """Whether calls got no reply because they were ended in flight: what they cost is unknown."""
    usage_is_partial: bool = False
    """Whether some replies have no usage on record."""
    has_price: bool = False
    """Whether a model that was used has a price: where the cost is null then, it is unknown."""
    by_axis: AxisReport | None = None
    """The figures of each axis value, and of all trials; None where the task has no axes."""


TaskReports = dict[str, dict[str, GroupReport]]
"""By task and model."""


class Report(msgspec.Struct, frozen=True):
    """The whole report."""

    name: str
    complete: bool
    tasks: TaskReports
    coverage: StateCounts
    transcripts_lost: int
    unassigned: int
    """Trials on record that do not say which task they belong to, because their first record is lost."""
    usage: Usage
    cost: float | None
    currency: str
    """Of all costs."""
    saved: SavedCalls
    """The replies of other runs that were used instead of calls: their tokens count, and their cost does not."""
    served: dict[str, dict[str, int]]
    """Of every model that has answered under several names, how many recorded replies have which."""
    notes: list[str]
    """What a reader of the scores and of the cost has to know, in sentences."""
    determinism: Determinism | None
    """What could not be guaranteed, where the eval is deterministic."""
    errors: Failures
    """Why trials have failed or got no reply: equal errors once, with the number of their trials."""
    timing: dict[str, Any]
    lineage: list[dict[str, Any]]
    cost_is_lower_bound: bool = False
    usage_is_partial: bool = False
    """As of a group."""
    given_up: int = 0
    """Calls that were in flight when a limit or the task's own code ended them."""
    redone: RedoneTrials = RedoneTrials()
    """Trials that were run again because of their results."""
    by_model: dict[str, ModelSpending] | None = None
    """Tokens and cost of every model that replied, judges under their own names; None where only models under test
    did.
    """

    @property
    def state(self) -> str:
        """For people; the same at the end of a session as in the report."""
        return "complete" if self.complete else "INCOMPLETE"

    def __str__(self) -> str:
        """The text that `holdfast report` prints where there is no terminal."""
        from holdfast.analysis.report_text import report_text  # noqa: PLC0415 - only when it is printed

        return report_text(self)

    def __repr__(self) -> str:
        from holdfast.analysis.report_text import brief_scores  # noqa: PLC0415 - as above

        state = "complete" if self.complete else "incomplete"
        return f"<Report {self.name!r}: {state}, {self.coverage.finished_text()}{brief_scores(self)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        from holdfast.analysis.report_html import report_html  # noqa: PLC0415 - as above

        return report_html(self)


class _GroupScores:
    """The scores of one task and model: all of them, and by the values on each axis."""

    def __init__(self) -> None:
        self.all = ScoreTotals()
        self.by_axis: dict[str, dict[str, ScoreTotals]] = {}

    def totals(self, group: Group) -> list[ScoreTotals]:
        """Where a score of such a trial is added."""
        parts = [self.by_axis.setdefault(axis, {}).setdefault(at, ScoreTotals()) for axis, at in group.axes.items()]
        return [self.all, *parts]

    def axes(
        self, binary: Collection[str] | None, scorers: Sequence[str]
    ) -> dict[str, dict[str, dict[str, dict[str, Metric]]]]:
        return {
            axis: {value: _in_order(totals.metrics(binary), scorers) for value, totals in sorted(values.items())}
            for axis, values in sorted(self.by_axis.items())
        }


def make_report(reader: RunReader) -> Report:
    """The report of a run in any state; trials lost to damage remain to be run, and coverage shows them."""
    fold, spending = reader.fold, run_spending(reader.fold)
    redone, figures = redone_trials(reader), _axis_totals(reader.fold)
    return Report(
        name=fold.session.name if fold.session else "",
        complete=fold.counts.is_complete,
        tasks=_task_reports(reader, figures),
        coverage=fold.counts,
        transcripts_lost=reader.transcripts_lost(),
        unassigned=fold.unassigned,
        usage=spending.usage,
        cost=spending.cost,
        currency=fold.prices.currency,
        saved=saved_in(fold),
        served=replies_by_name(reader),
        notes=[*redone.lines(), *odd_answer_notes(reader), *_spending_notes(spending), *_import_notes(reader)],
        determinism=determinism_of(fold.session),
        errors=read_failures(reader) if fold.counts.remaining else Failures(),
        timing={"trial_seconds": round(spending.seconds, 3), **_axis_times(fold, figures)},
        lineage=_lineage_entries(reader),
        cost_is_lower_bound=spending.given_up > 0,
        usage_is_partial=spending.is_partial,
        given_up=spending.given_up,
        redone=redone,
        by_model=spending_by_model(fold) or None,
    )


def _import_notes(reader: RunReader) -> list[str]:
    origin = import_origin(reader)
    return [] if origin is None else [origin.text()]


def _spending_notes(spending: Spending) -> list[str]:
    given_up = [given_up_text(spending.given_up)] if spending.given_up else []
    return [*given_up, *filter(None, [spending.warning])]


def _task_reports(reader: RunReader, figures: AxisTotals | None) -> TaskReports:
    fold, scores = reader.fold, _group_scores(reader.fold)
    spending, samplings, panels = group_spending(fold), fold.samplings(), _panel_reports(reader)
    found: TaskReports = {}
    planned = {(entry.task, entry.model): entry for entry in fold.plan}
    # In the order of the plan, which is that of the eval and the same in every session.
    for (task, model), counts in fold.counts_by_group().items():
        group, spent = scores.get((task, model), _GroupScores()), spending.get((task, model))
        spent = spent or no_spending(fold, model)
        sampling = sampling_report(fold, samplings.get((task, model)), model, spent.usage)
        entry = planned.get((task, model), PlanEntry(task, model, 0))
        binary = fold.binary_titles(entry)
        metrics = _in_order(group.all.metrics(binary), entry.shown_scorers)
        missing = [scorer for scorer in entry.shown_scorers if scorer not in metrics]
        axes, judged = group.axes(binary, entry.shown_scorers), panels.get((task, model))
        report = GroupReport(metrics, counts, spent.usage, spent.cost, axes, sampling, missing or None, judged)
        bounds = {"cost_is_lower_bound": spent.given_up > 0, "usage_is_partial": spent.is_partial}
        has_price = spent.cost is not None or bool(spent.warning)
        by_axis = figures.report(entry, binary) if figures is not None else None
        report = msgspec.structs.replace(report, **bounds, has_price=has_price, by_axis=by_axis)
        found.setdefault(task, {})[model] = report
    return found


def _axis_totals(fold: RunFold) -> AxisTotals | None:
    if not any(group.axes for group in fold.groups.values()):
        return None
    from holdfast.analysis.axes.axis_figures import AxisTotals  # noqa: PLC0415 - most runs have no axes

    return AxisTotals(fold)


def _axis_times(fold: RunFold, figures: AxisTotals | None) -> dict[str, Any]:
    """The durations by axis value, of every task and model with axes."""
    found: dict[str, dict[str, AxisTimes]] = {}
    for entry in fold.plan if figures is not None else ():
        if figures is not None and (times := figures.times(entry)) is not None:
            found.setdefault(entry.task, {})[entry.model] = times
    return {"by_axis": found} if found else {}


def _in_order(metrics: dict[str, dict[str, Metric]], scorers: Sequence[str]) -> dict[str, dict[str, Metric]]:
    """The metrics in the order of the plan's scorers, each with its earlier versions; then all others by name."""
    places = {name: place for place, name in enumerate(scorers)}
    return dict(sorted(metrics.items(), key=lambda item: (places.get(base_name(item[0]), len(places)), item[0])))


def _panel_reports(reader: RunReader) -> dict[tuple[str, str], dict[str, PanelReport]]:
    if not reader.fold.panels:
        return {}
    from holdfast.analysis.agreement.panel_report import panel_reports  # noqa: PLC0415 - most runs have no judges

    return panel_reports(reader)


def _group_scores(fold: RunFold) -> dict[tuple[str, str], _GroupScores]:
    """Every score that counts, added where it belongs."""
    found: dict[tuple[str, str], _GroupScores] = {}
    places: dict[int, list[ScoreTotals]] = {}
    for slot, sample, is_repeated in slots_with_samples(fold):
        number, group = slot.standing.number, slot.standing.group
        if number not in places:
            places[number] = found.setdefault(group[:2], _GroupScores()).totals(group)
        if slot.value is not None:
            for totals in places[number]:
                totals.add(slot.scorer, slot.value, sample, is_repeated=is_repeated)
    return found


def slots_with_samples(fold: RunFold) -> Iterator[tuple[SlotValue, int, bool]]:
    """Each score, a number for its sample, and whether the sample may have other trials in the group."""
    last, sample, is_repeated = None, 0, False
    for slot in fold.slots():
        # The scores of a trial follow one another.
        if slot.key != last:
            name, epoch = unpack_sample(slot.row)
            # A trial whose record does not name its sample is a sample of its own.
            sample = _number_of(name or f"\0{unpack_key(slot.key)}")
            last, is_repeated = slot.key, epoch > 1 or bool(slot.standing.group.axes)
        yield slot, sample, is_repeated


def _number_of(sample: str) -> int:
    """A number that stands for a sample: 64 bits of its digest, for a dict of names would grow with the trials."""
    return int.from_bytes(blake2b(sample.encode(errors="surrogatepass"), digest_size=8).digest())


def _lineage_entries(reader: RunReader) -> list[dict[str, Any]]:
    """Every session: when it started, how it ended, and how many calls may have been in flight then.

    Those calls may have been billed. They are here and not beside the cost, which is the same after any number of
    interruptions.
    """
    endings, found = session_endings(reader, reader.holder), []
    for session in reader.sessions:
        ending = endings[session.number]
        entry: dict[str, Any] = {"number": session.number, "started_at": session.at, "version": session.version}
        if ending.ended_as not in {KILLED, RUNNING}:
            entry |= {"ended_at": ending.ended_at, "ended_as": ending.ended_as, "exit_code": ending.exit_code}
        if ending.record is not None:
            entry["calls"] = {name: count for name, count in ending.record.ledger.items() if name != FAILURES}
        if ending.in_flight or ending.ended_as == KILLED:
            entry["in_flight_at_kill"] = ending.in_flight
        found.append(entry)
    return found
