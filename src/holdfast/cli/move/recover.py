"""`holdfast recover`: download a run from an object store, or list the runs that can be downloaded."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.ui.json_output import print_json
from holdfast.cli.ui.standard_streams import say
from holdfast.errors import UsageError
from holdfast.journal import FORMAT
from holdfast.run.core.layout import RUNS
from holdfast.run.core.run_id import continuing_command
from holdfast.run.remote.list_runs import Recoverable, list_recoverable
from holdfast.run.remote.recover import Recovered, recover
from holdfast.terminal.text import duration_text, printable


@click.command("recover")
@click.argument("place", metavar="URL|PLACE", required=False)
@click.option("--to", type=click.Path(path_type=Path), help="Directory for the run; default: runs/<name>.")
@click.option("--merge", is_flag=True, help="Download the missing parts into a directory that holds part of the run.")
@click.option("--no-steps", is_flag=True, help="Leave out the transcripts of finished trials.")
@click.option("--list", "listing", is_flag=True, help="List runs with their state, and download nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(place: str | None, to: Path | None, *, merge: bool, no_steps: bool, listing: bool, as_json: bool) -> int:
    """Download the run at URL into a directory, where it is an ordinary run.

    With --list, list the runs in a directory or under a URL instead.
    """
    if listing:
        _print_recoverable(list_recoverable(place or RUNS), as_json=as_json)
        return 0
    if place is None:
        raise UsageError("recover needs the URL of a run.", hint="`holdfast recover --list PLACE` lists the runs.")
    if merge and no_steps:
        raise UsageError("--merge and --no-steps cannot be used together.", hint="A run without steps is a new run.")
    recovered = recover(place, to, merge=merge, steps=not no_steps)
    if as_json:
        print_json(recovered)
    else:
        _print_recovered(recovered)
    return 0


def _print_recovered(recovered: Recovered) -> None:
    for warning in recovered.warnings:
        say(printable(f"warning: {warning}"))
    if recovered.fetched:
        click.echo(f"Downloaded {recovered.fetched} files, {recovered.bytes:,} bytes.")
    else:
        click.echo("Everything is already downloaded; nothing was written.")
    click.echo(printable(str(recovered)))
    if recovered.finished < recovered.planned:
        way = "Resume with" if recovered.format == FORMAT else "Written in an older format; continue in a new run with"
        click.echo(f"{way}: {continuing_command(recovered.format, recovered.run)}")


def _print_recoverable(found: list[Recoverable], *, as_json: bool) -> None:
    if as_json:
        print_json({"runs": found})
        return
    if not found:
        click.echo("No runs found.")
        return
    click.echo(f"{'state':<10} {'finished':>15} {'source':<7} {'age':>8}  run")
    for item in found:
        age = duration_text(item.age_seconds) if item.age_seconds is not None else "-"
        count = "/".join("?" if number is None else str(number) for number in (item.finished, item.planned))
        click.echo(printable(f"{item.state:<10} {count:>15} {item.source:<7} {age:>8}  {item.run}"))
        if item.note:
            click.echo(printable(f"           {item.note}"))
