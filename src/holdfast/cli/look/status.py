"""`holdfast status`: progress, sessions, what remains and why."""

from __future__ import annotations

import shlex

import click
import msgspec

from holdfast.analysis.money import cost_text
from holdfast.analysis.sampling_report import SamplingCounts
from holdfast.analysis.status import RunStatus, SessionStatus, run_status
from holdfast.cli.ui.json_output import as_object, print_json
from holdfast.cli.ui.next_command import retry_scorers_text
from holdfast.cli.ui.terminal_text import printable, quantity
from holdfast.errors import HoldfastError
from holdfast.journal import FORMAT
from holdfast.run.core.display_text import change_text
from holdfast.run.core.layout import all_runs
from holdfast.run.core.run_id import continuing_command
from holdfast.run.fold.reader import RunReader
from holdfast.run.locate import find_run


@click.command("status")
@click.argument("run", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str | None, *, as_json: bool) -> int:
    """Show the progress of RUN, what it cost and what its sessions did; without RUN, a line for every run."""
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
    found: list[RunStatus | UnreadableRun] = []
    for path in all_runs():
        try:
            found.append(_status_of(str(path)))
        except HoldfastError as error:
            found.append(UnreadableRun(str(path), "unreadable", str(error)))
    if as_json:
        print_json({"runs": [as_object(status) for status in found]})
        return 0
    for status in found:
        click.echo(printable(_status_line(status)))
    if not found:
        click.echo("There are no runs below runs/. Start one with: holdfast run EVAL")
    return 0


class UnreadableRun(msgspec.Struct, frozen=True):
    """A directory with a journal that cannot be opened."""

    run: str
    state: str
    error: str


def _status_line(status: RunStatus | UnreadableRun) -> str:
    if isinstance(status, UnreadableRun):
        return f"{status.state:<10} {'?':>7}/{'?':<7} {status.run}: {status.error}"
    counts = status.counts
    return f"{status.state:<10} {counts.finished:>7}/{counts.planned or '?':<7} {status.run}"


def _print_status(status: RunStatus) -> None:
    cost = cost_text(status.cost, status.currency)
    lines = [
        f"{status.run}: {status.state}{', held by ' + status.held_by if status.held_by else ''}",
        f"  {status.counts.finished_text()}, {status.counts.remaining_text()}",
        f"  started {status.started_at or '(not known)'}, last written {status.last_updated_at}",
        f"  calls: {_calls_text(status)}",
        *_samplings_line(status.samplings),
        f"  tokens: {status.usage.input_tokens:,} in, {status.usage.output_tokens:,} out{cost}",
    ]
    if status.remote is not None and (lag := str(status.remote.lag)):
        lines.append(f"  {lag}")
    if status.transcripts_lost:
        lines.append(f"  transcript lost: {quantity(status.transcripts_lost, 'trial')}; their scores stand")
    for session in status.sessions:
        lines += _session_lines(session)
    lines += [f"  note: {note}" for note in status.notes]
    if not status.sessions:
        lines.append(f"  no session record can be read; rebuild it with: holdfast repair {shlex.quote(status.run)}")
    elif status.state == "incomplete":
        lines += _next_command_lines(status)
    click.echo(printable("\n".join(lines)))


def _next_command_lines(status: RunStatus) -> list[str]:
    counts, command = status.counts, continuing_command(status.format, status.run)
    if status.format < FORMAT:
        return [f"  written in an older format; continue in a new run with: {command}"]
    resume = [f"  resume with: {command}"] if counts.remaining > counts.failed_in_slots else []
    return resume + ([f"  {retry_scorers_text(counts, status.run)}"] if counts.failed_in_slots else [])


def _session_lines(session: SessionStatus) -> list[str]:
    ended = f", ended {session.ended_at}" if session.ended_at else ""
    work = f"{quantity(session.finished, 'trial')}, {quantity(session.calls, 'call')}"
    work += f", up to {quantity(session.in_flight_at_kill, 'call')} may have been billed twice"
    return [
        f"  session {session.number}: {session.ended_as}, started {session.started_at}{ended}: {work}",
        *(f"    {change.path}: {change_text(change.old, change.new)}" for change in session.changes),
        *(f"    {failure}" for failure in session.failures),
    ]


def _samplings_line(samplings: SamplingCounts | None) -> list[str]:
    if samplings is None:
        return []
    capped = f", {samplings.capped} stopped by a cap" if samplings.capped else ""
    return [f"  samplings: {samplings.successes} of {samplings.count} succeeded{capped}"]


def _calls_text(status: RunStatus) -> str:
    calls = status.calls
    in_flight = f"up to {calls.in_flight_at_kill} in flight when the process was killed"
    return f"{calls.made} made, {calls.replayed} replayed, {in_flight}"
