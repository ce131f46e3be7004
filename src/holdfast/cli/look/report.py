"""`holdfast report`: scores, coverage and cost."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from holdfast.analysis.fail_under import ScoreBound, check_bounds, compare_bounds
from holdfast.analysis.report import make_report
from holdfast.analysis.report_text import report_text
from holdfast.cli.ui.json_output import print_json
from holdfast.cli.ui.named_run import find_named_run
from holdfast.cli.ui.options.fail_under_option import bound_failures, fail_under_option, print_bound_failures
from holdfast.cli.ui.output_text import output_columns
from holdfast.cli.ui.standard_streams import say
from holdfast.errors import UsageError
from holdfast.run.confirmed_results import open_results
from holdfast.run.fold.inconsistencies import describe_inconsistencies
from holdfast.run.fold.reader import RunReader
from holdfast.run.locate import LATEST
from holdfast.terminal.text import printable

if TYPE_CHECKING:
    from holdfast.analysis.calibration.calibration import Calibration

_FILE = click.Path(path_type=Path)


@click.command("report")
@click.argument("run", default=LATEST)
@fail_under_option
@click.option("--labels", type=_FILE, metavar="FILE", help="Compare the scorers with labels of people (jsonl, csv).")
@click.option("--pass-at", type=float, metavar="SCORE", help="With --labels: the lowest score that is a pass.")
@click.option("--calibration", type=_FILE, metavar="FILE", help="Correct scores by what --labels --json has printed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    run: str,
    bounds: list[ScoreBound],
    *,
    labels: Path | None,
    pass_at: float | None,
    calibration: Path | None,
    as_json: bool,
) -> int:
    """Print scores and coverage of RUN, complete or not. Without RUN, the newest run."""
    with contextlib.closing(open_results(find_named_run(run))) as reader:
        check_bounds(bounds, reader.fold.plan)
        report, notes = make_report(reader), [*reader.count_notes, *describe_inconsistencies(reader)]
        results = compare_bounds(bounds, reader.fold.plan, report.tasks)
        compared = _calibration(reader, labels, pass_at, calibration)
    if as_json:
        print_json({**msgspec.structs.asdict(report), "fail_under": results, "calibration": compared})
    else:
        click.echo(report_text(report, output_columns()))
        _print_calibration(compared)
    for note in notes:
        say(printable(f"note: {note}"))
    failures = bound_failures(results, is_complete=report.complete) if bounds else []
    print_bound_failures(failures)
    return int(bool(failures))


def _calibration(
    reader: RunReader, labels: Path | None, pass_at: float | None, measured: Path | None
) -> Calibration | None:
    """The run's scorers beside people, if that is asked for."""
    if labels is not None and measured is not None:
        raise UsageError("Give either --labels or --calibration.")
    if labels is None and pass_at is not None:
        raise UsageError("--pass-at needs --labels.", hint="With --calibration, a pass is what it was when measured.")
    if pass_at is not None and not math.isfinite(pass_at):
        raise UsageError(f"--pass-at {pass_at} is not a score.")
    if measured is not None:
        from holdfast.analysis.calibration import measured_elsewhere  # noqa: PLC0415 - a plain report does not need it

        return measured_elsewhere.apply_calibration(reader, measured_elsewhere.read_calibration(measured))
    if labels is None:
        return None
    from holdfast.analysis.calibration.calibration import calibrate  # noqa: PLC0415 - as above
    from holdfast.analysis.calibration.labels import read_labels  # noqa: PLC0415 - as above

    return calibrate(reader, read_labels(labels, reader.fold, str(reader.layout.root)), pass_at)


def _print_calibration(compared: Calibration | None) -> None:
    if compared is not None:
        from holdfast.analysis.calibration.calibration_text import calibration_text  # noqa: PLC0415 - as above

        click.echo(f"\n{calibration_text(compared)}")
