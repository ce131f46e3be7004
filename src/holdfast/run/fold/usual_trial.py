"""The usual trial: one call, its reply, an answer, its scores and a valid end, and nothing on record before.

Nearly every trial of a large run is one. All of its records are at hand at once, so there is nothing to merge: its row
follows from them directly, for a fraction of the work. It is the row that `OpenTrial` comes to, record by record.
"""

from __future__ import annotations

import msgspec

from holdfast.models.role import ModelRole
from holdfast.run.core.records import CallRecord, Coordinates, ScoreRecord, Status, TrialRecord
from holdfast.run.fold.entries import AnswerEntry, CallEntry, ScoreEntry, StepEntry, TrialEntry
from holdfast.run.fold.open_trial import FoundRecord
from holdfast.run.fold.spent import AttemptReplies, AttemptSpent, attempt_spent
from holdfast.run.fold.trial_row import DecidingEnd, TrialRow

_LEAST_RECORDS = 4
_CALLS, _SCORES, _ENDS = {CallEntry, CallRecord}, {ScoreEntry, ScoreRecord}, {TrialEntry, TrialRecord}
_tokens_of = msgspec.structs.astuple


class UsualTrial(msgspec.Struct, frozen=True, gc=False):
    """What its records say, ready to be written."""

    about: Coordinates
    row: TrialRow
    spent: AttemptSpent
    places: bytes
    scores: list[FoundRecord]


def usual_trial(records: list[FoundRecord]) -> UsualTrial | None:
    """The trial that has these records and no others; None if it is not a usual one."""
    if len(records) < _LEAST_RECORDS:
        return None
    call, step, answer, *scores, end = records
    if not _is_answered(call, step, answer) or not _is_valid(end, step) or not _are_scores(scores, end):
        return None
    # One writer of a session has written all of it, and the answer with what follows it in one frame.
    first, last = call.at.frame, end.at.frame
    if answer.at is not end.at or first[:2] != last[:2] or not first <= step.at.frame <= last:
        return None
    return _fold(call, step, scores, end)


def _is_answered(call: FoundRecord, step: FoundRecord, answer: FoundRecord) -> bool:
    """Whether a first call that says which trial it is has got its reply, of this run, and that gave the answer."""
    asked, reply = call.entry, step.entry
    return (
        type(asked) in _CALLS
        and type(reply) is StepEntry
        and type(answer.entry) is AnswerEntry
        and asked.attempt == reply.attempt == answer.entry.attempt == 1
        and asked.about is not None
        and asked.about.model == reply.model != ""
        and reply.error is None
        and not reply.source
        and not reply.lender
        and reply.role is ModelRole.UNDER_TEST
    )


def _is_valid(end: FoundRecord, step: FoundRecord) -> bool:
    """Whether it is a valid end, of one call, that speaks of the same tokens as the reply."""
    entry = end.entry
    return (
        type(entry) in _ENDS
        and entry.status is Status.VALID
        and entry.attempt == entry.calls == 1
        and not entry.replayed
        and not entry.source
        and not entry.shares
        and entry.model == step.entry.model
        and entry.usage is not None
        and entry.usage == step.entry.usage
    )


def _are_scores(scores: list[FoundRecord], end: FoundRecord) -> bool:
    """Whether each is a number, for which nobody else was asked, and they are the scores of the end."""
    for score in scores:
        entry = score.entry
        if (
            type(entry) not in _SCORES
            or score.at is not end.at
            or entry.attempt != 1
            or entry.value is None
            or entry.unscored
            or entry.error is not None
            or entry.usage is not None
            or entry.scorer not in end.entry.scores
        ):
            return False
    return len(scores) == len(end.entry.scores) and (
        len(scores) < 2 or len(scores) == len({score.entry.scorer for score in scores})
    )


def _fold(call: FoundRecord, step: FoundRecord, scores: list[FoundRecord], end: FoundRecord) -> UsualTrial | None:
    about, frame, usage = call.entry.about, end.at.frame, step.entry.usage
    spent, tokens = attempt_spent(end.entry, frame, end.place), _tokens_of(usage)
    if spent.tokens != tokens:
        # Out of bounds: no usual figures.
        return None
    replies = AttemptReplies(1, about.model, False, *tokens)
    decides = DecidingEnd(*frame, end.place, 1, 0, 1, "", end.entry.will_retry)
    row = TrialRow(1, frame.session, frame.seq, decides, (1,), 1, about.sample, about.epoch, (spent,), (replies,))
    places = call.at.stored
    if step.at is not call.at:
        places += step.at.stored
    if end.at is not step.at:
        places += end.at.stored
    return UsualTrial(about, row, spent, places, scores)
