"""How the scorers of a run compare with labels of people, and what their shares of passes are without their errors.

`calibrate` measures the error rates of a run's scorers on its labelled answers. `apply_calibration` takes those that
were measured on another run, and refuses where the scorer or a judge is not the same version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path

import msgspec

from holdfast.analysis.agreement import Kappa
from holdfast.analysis.calibration.confusion import Confusion, ConfusionCounts
from holdfast.analysis.calibration.corrected import Corrected, Share, correct_share, share_of, why_not_corrected
from holdfast.analysis.calibration.labels import Labels
from holdfast.analysis.calibration.scorer_version import RunVersions, ScorerVersion, panel_of, version_changes
from holdfast.analysis.metrics import SampleScores
from holdfast.analysis.report import slots_with_samples
from holdfast.errors import UsageError
from holdfast.run.core.records import PlanEntry
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.rows.fold_tables import unpack_key

DEFAULT_PASS_AT = 0.5
_MAJORITY = "majority"
_MAKE = "Make it with: holdfast report RUN --labels FILE --json > FILE.json"


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


_Slot = tuple[str, str, str]
"""Task, model and scorer."""


class _Counts:
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
    counts = _counted(reader, lambda task, _, scorer: _pass_at(reader.fold.plan, task, scorer, pass_at), labels)
    found: dict[str, dict[str, dict[str, ScorerCalibration]]] = {}
    for (task, model, scorer), counted in sorted(counts.items()):
        labelled = labels.count(task, model, scorer)
        if labelled:
            version = versions.version(task, scorer)
            result = _result(counted, counted.confusion.confusion(), labelled, [model], version)
            found.setdefault(task, {}).setdefault(model, {})[scorer] = result
    return Calibration(len(labels.by_trial), labels.unlabelled, found)


def _counted(
    reader: RunReader, pass_at: Callable[[str, str, str], float], labels: Labels | None = None
) -> dict[_Slot, _Counts]:
    """One pass over all scores of the run."""
    entries = [(entry.task, entry.model, scorer) for entry in reader.fold.plan for scorer in _planned(entry)]
    found = {slot: _Counts(pass_at(*slot)) for slot in entries}
    for slot, sample, is_repeated in slots_with_samples(reader.fold):
        group = slot.standing.group
        place = (group.task, group.model, slot.scorer)
        if place not in found:
            found[place] = _Counts(pass_at(*place))
        if slot.value is not None:
            label = labels.of(unpack_key(slot.key), slot.scorer) if labels is not None else None
            person = label.passed if label is not None else None
            found[place].add(slot.value, sample, is_repeated=is_repeated, person=person)
    return found


def _planned(entry: PlanEntry) -> list[str]:
    """The names under which people see the scores of the plan."""
    shown: list[str] = getattr(entry, "shown_scorers", entry.scorers)
    return shown


def _pass_at(plan: list[PlanEntry], task: str, scorer: str, given: float | None) -> float:
    """The lowest score that is a pass: as given, or as a panel has it for its judges."""
    panel = panel_of(plan, task, scorer)
    if panel is not None and panel.combine == _MAJORITY:
        # The majority has been counted: its score is 1 or 0, whatever the scale of its judges.
        return DEFAULT_PASS_AT
    if given is not None:
        return given
    if panel is None:
        names = [name for entry in plan for name, one in getattr(entry, "panels", {}).items() if scorer in one.slots]
        panel = panel_of(plan, task, names[0]) if names else None
    return DEFAULT_PASS_AT if panel is None else float(panel.pass_at)


def _result(
    counted: _Counts, confusion: Confusion, labelled: int, models: list[str], version: ScorerVersion
) -> ScorerCalibration:
    tpr, tnr, passed = confusion.tpr(), confusion.tnr(), counted.passed()
    why_not = why_not_corrected(passed, tpr, tnr)
    can = passed is not None and tpr is not None and tnr is not None and not why_not
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
        corrected=correct_share(passed, tpr, tnr) if can and passed and tpr and tnr else None,
        why_not=why_not,
        version=version,
    )


class _CalibrationFile(msgspec.Struct):
    calibration: Calibration


def read_calibration(path: Path) -> Calibration:
    """What `report --labels FILE --json` has printed.

    Raises:
        UsageError: the file cannot be read, or is something else.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=_CalibrationFile).calibration
    except OSError as error:
        raise UsageError(f"--calibration {path}: {error.strerror or error}.") from None
    except (msgspec.MsgspecError, ValueError):
        raise UsageError(f"--calibration {path}: it holds no calibration.", hint=_MAKE) from None


def apply_calibration(reader: RunReader, measured: Calibration) -> Calibration:
    """The shares of passes of this run without the errors that were measured elsewhere.

    Where the answers of a model were not labelled, the rates are those over all models of the same task.

    Raises:
        UsageError: the calibration is of other scorers, or of another version of one of them.
    """
    sources = _sources(reader.fold.plan, measured)
    if not sources:
        names = sorted({f"{task}.{name}" for task, models in measured.tasks.items() for name in _all_scorers(models)})
        raise UsageError(f"The calibration is of other scorers: {', '.join(names) or 'none'}.", hint=_MAKE)
    _refuse_stale(reader, sources)
    counts = _counted(reader, lambda *slot: sources[slot].pass_at if slot in sources else DEFAULT_PASS_AT)
    found: dict[str, dict[str, dict[str, ScorerCalibration]]] = {}
    for (task, model, scorer), source in sorted(sources.items()):
        counted = counts[task, model, scorer]
        result = _result(counted, source.confusion, source.n_trials, source.measured_on, source.version)
        result = msgspec.structs.replace(
            result, n_samples=source.n_samples, n_trials=source.n_trials, unscored=source.unscored
        )
        found.setdefault(task, {}).setdefault(model, {})[scorer] = result
    return Calibration(measured.labelled, measured.unlabelled, found)


def _sources(plan: list[PlanEntry], measured: Calibration) -> dict[_Slot, ScorerCalibration]:
    """For every scorer of the plan that was calibrated, its calibration."""
    found: dict[_Slot, ScorerCalibration] = {}
    for entry in plan:
        models = measured.tasks.get(entry.task, {})
        for scorer in _planned(entry):
            own = models.get(entry.model, {}).get(scorer)
            others = [scorers[scorer] for scorers in models.values() if scorer in scorers]
            if own is not None or others:
                found[entry.task, entry.model, scorer] = own or _pooled(others)
    return found


def _pooled(parts: list[ScorerCalibration]) -> ScorerCalibration:
    """The calibrations of a scorer on several models as one."""
    first, *rest = parts
    for part in rest:
        first = msgspec.structs.replace(
            first,
            confusion=first.confusion.plus(part.confusion),
            n_samples=first.n_samples + part.n_samples,
            n_trials=first.n_trials + part.n_trials,
            unscored=first.unscored + part.unscored,
            measured_on=[*first.measured_on, *part.measured_on],
        )
    return first


def _all_scorers(models: Mapping[str, Mapping[str, ScorerCalibration]]) -> set[str]:
    return {scorer for scorers in models.values() for scorer in scorers}


def _refuse_stale(reader: RunReader, sources: Mapping[_Slot, ScorerCalibration]) -> None:
    versions = RunVersions(reader)
    changes = {
        f"{task}.{scorer}: {change}": None
        for (task, _, scorer), source in sources.items()
        for change in version_changes(source.version, versions.version(task, scorer))
    }
    if changes:
        raise UsageError(
            f"The calibration is stale; since the labels were compared, these have changed: {'; '.join(changes)}.",
            hint="Label answers of this run, and use: holdfast report RUN --labels FILE",
        )
