"""The figures of each value on an axis, and of all trials of a task with axes.

Every trial counts once for each of its axes, and once overall. Scores are the same that the metrics are made of; cost,
tokens and time are those of all attempts, with those of judges. In memory are a few numbers for each score, and never
a trial. `docs/metrics.md` has the definitions.
"""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Collection, Iterator
from hashlib import blake2b

import msgspec

from holdfast.analysis.metrics import Metric, SampleScores
from holdfast.digests import canonical_json
from holdfast.models.message import Usage
from holdfast.run.core.records import PlanEntry
from holdfast.run.fold.rows.fold_tables import unpack_sample
from holdfast.run.fold.rows.spent import MICRO, Spent
from holdfast.run.fold.run_fold import Group, RunFold
from holdfast.run.fold.states import State

PASS_AT = 0.5
"""The lowest score that is a pass, unless a panel of judges says otherwise."""
OVERALL = ("", "")
"""The place of figures that are of no single value."""
Pair = tuple[str, str]
"""A task and a model."""
Place = tuple[str, str]
"""An axis and a value."""


class ScoreFigures(msgspec.Struct, frozen=True):
    """What one scorer says of some trials."""

    pass_rate: Metric
    """The share of trials that passed, by sample as all metrics are."""
    passes: int
    """How many trials passed."""
    mean: Metric
    median: float
    """Of the samples' means."""
    spread: float | None
    """The standard deviation of the samples' means; None for fewer than two samples."""
    consistency: float | None
    """Of the samples with several epochs, on each combination of axes, the share whose epochs all passed or all failed;
    None where there are none.
    """
    cost_of_pass: float | None
    """What one pass cost; None without a pass or a known cost."""


class Durations(msgspec.Struct, frozen=True):
    """How long trials took, in seconds."""

    median: float | None
    """Of a finished trial, all of its attempts together; None where none is finished."""
    total: float
    """Of all attempts."""


class AxisFigures(msgspec.Struct, frozen=True):
    """The figures of the trials with one value, or of all of them."""

    valid: int
    planned: int | None
    """None where the plan is not known by value, in runs of earlier versions."""
    scores: dict[str, ScoreFigures]
    usage: Usage
    cost: float | None


class AxisReport(msgspec.Struct, frozen=True):
    """The figures of one task and model."""

    overall: AxisFigures
    axes: dict[str, dict[str, AxisFigures]]
    """Axis → value → figures, in the order of the plan."""


class AxisTimes(msgspec.Struct, frozen=True):
    """The same of durations, which depend on the machine."""

    overall: Durations
    axes: dict[str, dict[str, Durations]]


class _Scores:
    """The scores of one scorer for some trials."""

    def __init__(self) -> None:
        self.values, self.passed = SampleScores(), SampleScores()
        self.passes = 0
        self._cells, self._results = array("Q"), array("b")

    def add(self, value: float, sample: int, cell: int, *, is_pass: bool) -> None:
        self.values.add(value, sample, is_repeated=True)
        self.passed.add(float(is_pass), sample, is_repeated=True)
        self.passes += is_pass
        self._cells.append(cell)
        self._results.append(is_pass)

    def consistency(self) -> float | None:
        """The share of cells with several results in which all are the same."""
        found: dict[int, int] = {}
        for cell, result in zip(self._cells, self._results, strict=True):
            # Bits: 1 and 2 for the two results, 4 for a second one of any kind.
            known = found.get(cell, 0)
            found[cell] = known | (2 if result else 1) | (4 if known else 0)
        repeated = [bits for bits in found.values() if bits & 4]
        return sum(bits & 3 != 3 for bits in repeated) / len(repeated) if repeated else None

    def figures(self, cost: float | None, *, is_share: bool) -> ScoreFigures:
        means = self.values.means()
        return ScoreFigures(
            self.passed.metric(is_share=True),
            self.passes,
            self.values.metric(is_share=is_share),
            statistics.median(means),
            statistics.stdev(means) if len(means) > 1 else None,
            self.consistency(),
            cost / self.passes if cost is not None and self.passes else None,
        )


class _Totals:
    """Everything that is added up for one place."""

    def __init__(self) -> None:
        self.scores: dict[str, _Scores] = {}
        self.valid = 0
        self.spent = Spent()
        self.seconds = array("d")

    def durations(self) -> Durations:
        median = round(statistics.median(self.seconds), 3) if self.seconds else None
        return Durations(median, round(self.spent.seconds, 3))


