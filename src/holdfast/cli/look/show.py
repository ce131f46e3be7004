"""`holdfast show`: the trials of a run, or the transcript of one."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

import click
import msgspec

from holdfast.api.run import Run
from holdfast.api.trial_results import TrialResult
from holdfast.cli.ui.json_output import as_json_value, print_json
from holdfast.cli.ui.large_records import print_transcript_json, with_line_breaks
from holdfast.cli.ui.message_text import first_characters, message_text
from holdfast.cli.ui.sampling_grid import sampling_lines
from holdfast.errors import UsageError
from holdfast.run.core.records import (
    CANDIDATE,
    CHOICE,
    AnswerRecord,
    Failure,
    SamplingSummary,
    ScoreRecord,
    StepRecord,
    TrialRecord,
)
from holdfast.run.fold.reader import LargeRecord
from holdfast.sampling.on_record import RecordedSamplings, StepPlace, sampling_place
from holdfast.terminal.text import printable, quantity, terminal_columns

_CANDIDATES = 8


@click.command("show")
@click.argument("run")
@click.argument("trial", required=False)
@click.option("--where", metavar="EXPR", help="Only these trials, as in: status=failed and task=math")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Show at most N trials.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str, trial: str | None, *, where: str | None, limit: int, as_json: bool) -> int:
    """List the trials of RUN, or show the transcript of TRIAL: its key, the beginning of it, or a sample's id."""
    if trial is not None and where is not None:
        raise UsageError("--where selects among trials; it cannot be used with one TRIAL.")
    with Run.open(run) as opened:
        if trial is not None:
            _print_transcript(opened, trial, as_json=as_json)
        else:
            _print_trials(opened, where, limit, as_json=as_json)
    return 0


def _print_trials(run: Run, where: str | None, limit: int, *, as_json: bool) -> None:
    found = run.select(where)
    shown = [run.result(trial, with_sample=as_json) for trial in islice(found, limit)]
    # Without an expression nobody has to look at the others to know how many there are.
    total = run.on_record if where is None else len(shown) + sum(1 for _ in found)
    if where is not None and not total:
        raise UsageError(_no_match(run, where))
    if as_json:
        rows = [row.as_dict() for row in shown]
        print_json({"run": run.place, "counts": run.counts, "matching": total, "trials": rows, "notes": run.notes})
        return
    for row in shown:
        click.echo(printable(_trial_line(row)))
    if total > len(shown):
        click.echo(f"… and {total - len(shown)} more; --limit shows more")
    counts = run.counts
    click.echo(f"{counts.finished_text()}, {counts.remaining_text()}.")


def _no_match(run: Run, where: str) -> str:
    hidden = run.counts.not_started
    beside = (
        f" {quantity(hidden, 'trial')} not started yet {'has' if hidden == 1 else 'have'} no record." if hidden else ""
    )
    return f"No trial on record in {run.place} matches {where!r}.{beside}"


def _trial_line(row: TrialResult) -> str:
    scores = " ".join(f"{name}={_score_text(value)}" for name, value in row.scores.items())
    error = f" {_failure_text(row.error)}" if row.error else ""
    attempt = f" (attempt {row.attempt})" if row.attempt > 1 else ""
    reason = f" ({row.reason})" if row.reason else ""
    return " ".join(f"{row.trial} {row.state.value}{reason}{attempt} {_coordinates(row)} {scores}{error}".split())[:300]


def _failure_text(error: Failure) -> str:
    from holdfast.api.failure_text import failure_line  # noqa: PLC0415 - needed for failed trials only

    return failure_line(error)


def _coordinates(row: TrialResult | TrialRecord) -> str:
    axes = "".join(f" {name}={value}" for name, value in row.axes.items())
    return f"{row.task} {row.model} {row.sample}#{row.epoch}{axes}"


def _print_transcript(run: Run, text: str, *, as_json: bool) -> None:
    key = _find_trial_key(run, text)
    if as_json:
        _print_json_transcript(key, run.transcript(key))
    else:
        _print_records(run.transcript(key))


def _print_json_transcript(key: str, records: Iterator[Any]) -> None:
    """One object, printed piece by piece from the first record on that is too large to be held."""
    held: list[Any] = []
    for record in records:
        if isinstance(record, LargeRecord):
            print_transcript_json(key, chain(held, [record], records))
            return
        held.append(record)
    recorded = RecordedSamplings()
    for record in held:
        recorded.add(record)
    samplings = [as_json_value(one) for one in recorded.samplings()]
    print_json({"trial": key, "records": held, **({"samplings": samplings} if samplings else {})})


