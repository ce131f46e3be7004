"""The transcript of a trial: every record in order, each sampling as a grid, the beginning of large records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import click
import msgspec

from holdfast.analysis.failure_groups import in_the_past
from holdfast.cli.ui.json_output import as_json_value, print_json
from holdfast.cli.ui.large_records import print_transcript_json, with_line_breaks
from holdfast.cli.ui.message_text import first_characters, first_of_pieces, message_text
from holdfast.cli.ui.output_text import output_columns
from holdfast.cli.ui.sampling_grid import sampling_lines
from holdfast.cli.ui.trials.trial_table import trial_score
from holdfast.models.role import ModelRole
from holdfast.run.core.records import (
    CANDIDATE,
    CHOICE,
    IMPORTED,
    AnswerRecord,
    Failure,
    SamplingSummary,
    ScoreRecord,
    StepRecord,
    TrialRecord,
)
from holdfast.run.fold.reader import LargeRecord
from holdfast.sampling.on_record import RecordedSamplings, StepPlace, sampling_place
from holdfast.terminal.text import printable, quantity


def print_json_transcript(key: str, row: Mapping[str, Any], records: Iterator[Any]) -> None:
    """One object, printed piece by piece from the first record on that is too large to be held."""
    held: list[Any] = []
    for record in records:
        if isinstance(record, LargeRecord):
            print_transcript_json(key, row, chain(held, [record], records))
            return
        held.append(record)
    recorded = RecordedSamplings()
    for record in held:
        recorded.add(record)
    samplings = [as_json_value(one) for one in recorded.samplings()]
    print_json({"trial": key, "row": row, "records": held, **({"samplings": samplings} if samplings else {})})


def print_transcript(records: Iterable[Any]) -> None:
    """The transcript; each sampling at its choice, which comes after its candidates, and the others at the end."""
    found: dict[tuple[int, str], RecordedSamplings] = {}
    ended: set[tuple[int, str]] = set()
    is_summed_up = False
    last: Any = None
    unanswered, failures = 0, _PrintedFailures()
    judges = _JudgeCalls()
    for record in records:
        if _is_end_without_retry(last, record):
            click.echo(f"── not retried (attempt {record.attempt}): the task was stopped")
            continue
        last = record
        judges.add(record)
        unanswered += isinstance(record, StepRecord) and _is_unanswered(record)
        place = sampling_place(record) if isinstance(record, StepRecord) else None
        if place is not None:
            found.setdefault(place[:2], RecordedSamplings()).add(record)
        if place is None or record.name not in {CANDIDATE, CHOICE}:
            _print_record(record, place, unanswered, failures, is_judged=bool(judges.replies))
            if isinstance(record, TrialRecord):
                unanswered = 0
                # Without any choice on record the steps were deleted: the final conversation is all that is left.
                is_summed_up = is_summed_up or (bool(record.samplings) and not ended)
                _print_summaries(() if ended else record.samplings)
        elif record.name == CHOICE and place[:2] not in ended:
            ended.add(place[:2])
            _print_samplings(found[place[:2]])
    for of, recorded in found.items():
        if of not in ended and not is_summed_up:
            _print_samplings(recorded)
    if line := judges.line():
        click.echo(printable(line))


class _JudgeCalls:
    """The calls of scorers, which the end of an attempt does not count: some are made after it."""

    def __init__(self) -> None:
        self.replies: Counter[str] = Counter()
        """By model, how many calls are on record, with a reply or without one."""
        self._unanswered = self._large = 0

    def add(self, record: Any) -> None:
        # Who was asked in a record of many megabytes is not looked for.
        self._large += isinstance(record, LargeRecord) and record.type == "step"
        if isinstance(record, StepRecord) and record.model and record.role is ModelRole.JUDGE:
            self.replies[record.model] += 1
            self._unanswered += record.error is not None

    def line(self) -> str:
        """How many there are, by judge; empty if there are none."""
        if not self.replies:
            return ""
        without = f", {self._unanswered} without a reply" if self._unanswered else ""
        by_judge = ", ".join(f"{name} {count}" for name, count in self.replies.items())
        large = f"; {quantity(self._large, 'large step')} not counted" if self._large else ""
        return f"── judges: {quantity(self.replies.total(), 'call')}{without} ({by_judge}){large}"


def _is_unanswered(step: StepRecord) -> bool:
    """Whether it is a call of the solver that was sent and got no reply: the end of an attempt does not count it."""
    return step.error is not None and step.tries > 0 and step.role is ModelRole.UNDER_TEST


def _is_end_without_retry(last: Any, record: Any) -> bool:
    """Whether it only says that the end before it, after which another attempt was to follow, was the last."""
    ends = isinstance(last, TrialRecord) and isinstance(record, TrialRecord)
    return ends and last.will_retry and not record.will_retry and last.attempt == record.attempt


def _print_summaries(summaries: Iterable[SamplingSummary]) -> None:
    """What is known of samplings whose steps were deleted or lost."""
    for one in summaries:
        chosen = f"lane {one.lane}, turn {one.turn}" if one.lane >= 0 else "none"
        outcome = "success" if one.success else "failure"
        text = f"sampling ({one.strategy}): {outcome}, chosen: {chosen}; its candidates are no longer on record"
        click.echo(printable(text))


def _print_samplings(recorded: RecordedSamplings) -> None:
    for sampling in recorded.samplings():
        for line in sampling_lines(sampling, output_columns()):
            click.echo(line)


class _PrintedFailures:
    """The failures of a transcript; each has its traceback once, however many attempts have raised it."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str, str]] = set()

    def text(self, error: Failure) -> str:
        same = (error.kind, error.message, error.traceback)
        is_known, line = same in self._known, f"{error.kind}: {in_the_past(error.message)}"
        self._known.add(same)
        return f"{line}\n(the traceback is above)" if is_known and error.traceback else f"{line}\n{error.traceback}"