class AxisTotals:
    """Adds up the figures of all tasks with axes."""

    def __init__(self, fold: RunFold) -> None:
        self._fold = fold
        self._plan = {(entry.task, entry.model): entry for entry in fold.plan}
        self._found: dict[Pair, dict[Place, _Totals]] = {}
        self._numbers = [one.number for one in fold.standings.values() if one.group.axes]
        if self._numbers:
            self._add_standings()
            self._add_scores()
            self._add_spending()
            self._add_durations()

    def _of(self, group: Group) -> list[_Totals]:
        """Where a trial of a group is added: overall, and for each of its values."""
        places = self._found.setdefault(group[:2], {})
        return [places.setdefault(place, _Totals()) for place in (OVERALL, *group.axes.items())]

    def _add_standings(self) -> None:
        for one in self._fold.standings.values():
            if one.group.axes and one.state is State.VALID:
                for totals in self._of(one.group):
                    totals.valid += one.trials

    def _add_scores(self) -> None:
        for slot in self._fold.slots(self._numbers):
            if slot.value is None:
                continue
            group = slot.standing.group
            name = unpack_sample(slot.row)[0] or f"\0{slot.trial}"
            sample, cell = _number(name.encode(errors="surrogatepass")), _number(_cell(name, group))
            is_pass = slot.value >= self._pass_at(group, slot.scorer)
            for totals in self._of(group):
                totals.scores.setdefault(slot.scorer, _Scores()).add(slot.value, sample, cell, is_pass=is_pass)

    def _pass_at(self, group: Group, scorer: str) -> float:
        entry = self._plan.get(group[:2])
        panel = entry.panels.get(scorer) if entry is not None else None
        return PASS_AT if panel is None else panel.pass_at

    def _add_spending(self) -> None:
        for group, spent in self._fold.spent_by_group():
            for totals in self._of(group) if group.axes else ():
                totals.spent = totals.spent.plus(spent)

    def _add_durations(self) -> None:
        for task in sorted({task for task, _ in self._found}):
            for trial in self._fold.trials_of(task):
                if trial.state.is_finished and trial.standing.group.axes:
                    taken = sum(end.microseconds for end in trial.row.spent) / MICRO
                    for totals in self._of(trial.standing.group):
                        totals.seconds.append(taken)

    def report(self, entry: PlanEntry, binary: Collection[str] | None) -> AxisReport | None:
        """The figures of a task and model; None where it has no axes, or nothing is on record."""
        places = self._found.get((entry.task, entry.model))
        if places is None:
            return None
        made = {place: self._figures(entry, place, totals, binary or ()) for place, totals in places.items()}
        axes: dict[str, dict[str, AxisFigures]] = {}
        for axis, value in _in_plan_order(entry, made):
            axes.setdefault(axis, {})[value] = made[axis, value]
        return AxisReport(made[OVERALL], axes)

    def _figures(self, entry: PlanEntry, place: Place, totals: _Totals, binary: Collection[str]) -> AxisFigures:
        cost = self._fold.prices.cost(totals.spent.shares, {entry.model}).amount
        return AxisFigures(
            totals.valid,
            entry.planned if place == OVERALL else entry.axes.get(place[0], {}).get(place[1]),
            {
                name: scores.figures(cost, is_share=name in binary)
                for name, scores in sorted(totals.scores.items(), key=lambda item: _rank(entry, item[0]))
            },
            totals.spent.usage,
            cost,
        )

    def times(self, entry: PlanEntry) -> AxisTimes | None:
        """The durations of a task and model; None as above."""
        places = self._found.get((entry.task, entry.model))
        if places is None:
            return None
        made = {place: totals.durations() for place, totals in places.items()}
        axes: dict[str, dict[str, Durations]] = {}
        for axis, value in _in_plan_order(entry, made):
            axes.setdefault(axis, {})[value] = made[axis, value]
        return AxisTimes(made[OVERALL], axes)


def _rank(entry: PlanEntry, scorer: str) -> tuple[int, str]:
    shown = entry.shown_scorers
    return shown.index(scorer) if scorer in shown else len(shown), scorer


def _in_plan_order(entry: PlanEntry, made: Collection[Place]) -> Iterator[Place]:
    """The axes and values of the plan, then those that are only on record."""
    planned = [(axis, value) for axis, values in entry.axes.items() for value in values]
    yield from (place for place in planned if place in made)
    yield from sorted(place for place in made if place not in planned and place != OVERALL)


def _cell(sample: str, group: Group) -> bytes:
    """What the epochs of a sample have in common."""
    return canonical_json([sample, dict(group.axes)])


def _number(content: bytes) -> int:
    """A number that stands for a name: 64 bits of its digest, for a dict of names would grow with the trials."""
    return int.from_bytes(blake2b(content, digest_size=8).digest())