def _print_records(records: Iterable[Any]) -> None:
    """The transcript; each sampling at its choice, which comes after its candidates, and the others at the end."""
    found: dict[tuple[int, str], RecordedSamplings] = {}
    ended: set[tuple[int, str]] = set()
    for record in records:
        place = sampling_place(record) if isinstance(record, StepRecord) else None
        if place is not None:
            found.setdefault(place[:2], RecordedSamplings()).add(record)
        if place is None or record.name not in {CANDIDATE, CHOICE}:
            _print_record(record, place)
            if isinstance(record, TrialRecord) and not found:
                _print_summaries(record.samplings)
        elif record.name == CHOICE and place[:2] not in ended:
            ended.add(place[:2])
            _print_samplings(found[place[:2]])
    for of, recorded in found.items():
        if of not in ended:
            _print_samplings(recorded)


def _print_summaries(summaries: Iterable[SamplingSummary]) -> None:
    """What is known of samplings whose steps were deleted or lost."""
    for one in summaries:
        chosen = f"lane {one.lane}, turn {one.turn}" if one.lane >= 0 else "none"
        outcome = "success" if one.success else "failure"
        text = f"sampling ({one.strategy}): {outcome}, chosen: {chosen}; its candidates are no longer on record"
        click.echo(printable(text))


def _print_samplings(recorded: RecordedSamplings) -> None:
    chosen = os.environ.get("COLUMNS", "")
    columns = int(chosen) if chosen.isdecimal() and int(chosen) else terminal_columns(sys.stdout)
    for sampling in recorded.samplings():
        for line in sampling_lines(sampling, columns):
            click.echo(line)


def _print_record(record: Any, place: StepPlace | None) -> None:
    if not isinstance(record, LargeRecord):
        click.echo(printable(_record_text(record, place)))
        return
    click.echo(f"── {record.type} of {record.size:,} bytes, as it is stored")
    for part in with_line_breaks(record.pieces):
        click.echo(printable(part), nl=False)
    click.echo()


def _find_trial_key(run: Run, text: str) -> str:
    keys = {key for key in run.trial_keys() if key.startswith(text)}
    if text not in keys and len(keys) != 1:
        keys |= run.trials_of_sample(text)
    if text in keys:
        return text
    if len(keys) == 1:
        return keys.pop()
    if keys:
        named = ", ".join(_key_with_coordinates(run, key) for key in sorted(keys)[:_CANDIDATES])
        more = f" and {len(keys) - _CANDIDATES} more" if len(keys) > _CANDIDATES else ""
        raise UsageError(f"{text!r} matches {len(keys)} trials: {named}{more}.", hint="Give more of the key.")
    raise UsageError(
        f"There is no trial {text!r} in {run.path}.", hint=f"`holdfast show {shlex.quote(str(run.path))}` lists them."
    )


def _key_with_coordinates(run: Run, key: str) -> str:
    """A key, and which trial it is."""
    ends = [record for record in run.records_of(key) if isinstance(record, TrialRecord)]
    return f"{key} ({_coordinates(ends[-1])})" if ends else key


def _record_text(record: Any, place: StepPlace | None) -> str:
    if isinstance(record, StepRecord):
        return _step_text(record, place)
    if isinstance(record, AnswerRecord):
        return f"── answer (attempt {record.attempt})\n{first_characters(record.text)}"
    if isinstance(record, ScoreRecord):
        return _slot_text(record)
    error = f"\n{record.error.kind}: {record.error.message}\n{record.error.traceback}" if record.error else ""
    calls = f"{quantity(record.calls, 'call')}, {record.replayed} replayed"
    return f"── {record.status.value} after {record.seconds:.2f} s (attempt {record.attempt}), {calls}{error}"


def _slot_text(record: ScoreRecord) -> str:
    if record.error is not None:
        error = f"{record.error.kind}: {record.error.message}\n{record.error.traceback}"
        return f"── score {record.scorer} failed (attempt {record.slot_attempt})\n{error}"
    why = f": {record.explanation}" if record.explanation else ""
    return f"── score {record.scorer} = {_score_text(record.value)}{why}"


def _score_text(value: float | None) -> str:
    return "unscored" if value is None else f"{value:g}"


def _step_text(step: StepRecord, place: StepPlace | None) -> str:
    lines = [f"── step {step.name} (attempt {step.attempt}{_place_text(place)})"]
    if step.error is not None:
        return f"{lines[0]} came to nothing\n{step.error.message}"
    if isinstance(step.request, dict) and isinstance(step.request.get("messages"), list):
        lines += [message_text(_speaker(message), message) for message in step.request["messages"]]
        lines.append(message_text(step.model, step.result))
    else:
        lines.append(first_characters(msgspec.json.encode(step.result).decode()))
    return "\n".join(lines)


def _place_text(place: StepPlace | None) -> str:
    """Where in a sampling a step was done."""
    if place is None or place.lane < 0:
        return ""
    return f", sampling {place.number}, lane {place.lane}, turn {place.turn}"


def _speaker(message: Any) -> str:
    if not isinstance(message, dict):
        return "?"
    call = message.get("tool_call_id")
    return f"{message.get('role')} for {call}" if call else str(message.get("role"))
