"""`holdfast export`: write a run in the format of another tool."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.ui.json_output import print_json
from holdfast.cli.ui.named_run import find_named_run
from holdfast.cli.ui.options.local_path import LocalPath
from holdfast.cli.ui.standard_streams import say, write_output
from holdfast.errors import UsageError
from holdfast.run.locate import LATEST
from holdfast.terminal.text import printable, quantity

INSPECT, JSONL, PARQUET = "inspect", "jsonl", "parquet"
FORMATS = (INSPECT, JSONL, PARQUET)
_STANDARD_OUTPUT = Path("-")


@click.command("export")
@click.argument("run", default=LATEST)
@click.option("--to", "format_", type=click.Choice(FORMATS), required=True, help="The format.")
@click.option(
    "--output",
    type=LocalPath(),
    help="The file; for Inspect a directory, or the file if the run is one log; `-` prints JSON lines.",
)
@click.option("--overwrite", is_flag=True, help="Replace existing files.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str, format_: str, output: Path | None, *, overwrite: bool, as_json: bool) -> int:
    """Write RUN, finished or not, in the format of another tool. Without RUN, the newest run.

    A log of Inspect's has one task and one model: a run becomes one log for each task, model and combination of axes.
    JSON lines and Parquet have a row for each trial; Parquet needs the extra `parquet`.
    """
    if output == _STANDARD_OUTPUT and format_ != JSONL:
        raise UsageError(f"--to {format_} cannot be printed.", hint="Name a file, or use --to jsonl.")
    if format_ != INSPECT:
        return _export_rows(run, format_, output, overwrite=overwrite, as_json=as_json)
    return _export_inspect(run, output, overwrite=overwrite, as_json=as_json)


def _export_inspect(run: str, output: Path | None, *, overwrite: bool, as_json: bool) -> int:
    from holdfast.api.export_inspect import export_inspect  # noqa: PLC0415 - for this format only
    from holdfast.api.run import Run  # noqa: PLC0415 - as above

    with Run.open(find_named_run(run)) as opened:
        logs = export_inspect(opened, output, overwrite=overwrite)
        for note in opened.notes:
            say(printable(f"warning: {note}"))
    if as_json:
        print_json({"format": INSPECT, "logs": logs})
        return 0
    for log in logs:
        errors = f", {log.errors} with errors" if log.errors else ""
        click.echo(printable(f"{quantity(log.samples, 'sample')}{errors} ({log.status}): {log.log}"))
    if not logs:
        click.echo("Nothing is on record yet; no log was written.")
    return 0


def _export_rows(run: str, format_: str, output: Path | None, *, overwrite: bool, as_json: bool) -> int:
    from holdfast.api.reading.row_files import json_lines, write_jsonl, write_parquet  # noqa: PLC0415 - as above
    from holdfast.api.run import Run  # noqa: PLC0415 - as above

    with Run.open(find_named_run(run)) as opened:
        if output == _STANDARD_OUTPUT and format_ == JSONL:
            write_output(json_lines(opened))
            return 0
        write = write_jsonl if format_ == JSONL else write_parquet
        written = write(opened, output or Path(f"{opened.path.name}.{format_}"), overwrite=overwrite)
        for note in opened.notes:
            say(printable(f"warning: {note}"))
    if as_json:
        print_json(written)
    else:
        click.echo(printable(f"{quantity(written.rows, 'trial')}: {written.output}"))
    return 0
