"""`holdfast recover`: make a run or a crashed log whole from what survives, or list what can be recovered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.ui.json_output import print_json
from holdfast.cli.ui.options.local_path import LocalPath
from holdfast.cli.ui.standard_streams import say
from holdfast.errors import UsageError
from holdfast.journal import FORMAT
from holdfast.run.core.display_text import shell_word
from holdfast.run.core.layout import RUNS
from holdfast.run.core.run_id import continuing_command
from holdfast.run.remote.list_runs import Recoverable, list_recoverable
from holdfast.run.remote.recover import Recovered, recover
from holdfast.storage.operating_system import return_large_buffers
from holdfast.storage.store_url import is_url
from holdfast.terminal.text import duration_text, printable

if TYPE_CHECKING:
    from holdfast.interop.inspect.recovering.crashed_logs import CrashedLog
    from holdfast.interop.inspect.recovering.recovery import RecoveredLog

_LOG_ENDING = ".eval"
_OF_RUNS = ("--to", "--merge", "--no-steps")
_OF_LOGS = ("--output", "--no-events", "--overwrite")


@click.command("recover")
@click.argument("place", metavar="URL|LOG.eval|PLACE", required=False)
@click.option("--to", type=LocalPath(), help="Directory for the run; default: runs/<name>.")
@click.option("--merge", is_flag=True, help="Download the missing parts into a directory that holds part of the run.")
@click.option("--no-steps", is_flag=True, help="Leave out the transcripts of finished trials.")
@click.option("--output", type=LocalPath(dir_okay=False), help="Of a log: the file; default: LOG-recovered.eval.")
@click.option("--no-events", is_flag=True, help="Of a log: leave out the events of its samples.")
@click.option("--overwrite", is_flag=True, help="Of a log: replace an existing output.")
@click.option("--list", "listing", is_flag=True, help="List runs and crashed logs with their state; recover nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(  # noqa: PLR0913 - one for each option
    place: str | None,
    to: Path | None,
    output: Path | None,
    *,
    merge: bool,
    no_steps: bool,
    no_events: bool,
    overwrite: bool,
    listing: bool,
    as_json: bool,
) -> int:
    """Download the run at URL into a directory, where it is an ordinary run.

    Of a crashed log of Inspect's, write one that Inspect can view and retry. With --list, list the runs and the crashed
    logs in a directory, or the runs under a URL, instead. Exits with 1 if something in a log was skipped or is lost.
    """
    if listing:
        _list(place, as_json=as_json)
        return 0
    if place is None:
        raise UsageError(
            "recover needs the URL of a run, or a crashed log.", hint="`holdfast recover --list PLACE` lists them."
        )
    is_log = place.endswith(_LOG_ENDING) and not is_url(place)
    given = (to, merge, no_steps, output, no_events, overwrite)
    _check_options(dict(zip(_OF_RUNS + _OF_LOGS, map(bool, given), strict=True)), is_log=is_log)
    if is_log:
        return _recover_log(Path(place), output, with_events=not no_events, overwrite=overwrite, as_json=as_json)
    _recover_run(place, to, merge=merge, steps=not no_steps, as_json=as_json)
    return 0


def _check_options(given: dict[str, bool], *, is_log: bool) -> None:
    wrong = next((name for name in (_OF_RUNS if is_log else _OF_LOGS) if given[name]), None)
    if wrong:
        what, other = ("a run", "a log") if is_log else ("a log", "a run")
        raise UsageError(f"{wrong} is an option for {what}, and {other} is to be recovered.")
    if given["--merge"] and given["--no-steps"]:
        raise UsageError("--merge and --no-steps cannot be used together.", hint="A run without steps is a new run.")


def _list(place: str | None, *, as_json: bool) -> None:
    runs, logs = list_recoverable(place or RUNS), []
    if place is not None and not is_url(place):
        from holdfast.interop.inspect.recovering.crashed_logs import crashed_logs  # noqa: PLC0415 - for directories only

        logs = crashed_logs(Path(place))
    if as_json:
        print_json({"runs": runs, "logs": logs})
    elif not runs and not logs:
        click.echo("No runs found." if place is None else "No runs and no crashed logs found.")
    else:
        _print_recoverable(runs)
        _print_crashed(logs)


def _recover_run(place: str, to: Path | None, *, merge: bool, steps: bool, as_json: bool) -> None:
    # For the whole process, so that only its owner may: who calls Holdfast from Python is left alone.
    return_large_buffers()
    recovered = recover(place, to, merge=merge, steps=steps)
    if as_json:
        print_json(recovered)
    else:
        _print_recovered(recovered)


def _recover_log(log: Path, output: Path | None, *, with_events: bool, overwrite: bool, as_json: bool) -> int:
    from holdfast.interop.inspect.recovering.recovery import recover_log  # noqa: PLC0415 - for logs only

    recovered = recover_log(log, output, overwrite=overwrite, with_events=with_events)
    if as_json:
        print_json(recovered)
    else:
        _print_recovered_log(recovered)
    return 0 if recovered.ok else 1


def _print_recovered(recovered: Recovered) -> None:
    for warning in recovered.warnings:
        say(printable(f"warning: {warning}"))
    if recovered.fetched:
        click.echo(f"Downloaded {recovered.fetched} files, {recovered.bytes:,} bytes.")
    else:
        click.echo("Everything is already downloaded; nothing was written.")
    click.echo(printable(str(recovered)))
    if recovered.held_by:
        click.echo(printable(f"{recovered.url} is in use by {recovered.held_by}."))
        click.echo("This is a copy of what was uploaded so far. The run itself continues: do not resume the copy.")
    elif not recovered.planned:
        click.echo(printable(f"Rebuild the session record with: holdfast repair {shell_word(recovered.run)}"))
    elif recovered.finished < recovered.planned:
        way = "Resume with" if recovered.format == FORMAT else "Written in an older format; continue in a new run with"
        click.echo(f"{way}: {continuing_command(recovered.format, recovered.run)}")


def _print_recovered_log(recovered: RecoveredLog) -> None:
    for warning in recovered.warnings:
        say(printable(f"warning: {warning}"))
    counts: dict[tuple[str, str], int] = {}
    for sample in recovered.samples:
        counts[sample.state, sample.source] = counts.get((sample.state, sample.source), 0) + 1
    click.echo(printable(f"Recovered {len(recovered.samples)} samples into {recovered.output}:"))
    for (state, source), count in counts.items():
        click.echo(f"{count:>8}  {state:<15}  from the {source}")
    click.echo(_completeness_text(recovered))
    click.echo(printable(f"  inspect eval-retry {shell_word(recovered.output)}"))


def _completeness_text(recovered: RecoveredLog) -> str:
    complete = recovered.complete - recovered.unplanned
    planned = "" if recovered.planned is None else f" of {recovered.planned}"
    others = f", and {recovered.unplanned} that the dataset does not have" if recovered.unplanned else ""
    is_whole = complete == recovered.planned and recovered.complete == len(recovered.samples)
    then = "Inspect computes the metrics" if is_whole else "Inspect runs the others again"
    return f"{complete}{planned} are complete{others}; {then}:"


def _print_recoverable(found: list[Recoverable]) -> None:
    if not found:
        return
    click.echo(f"{'state':<10} {'finished':>15} {'source':<7} {'age':>8}  run")
    for item in found:
        age = duration_text(item.age_seconds) if item.age_seconds is not None else "-"
        count = "/".join("?" if number is None else str(number) for number in (item.finished, item.planned))
        click.echo(printable(f"{item.state:<10} {count:>15} {item.source:<7} {age:>8}  {item.run}"))
        if item.note:
            click.echo(printable(f"           {item.note}"))


def _print_crashed(found: list[CrashedLog]) -> None:
    if not found:
        return
    click.echo(f"{'state':<10} {'complete':>15} {'source':<9} {'age':>8}  log")
    for item in found:
        planned = "?" if item.planned is None else item.planned
        count = f"{item.in_log + item.complete}/{planned}"
        age = duration_text(item.age_seconds)
        click.echo(printable(f"{item.state:<10} {count:>15} {item.source:<9} {age:>8}  {item.log}"))
        if item.note:
            click.echo(printable(f"           {item.note}"))
