"""`holdfast report`: scores, coverage and cost."""

from __future__ import annotations

import contextlib

import click
import msgspec

from holdfast.analysis.fail_under import ScoreBound, check_bounds, compare_bounds
from holdfast.analysis.report import make_report
from holdfast.analysis.report_text import report_text
from holdfast.cli.ui.fail_under_option import bound_failures, fail_under_option, print_bound_failures
from holdfast.cli.ui.json_output import print_json
from holdfast.cli.ui.named_run import find_named_run
from holdfast.cli.ui.output_text import output_columns
from holdfast.cli.ui.standard_streams import say
from holdfast.run.fold.inconsistencies import describe_inconsistencies
from holdfast.run.fold.reader import RunReader
from holdfast.run.locate import LATEST
from holdfast.terminal.text import printable


@click.command("report")
@click.argument("run", default=LATEST)
@fail_under_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str, bounds: list[ScoreBound], *, as_json: bool) -> int:
    """Print scores and coverage of RUN, complete or not. Without RUN, the newest run."""
    with contextlib.closing(RunReader(find_named_run(run))) as reader:
        check_bounds(bounds, reader.fold.plan)
        report, notes = make_report(reader), describe_inconsistencies(reader)
        results = compare_bounds(bounds, reader.fold.plan, report.tasks)
    if as_json:
        print_json({**msgspec.structs.asdict(report), "fail_under": results})
    else:
        click.echo(report_text(report, output_columns()))
    for note in notes:
        say(printable(f"note: {note}"))
    failures = bound_failures(results, is_complete=report.complete) if bounds else []
    print_bound_failures(failures)
    return int(bool(failures))
