"""How the scorers of a run compare with labels of people, and what their shares of passes are without their errors.

The error rates are measured on the labelled answers, and then taken out of the share of all answers.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import msgspec

from holdfast.analysis.agreement import Kappa
from holdfast.analysis.calibration.confusion import Confusion, ConfusionCounts
from holdfast.analysis.calibration.corrected import Corrected, Share, corrected_share, share_of
from holdfast.analysis.calibration.labels import Labels
from holdfast.analysis.calibration.scorer_version import RunVersions, ScorerVersion, panel_of, panel_of_slot
from holdfast.analysis.metrics import SampleScores
from holdfast.analysis.report import slots_with_samples
from holdfast.run.core.records import PlanEntry
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.rows.fold_tables import unpack_key

DEFAULT_PASS_AT = 0.5
_MAJORITY = "majority"


class ScorerCalibration(msgspec.Struct, frozen=True):
    """One scorer of a task and model beside people."""

    pass_at: float
    """The lowest score that is a pass."""
    n_samples: int
    """Samples with a label and a score: what the rates rest on."""
    n_trials: int
    unscored: int
    """Labelled trials without a score: no part of any rate."""
    measured_on: list[str]
    """The models whose answers were labelled."""
    confusion: Confusion
    agreement: Share | None
    kappa: Kappa | None
    tpr: Share | None
    """Of the answers that people pass, the share that the scorer passes."""
    tnr: Share | None
    """Of the answers that people fail, the share that the scorer fails."""
    passed: Share | None
    """The scorer's own share of passes, over all samples of the run."""
    corrected: Corrected | None
    why_not: str
    """Why there is no corrected share; empty if there is one."""
    version: ScorerVersion


class Calibration(msgspec.Struct, frozen=True):
    """All scorers that have labels."""

    labelled: int
    """Trials with a label."""
    unlabelled: int
    """Rows of the file whose label was empty."""
    tasks: dict[str, dict[str, dict[str, ScorerCalibration]]]
    """By task, model and scorer."""


ScorerPlace = tuple[str, str, str]
"""Task, model and scorer."""


class VerdictCounts:
    """The verdicts of one scorer on the answers of one task and model."""

    def __init__(self, pass_at: float) -> None:
        self.pass_at = pass_at
        self.confusion, self._passes = ConfusionCounts(), SampleScores()
        self._has_scores = False

    def add(self, value: float, sample: int, *, is_repeated: bool, person: bool | None) -> None:
        passed = value >= self.pass_at
        self._passes.add(float(passed), sample, is_repeated=is_repeated)
        self._has_scores = True
        if person is not None:
            self.confusion.add(sample, person=person, judge=passed)

    def passed(self) -> Share | None:
        if not self._has_scores:
            return None
        metric = self._passes.metric()
        return share_of(Fraction(metric.value) * metric.n_samples, Fraction(metric.n_samples))


def calibrate(reader: RunReader, labels: Labels, pass_at: float | None = None) -> Calibration:
    """Compares the scorers of a run with labels of its answers."""
    versions = RunVersions(reader)
    counts = count_verdicts(reader, lambda task, _, scorer: pass_mark(reader.fold.plan, task, scorer, pass_at), labels)
    found: dict[str, dict[str, dict[str, ScorerCalibration]]] = {}
    for (task, model, scorer), counted in sorted(counts.items()):
        labelled = labels.count_for(task, model, scorer)
        if labelled:
            version = versions.version(task, scorer)
            result = scorer_calibration(counted, counted.confusion.confusion(), labelled, [model], version)
            found.setdefault(task, {}).setdefault(model, {})[scorer] = result
    return Calibration(len(labels.by_trial), labels.unlabelled, found)


def count_verdicts(
    reader: RunReader, pass_at: Callable[[str, str, str], float], labels: Labels | None = None
) -> dict[ScorerPlace, VerdictCounts]:
    """One pass over all scores of the run."""
    entries = [(entry.task, entry.model, scorer) for entry in reader.fold.plan for scorer in planned_names(entry)]
    found = {slot: VerdictCounts(pass_at(*slot)) for slot in entries}
    for slot, sample, is_repeated in slots_with_samples(reader.fold):
        group = slot.standing.group
        place = (group.task, group.model, slot.scorer)
        if place not in found:
            found[place] = VerdictCounts(pass_at(*place))
        if slot.value is not None:
            label = labels.of(unpack_key(slot.key), slot.scorer) if labels is not None else None
            person = label.passed if label is not None else None
            found[place].add(slot.value, sample, is_repeated=is_repeated, person=person)
    return found


def planned_names(entry: PlanEntry) -> list[str]:
    """The names under which people see the scores of the plan."""
    shown: list[str] = getattr(entry, "shown_scorers", entry.scorers)
    return shown


def pass_mark(plan: list[PlanEntry], task: str, scorer: str, given: float | None) -> float:
    """The lowest score that is a pass: as given, or as a panel has it for its judges."""
    panel = panel_of(plan, task, scorer)
    if panel is not None and panel.combine == _MAJORITY:
        # The majority has been counted: its score is 1 or 0, whatever the scale of its judges.
        return DEFAULT_PASS_AT
    if given is not None:
        return given
    if panel is None:
        panel = panel_of_slot(plan, task, scorer)
    return DEFAULT_PASS_AT if panel is None else float(panel.pass_at)


def scorer_calibration(
    counted: VerdictCounts, confusion: Confusion, labelled: int, models: list[str], version: ScorerVersion
) -> ScorerCalibration:
    tpr, tnr, passed = confusion.tpr(), confusion.tnr(), counted.passed()
    corrected = corrected_share(passed, tpr, tnr)
    return ScorerCalibration(
        pass_at=counted.pass_at,
        n_samples=counted.confusion.samples,
        n_trials=counted.confusion.trials,
        unscored=labelled - counted.confusion.trials,
        measured_on=models,
        confusion=confusion,
        agreement=confusion.agreement(),
        kappa=confusion.kappa(),
        tpr=tpr,
        tnr=tnr,
        passed=passed,
        corrected=None if isinstance(corrected, str) else corrected,
        why_not=corrected if isinstance(corrected, str) else "",
        version=version,
    )
