"""A calibration as text: a block for each task, model and scorer."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.analysis.calibration.calibration import Calibration, ScorerCalibration
from holdfast.analysis.intervals import Interval
from holdfast.analysis.text_table import plain_name
from holdfast.terminal.text import printable


def calibration_text(calibration: Calibration) -> str:
    """The lines, with those about what the figures do not contain."""
    rows = f"; {calibration.unlabelled} rows have no label yet" if calibration.unlabelled else ""
    lines = [f"compared with people: {calibration.labelled} trials are labelled{rows}"]
    for task, models in calibration.tasks.items():
        for model, scorers in models.items():
            for scorer, found in scorers.items():
                lines.append(f"{plain_name(task)} · {plain_name(model)} · {plain_name(scorer)}: {_basis(found, model)}")
                lines += [f"  {line}" for line in _figures(found)]
    return printable("\n".join(lines))


def _basis(found: ScorerCalibration, model: str) -> str:
    """What the rates rest on."""
    parts = [f"{found.n_trials} labels of {found.n_samples} samples"]
    if found.unscored:
        parts.append(f"{found.unscored} more have no score")
    if found.measured_on != [model]:
        parts.append(f"on answers of {', '.join(map(plain_name, found.measured_on))}")
    return ", ".join([*parts, f"a pass is {found.pass_at:g} or more"])


def _figures(found: ScorerCalibration) -> Iterator[str]:
    kappa, tpr, tnr, passed = found.kappa, found.tpr, found.tnr, found.passed
    if found.agreement is not None:
        yield _figure_line("agreement", found.agreement.value, found.agreement.interval)
    if kappa is not None:
        yield _figure_line("kappa", kappa.value, kappa.interval)
    for name, rate, what in (("TPR", tpr, "passes"), ("TNR", tnr, "fails")):
        if rate is not None:
            yield _figure_line(name, rate.value, rate.interval, f"of the {what} of people, n = {_number(rate.n)}")
    if passed is not None:
        yield _figure_line("passed", passed.value, passed.interval, f"by the scorer, n = {_number(passed.n)}")
    if found.corrected is not None:
        yield _figure_line(
            "corrected", found.corrected.value, found.corrected.interval, "passed, corrected for its errors"
        )
    else:
        yield f"cannot be corrected: {found.why_not}"


def _figure_line(name: str, value: float, interval: Interval | None, note: str = "") -> str:
    ends = "-" if interval is None else f"[{interval[0]:.3f}, {interval[1]:.3f}]"
    return f"{name:<9}  {value:6.3f}  {ends:<14}  {note}".rstrip()


def _number(n: float) -> str:
    """Samples that count in parts have a decimal."""
    return f"{n:.0f}" if n == round(n) else f"{n:.1f}"
