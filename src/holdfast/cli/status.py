"""`holdfast status`: progress, sessions, what is owed and why."""

from __future__ import annotations

import shlex

import click

from holdfast.analysis.report_text import cost_text
from holdfast.analysis.status import RunStatus, SessionStatus, run_status
from holdfast.cli.ui.json_output import print_json
from holdfast.cli.ui.standard_streams import say
from holdfast.cli.ui.terminal_text import printable, quantity
from holdfast.errors import HoldfastError
from holdfast.run.core.display_text import change_text
from holdfast.run.core.layout import all_runs
from holdfast.run.core.reader import RunReader
from holdfast.run.fold.remaining_trials import reasons_text
from holdfast.run.locate import find_run


@click.command("status")
@click.argument("run", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str | None, *, as_json: bool) -> int:
    """Show how far RUN is, what it cost and what its sessions did; without RUN, a line for every run."""
    if run is None:
        return _print_all_runs(as_json=as_json)
    status = _status_of(run)
    if as_json:
        print_json(status)
    else:
        _print_status(status)
    return 0


def _status_of(run: str) -> RunStatus:
    reader = RunReader(find_run(run))
    try:
        return run_status(reader)
    finally:
        reader.close()


def _print_all_runs(*, as_json: bool) -> int:
    found: list[RunStatus] = []
    for path in all_runs():
        try:
            found.append(_status_of(str(path)))
        except HoldfastError as error:
            say(printable(f"{path}: {error}"))
    if as_json:
        print_json({"runs": found})
        return 0
    for status in found:
        click.echo(printable(f"{status.state:<10} {status.finished:>7}/{status.planned:<7} {status.run}"))
    if not found:
        click.echo("There are no runs below runs/. Begin one with: holdfast run EVAL")
    return 0


def _print_status(status: RunStatus) -> None:
    lines = [
        f"{status.run}: {status.state}{', held by ' + status.held_by if status.held_by else ''}",
        f"  {status.finished} of {status.planned} trials finished, {status.owed} owed{reasons_text(status.why)}",
        f"  begun {status.started_at}, last written {status.last_updated_at}",
        f"  calls: {_calls_text(status)}",
        f"  tokens: {status.usage.input_tokens:,} in, {status.usage.output_tokens:,} out{cost_text(status.cost)}",
    ]
    if status.remote is not None and (lag := str(status.remote.lag)):
        lines.append(f"  {lag}")
    for session in status.sessions:
        lines += _session_lines(session)
    lines += [f"  note: {note}" for note in status.notes]
    if status.state == "incomplete":
        lines.append(f"  go on with: holdfast resume {shlex.quote(status.run)}")
    click.echo(printable("\n".join(lines)))


def _session_lines(session: SessionStatus) -> list[str]:
    ended = f", ended {session.ended_at}" if session.ended_at else ""
    work = f"{quantity(session.finished, 'trial')}, {quantity(session.calls, 'call')}"
    work += f", {session.in_flight_at_death} perhaps paid twice"
    return [
        f"  session {session.session}: {session.how}, began {session.started_at}{ended}: {work}",
        *(f"    {change.path}: {change_text(change.old, change.new)}" for change in session.changes),
        *(f"    {failure}" for failure in session.failures),
    ]


def _calls_text(status: RunStatus) -> str:
    calls = status.calls
    return f"{calls.made} made, {calls.replayed} replayed, {calls.in_flight_at_death} in flight when a session died"
