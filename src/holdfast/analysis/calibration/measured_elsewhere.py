"""Error rates of scorers that were measured on one run, applied to the scores of another.

They hold for the version that they were measured with: where the scorer, its rubric or a judge is another one now, the
calibration is stale and refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from holdfast.analysis.calibration.calibration import (
    DEFAULT_PASS_AT,
    Calibration,
    ScorerCalibration,
    ScorerPlace,
    count_verdicts,
    planned_names,
    scorer_calibration,
)
from holdfast.analysis.calibration.scorer_version import RunVersions, version_changes
from holdfast.errors import UsageError
from holdfast.run.core.records import PlanEntry
from holdfast.run.fold.reader import RunReader

_MAKE = "Make it with: holdfast report RUN --labels FILE --json > OUT.json"


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
    counts = count_verdicts(reader, lambda *slot: sources[slot].pass_at if slot in sources else DEFAULT_PASS_AT)
    found: dict[str, dict[str, dict[str, ScorerCalibration]]] = {}
    for (task, model, scorer), source in sorted(sources.items()):
        counted = counts[task, model, scorer]
        result = scorer_calibration(counted, source.confusion, source.n_trials, source.measured_on, source.version)
        result = msgspec.structs.replace(
            result, n_samples=source.n_samples, n_trials=source.n_trials, unscored=source.unscored
        )
        found.setdefault(task, {}).setdefault(model, {})[scorer] = result
    return Calibration(measured.labelled, measured.unlabelled, found)


def _sources(plan: list[PlanEntry], measured: Calibration) -> dict[ScorerPlace, ScorerCalibration]:
    """For every scorer of the plan that was calibrated, its calibration."""
    found: dict[ScorerPlace, ScorerCalibration] = {}
    for entry in plan:
        models = measured.tasks.get(entry.task, {})
        for scorer in planned_names(entry):
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


def _refuse_stale(reader: RunReader, sources: Mapping[ScorerPlace, ScorerCalibration]) -> None:
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
