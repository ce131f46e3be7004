"""`holdfast status`: progress, sessions, what remains and why."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from holdfast.analysis.money import money_text
from holdfast.analysis.sampling_report import SamplingCounts
from holdfast.analysis.spending import tokens_text
from holdfast.analysis.status import RunStatus, run_status
from holdfast.cli.ui.json_output import as_object, print_json
from holdfast.cli.ui.next_command import NextSteps, stop_lines
from holdfast.cli.ui.output_text import output_columns
from holdfast.cli.ui.session_table import session_lines
from holdfast.cli.ui.table import Column, table_lines
from holdfast.errors import HoldfastError
from holdfast.journal import FORMAT
from holdfast.run.confirmed_results import open_results
from holdfast.run.core.run_id import continuing_command
from holdfast.run.core.start_time import start_time
from holdfast.run.fold.inconsistencies import no_session_text
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.rows.trial_row import MODEL_DISABLED, NO_REPLY, REFUSED
from holdfast.run.fold.states import StateCounts
from holdfast.run.locate import find_run, known_runs
from holdfast.terminal.text import printable, quantity, time_text
from holdfast.terminal.width import hanging, one_line

_COLOURS = {"complete": "green", "running": "cyan", "incomplete": "yellow", "unreadable": "red"}
_NO_RUN = "There is no run, neither below runs/ nor in this directory. Start one with: holdfast run EVAL"
_INDENT = 11
_MINUTE = len("2026-11-17 11:32")
_SHOWN_CHARACTERS = 2000


@click.command("status")
@click.argument("run", required=False)
@click.option("--sessions", "all_sessions", is_flag=True, help="List every session, also if there are more than ten.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str | None, *, all_sessions: bool, as_json: bool) -> int:
    """Show the progress, the cost and the sessions of RUN.

    Without RUN, list all runs, the newest one last, and show the newest one.
    """
    if run is None:
        _print_all_runs(all_sessions=all_sessions, as_json=as_json)
        return 0
    shown = _shown_run(find_run(run))
    if as_json:
        print_json(shown.status)
    else:
        _print_status(shown, all_sessions=all_sessions)
    return 0


class _ShownRun(NamedTuple):
    """A run that can be read, and what to type next about it."""

    status: RunStatus
    next_lines: list[str]


def _shown_run(root: Path) -> _ShownRun:
    with contextlib.closing(open_results(root)) as reader:
        status = run_status(reader)
        return _ShownRun(status, _next_lines(status, reader))


class UnreadableRun(msgspec.Struct, frozen=True):
    """A directory with a journal that cannot be opened."""

    run: str
    state: str
    error: str


def _print_all_runs(*, all_sessions: bool, as_json: bool) -> None:
    shown = [_shown_if_readable(root) for root in sorted(known_runs(), key=start_time)]
    found = [run.status if isinstance(run, _ShownRun) else run for run in shown]
    if as_json:
        print_json({"runs": [as_object(status) for status in found]})
        return
    if not found:
        click.echo(_NO_RUN)
        return
    newest = shown[-1]
    if len(found) > 1 or isinstance(newest, UnreadableRun):
        for line in _run_table(found, output_columns()):
            click.echo(line)
    if isinstance(newest, _ShownRun):
        click.echo("", nl=len(found) > 1)
        _print_status(newest, all_sessions=all_sessions)


def _shown_if_readable(root: Path) -> _ShownRun | UnreadableRun:
    try:
        return _shown_run(root)
    except HoldfastError as error:
        return UnreadableRun(str(root), "unreadable", str(error))


# All runs.


def _run_table(found: list[RunStatus | UnreadableRun], width: int) -> Iterator[str]:
    columns = [Column("run"), Column("state", colours=_COLOURS), Column("finished", is_number=True)]
    columns += [Column("started (UTC)", is_optional=True)]
    columns += [Column("cost", is_number=True)] if any(map(_cost_text, found)) else []
    header, *lines = table_lines(columns, [_run_cells(status)[: len(columns)] for status in found], width)
    yield header
    for status, line in zip(found, lines, strict=True):
        yield line
        if note := status.error if isinstance(status, UnreadableRun) else _holder_text(status):
            yield from hanging("  ", one_line(note, _SHOWN_CHARACTERS), width)


def _run_cells(status: RunStatus | UnreadableRun) -> list[str]:
    if isinstance(status, UnreadableRun):
        return [status.run, status.state, "", "", ""]
    finished = f"{status.counts.finished}/{status.counts.planned or '?'}"
    started = time_text(status.started_at, zone=False)[:_MINUTE]
    return [status.run, status.state, finished, started, _cost_text(status)]


def _cost_text(status: RunStatus | UnreadableRun) -> str:
    if isinstance(status, UnreadableRun) or status.cost is None:
        return ""
    return f"{'>=' if status.cost_is_lower_bound else ''}{money_text(status.cost, status.currency)}"


def _holder_text(status: RunStatus) -> str:
    return f"held by {status.held_by}" if status.held_by else ""


# One run.


def _print_status(shown: _ShownRun, *, all_sessions: bool) -> None:
    status, columns = shown.status, output_columns()
    lines = [printable(f"{status.run}: {status.state}")]
    for name, text in _facts(status):
        lines += hanging(f"  {name:<{_INDENT - 2}}", one_line(text, _SHOWN_CHARACTERS), columns)
    lines += session_lines(status.sessions, columns, all_sessions=all_sessions)
    # A command is not wrapped: it is to be copied.
    lines += [printable(f"  {line}") for line in shown.next_lines]
    click.echo("\n".join(lines))


def _facts(status: RunStatus) -> Iterator[tuple[str, str]]:
    counts = status.counts
    yield "name", status.name
    if status.held_by:
        yield "held by", status.held_by
    yield "trials", f"{counts.finished_text()}{counts.unusual_text()}, {counts.remaining_text()}"
    if states := _states_text(counts):
        yield "states", states
    yield "started", f"{time_text(status.started_at)}; last written {time_text(status.last_updated_at)}"
    yield "calls", _calls_text(status)
    yield from (("ledger", line) for line in status.ledger)
    yield "tokens", tokens_text(status.usage, is_partial=status.usage_is_partial)
    if status.cost is not None:
        least = "at least " if status.cost_is_lower_bound else ""
        yield "cost", f"{least}{money_text(status.cost, status.currency)}"
    if status.samplings is not None:
        yield "sampling", _samplings_text(status.samplings)
    yield from (("choice", choice.text()) for choice in status.choices)
    if status.held_by and status.remote is not None and (paused := status.remote.lag.paused_text()):
        yield "paused", paused.removeprefix("paused: ")
    if status.remote is not None and (lag := str(status.remote.lag)):
        yield "upload", lag
    if status.transcripts_lost:
        yield "damage", f"transcript lost: {quantity(status.transcripts_lost, 'trial')}; their scores are kept"
    yield from (("note", note) for note in status.notes)


def _states_text(counts: StateCounts) -> str:
    """How many trials are in which state; empty where all are valid, or none is known."""
    parts = [f"{count} {name.replace('_', ' ')}" for name, count in counts.states().items() if count]
    return ", ".join(parts) if len(parts) > 1 or counts.remaining else ""


def _samplings_text(samplings: SamplingCounts) -> str:
    capped = f", {samplings.capped} stopped by a cap" if samplings.capped else ""
    return f"{samplings.successes} of {samplings.count} succeeded{capped}"


def _calls_text(status: RunStatus) -> str:
    calls = status.calls
    text = f"{calls.made} made, {calls.replayed} replayed"
    # Whatever the last session left in flight has not been made again yet.
    left = status.sessions[-1].in_flight_at_kill if status.state == "incomplete" and status.sessions else 0
    if earlier := calls.in_flight_at_kill - left:
        text += f"; up to {quantity(earlier, 'call')} may have been billed twice"
    return text + (f"; up to {quantity(left, 'call')} in flight at the end, which a resume makes again" if left else "")


def _next_lines(status: RunStatus, reader: RunReader) -> list[str]:
    if not status.sessions:
        return [no_session_text(reader)]
    if status.state != "incomplete":
        return []
    if status.format < FORMAT:
        command = continuing_command(status.format, status.run)
        return [f"written in an older format; continue in a new run with: {command}"]
    failures = None
    if not {MODEL_DISABLED, NO_REPLY, REFUSED}.isdisjoint(status.counts.remaining_by_reason):
        # Slow to load, and only where a model did not reply does the error decide.
        from holdfast.analysis.failure_groups import read_failures  # noqa: PLC0415

        failures = read_failures(reader)
    first, may_be_deleted = reader.sessions[0], failures is not None and reader.may_be_deleted()
    steps = NextSteps(status.counts, status.run, first, failures, may_be_deleted=may_be_deleted)
    return [*stop_lines(reader.fold.stopped.values()), *steps.lines()]
