"""Calls that a session made again because it could not see that their replies were recorded.

A session that has lost the run (its machine was cut off, and another took the run) may still have recorded replies that
its successor had not seen when it started. Its segments are kept; what the successor asked for was paid twice.
The pins in a session's record say what it had seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.journal.segment import SegmentId
from holdfast.run.core.records import CallRecord, StepRecord
from holdfast.run.fold.reader import RunReader

_Request = tuple[int, str]
"""An attempt, and the key of a step in it."""


def calls_bought_again(reader: RunReader) -> Counter[int]:
    """By session, how many of its calls had replies that a session before it had recorded out of its sight."""
    found: Counter[int] = Counter()
    known: dict[str, dict[_Request, int]] = {}
    for successor, step in _late_replies(reader):
        if step.trial not in known:
            known[step.trial] = _last_replies(reader, step.trial)
        session = known[step.trial].get((step.attempt, step.step), 0)
        found[session] += session >= successor
    return +found


def _late_replies(reader: RunReader) -> Iterator[tuple[int, StepRecord]]:
    """The replies in frames that the next session had not seen when it began, each with the number of that session."""
    seen = {one.number: {SegmentId(*pin[:3]): pin.frames for pin in one.pins} for one in reader.sessions}
    numbers = sorted(seen)
    for state in reader.index.states():
        successor = next((number for number in numbers if number > state.ident.session), 0)
        frames = seen[successor].get(state.ident, 0) if successor else state.frames
        if state.frames > frames:
            yield from ((successor, step) for step in _replies_after(reader, state.ident, frames))


def _replies_after(reader: RunReader, ident: SegmentId, frames: int) -> Iterator[StepRecord]:
    segment = reader.journal.find(ident)
    if segment is None:
        return
    with reader.journal.scan(segment) as scan:
        for number, frame in enumerate(scan.frames()):
            records = map(reader.read, scan.lines(frame)) if number >= frames else ()
            yield from (record for record in records if isinstance(record, StepRecord) and _is_bought(record))


def _last_replies(reader: RunReader, trial: str) -> dict[_Request, int]:
    """By request, the newest session that has bought a reply to it and had no other reason to."""
    placed = reader.lines_of(reader.fold.find(trial), "call", "step")
    records = [(one.ident.session, reader.read(one.line)) for one in placed]
    named = {
        (session, one.attempt, one.step) for session, one in records if isinstance(one, CallRecord) and one.repeats
    }
    return {
        (one.attempt, one.step): session
        for session, one in records
        if isinstance(one, StepRecord) and _is_bought(one) and (session, one.attempt, one.step) not in named
    }


def _is_bought(step: StepRecord) -> bool:
    return bool(step.model) and step.error is None and not step.source and not step.lender
