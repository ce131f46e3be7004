"""`holdfast show`: the trials of a run, or the transcript of one."""

from __future__ import annotations

import shlex
from typing import Any

import click
import msgspec

from holdfast.api.run import Run
from holdfast.cli.ui.json_output import print_json
from holdfast.cli.ui.large_records import print_transcript_json, with_line_breaks
from holdfast.cli.ui.terminal_text import printable, quantity
from holdfast.engine.failure_text import failure_line
from holdfast.errors import UsageError
from holdfast.run.core.reader import LargeRecord
from holdfast.run.core.records import AnswerRecord, ScoreRecord, StepRecord, TrialRecord

_SHOWN_CHARACTERS = 20_000
_CANDIDATES = 8


@click.command("show")
@click.argument("run")
@click.argument("trial", required=False)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many trials.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str, trial: str | None, *, limit: int, as_json: bool) -> int:
    """List the trials of RUN, or show the transcript of TRIAL: its key, the beginning of it, or a sample's id."""
    with Run.open(run) as opened:
        if trial is None:
            _print_trials(opened, limit, as_json=as_json)
        else:
            _print_transcript(opened, trial, as_json=as_json)
    return 0


def _print_trials(run: Run, limit: int, *, as_json: bool) -> None:
    shown: list[TrialRecord] = []
    total = 0
    for record in run.trials():
        total += 1
        if len(shown) < limit:
            shown.append(record)
    if as_json:
        print_json({"run": str(run.path), "total": total, "trials": shown})
        return
    for record in shown:
        click.echo(printable(_trial_line(record)))
    if total > len(shown):
        click.echo(f"… and {total - len(shown)} more; --limit shows more")
    if not total:
        click.echo("No trial has ended yet.")


def _trial_line(record: TrialRecord) -> str:
    scores = " ".join(f"{name}={value:g}" for name, value in record.scores.items())
    error = f" {failure_line(record.error)}" if record.error else ""
    attempt = f" (attempt {record.attempt})" if record.attempt > 1 else ""
    return " ".join(f"{record.trial} {record.status.value}{attempt} {_coordinates(record)} {scores}{error}".split())[
        :300
    ]


def _coordinates(record: TrialRecord) -> str:
    axes = "".join(f" {name}={value}" for name, value in record.axes.items())
    return f"{record.task} {record.model} {record.sample}#{record.epoch}{axes}"


def _print_transcript(run: Run, text: str, *, as_json: bool) -> None:
    key = _find_trial_key(run, text)
    if not as_json:
        for record in run.transcript(key):
            _print_record(record)
    elif any(isinstance(record, LargeRecord) for record in run.transcript(key)):
        print_transcript_json(key, run.transcript(key))
    else:
        print_json({"trial": key, "records": run.records_of(key)})


def _print_record(record: Any) -> None:
    if not isinstance(record, LargeRecord):
        click.echo(printable(_record_text(record)))
        return
    click.echo(f"── {record.type} of {record.size:,} bytes, as it is stored")
    for part in with_line_breaks(record.pieces):
        click.echo(printable(part), nl=False)
    click.echo()


def _find_trial_key(run: Run, text: str) -> str:
    keys = {key for key in run.trial_keys() if key.startswith(text)}
    if text not in keys and len(keys) != 1:
        keys |= {record.trial for record in run.trials() if record.sample == text}
    if text in keys:
        return text
    if len(keys) == 1:
        return keys.pop()
    if keys:
        named = ", ".join(_key_with_coordinates(run, key) for key in sorted(keys)[:_CANDIDATES])
        more = f" and {len(keys) - _CANDIDATES} more" if len(keys) > _CANDIDATES else ""
        raise UsageError(f"{text!r} fits {len(keys)} trials: {named}{more}.", hint="Give more of the key.")
    raise UsageError(
        f"There is no trial {text!r} in {run.path}.", hint=f"`holdfast show {shlex.quote(str(run.path))}` lists them."
    )


def _key_with_coordinates(run: Run, key: str) -> str:
    """A key, and which trial it is."""
    ends = [record for record in run.records_of(key) if isinstance(record, TrialRecord)]
    return f"{key} ({_coordinates(ends[-1])})" if ends else key


def _record_text(record: Any) -> str:
    if isinstance(record, StepRecord):
        return _step_text(record)
    if isinstance(record, AnswerRecord):
        return f"── answer (attempt {record.attempt})\n{_first_characters(record.text)}"
    if isinstance(record, ScoreRecord):
        why = f": {record.explanation}" if record.explanation else ""
        return f"── score {record.scorer} = {record.value}{why}"
    error = f"\n{record.error.kind}: {record.error.message}\n{record.error.traceback}" if record.error else ""
    calls = f"{quantity(record.calls, 'call')}, {record.replayed} replayed"
    return f"── {record.status.value} after {record.seconds:.2f} s (attempt {record.attempt}), {calls}{error}"


def _step_text(step: StepRecord) -> str:
    lines = [f"── step {step.name} (attempt {step.attempt})"]
    if step.error is not None:
        return f"{lines[0]} came to nothing\n{step.error.message}"
    if isinstance(step.request, dict) and isinstance(step.request.get("messages"), list):
        lines += [
            f"[{message.get('role')}] {_first_characters(message.get('content'))}"
            for message in step.request["messages"]
        ]
        result = step.result.get("text", "") if isinstance(step.result, dict) else step.result
        lines.append(f"[{step.model}] {_first_characters(result)}")
    else:
        lines.append(_first_characters(msgspec.json.encode(step.result).decode()))
    return "\n".join(lines)


def _first_characters(text: object) -> str:
    """The beginning of a text, as much as a person may want to read."""
    whole = str(text)
    if len(whole) <= _SHOWN_CHARACTERS:
        return whole
    return (
        f"{whole[:_SHOWN_CHARACTERS]}… and {len(whole) - _SHOWN_CHARACTERS:,} characters more; --json has all of them"
    )
