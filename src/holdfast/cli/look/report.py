"""`holdfast report`: what was measured, on how many trials, and at what cost."""

from __future__ import annotations

import click

from holdfast.analysis.report import make_report
from holdfast.cli.ui.json_output import print_json
from holdfast.cli.ui.standard_streams import say
from holdfast.run.fold.inconsistencies import describe_inconsistencies
from holdfast.run.fold.reader import RunReader
from holdfast.run.locate import find_run
from holdfast.terminal.text import printable


@click.command("report")
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str, *, as_json: bool) -> int:
    """Print the report of RUN, complete or not."""
    reader = RunReader(find_run(run))
    try:
        report, notes = make_report(reader), describe_inconsistencies(reader)
    finally:
        reader.close()
    if as_json:
        print_json(report)
    else:
        click.echo(printable(str(report)))
    for note in notes:
        say(printable(f"note: {note}"))
    return 0