def _print_record(
    record: Any, place: StepPlace | None, unanswered: int, failures: _PrintedFailures, *, is_judged: bool
) -> None:
    if not isinstance(record, LargeRecord):
        click.echo(printable(_record_text(record, place, unanswered, failures, is_judged=is_judged)))
        return
    click.echo(f"── {record.type} of {record.size:,} bytes, as it is stored")
    click.echo(printable(first_of_pieces(with_line_breaks(record.pieces), record.size)))


def _record_text(
    record: Any, place: StepPlace | None, unanswered: int, failures: _PrintedFailures, *, is_judged: bool
) -> str:
    if isinstance(record, StepRecord):
        return _step_text(record, place)
    if isinstance(record, AnswerRecord):
        return f"── answer (attempt {record.attempt})\n{first_characters(record.text)}"
    if isinstance(record, ScoreRecord):
        return _slot_text(record, failures)
    error = f"\n{failures.text(record.error)}" if record.error else ""
    if record.source == IMPORTED:
        return f"── {record.status.value} after {record.seconds:.2f} s, imported{_imported_text(record)}{error}"
    without = f", {unanswered} without a reply" if unanswered else ""
    solver = " of the solver" if is_judged else ""
    calls = f"{quantity(record.calls + unanswered, 'call')}{solver}{without}, {record.replayed} replayed"
    return f"── {record.status.value} after {record.seconds:.2f} s (attempt {record.attempt}), {calls}{error}"


def _imported_text(end: TrialRecord) -> str:
    """Where the result of another tool was, what that tool says it cost, and what else it says of the trial."""
    kept = end.imported
    cost = f"; recorded cost: {kept['cost']}" if kept.get("cost") is not None else ""
    lines = [f"{name}: {msgspec.json.encode(value).decode()}" for name, value in kept.get("fields", {}).items()]
    return "\n".join([f" from {kept.get('place', 'another tool')}{cost}", *map(first_characters, lines)])


def _slot_text(record: ScoreRecord, failures: _PrintedFailures) -> str:
    if record.error is not None:
        failed = f"── score {record.scorer} failed (attempt {record.slot_attempt})"
        return f"{failed}\n{failures.text(record.error)}"
    why = f": {record.explanation}" if record.explanation else ""
    return f"── score {record.scorer} = {trial_score(record.value)}{why}"


def _step_text(step: StepRecord, place: StepPlace | None) -> str:
    lines = [f"── step {step.name} (attempt {step.attempt}{_place_text(place)})"]
    if step.has_only_started:
        return f"{lines[0]} started"
    if step.error is not None:
        return f"{lines[0]} failed\n{in_the_past(step.error.message)}"
    if step.raised is not None:
        return f"{lines[0]} raised {step.raised.class_name}: {step.raised.message}\n{step.raised.traceback}".rstrip()
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
