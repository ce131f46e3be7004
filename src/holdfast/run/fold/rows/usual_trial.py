"""Usual trials: one call, its reply, an answer, its scores and a valid end, and nothing recorded before.

Nearly every trial of a large run is one. All of its records are in memory at once, so there is nothing to merge: its
rows follow from them directly, for a third of the work. `OpenTrial` would produce the same rows, record by record.
"""

from collections.abc import Callable

import msgspec

from holdfast.models.role import ModelRole
from holdfast.run.core.records import CallRecord, Coordinates, ScoreRecord, Status, TrialRecord
from holdfast.run.fold.entries import AnswerEntry, CallEntry, ScoreEntry, StepEntry, TrialEntry
from holdfast.run.fold.rows.fold_tables import pack_row
from holdfast.run.fold.rows.open_trial import FoundRecord
from holdfast.run.fold.rows.score_slot import FILLED
from holdfast.run.fold.rows.spent import MICRO, MOST
from holdfast.run.fold.rows.trial_row import MOST_CALLS, moment_of

_LEAST_RECORDS = 4
_CALLS, _SCORES, _ENDS = {CallEntry, CallRecord}, {ScoreEntry, ScoreRecord}, {TrialEntry, TrialRecord}
_tokens_of = msgspec.structs.astuple


class UsualKind(msgspec.Struct, gc=False):
    """Usual trials of one session and group that have scores of the same scorers, and what they took together."""

    session: int
    group: int
    model: str
    standing: int
    scorers: tuple[int, ...]
    """The numbers of the scorers, in the order of the records."""
    trials: int = 0
    requests: int = 0
    microseconds: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def figures(self) -> tuple[int, ...]:
        tokens = self.input_tokens, self.output_tokens, self.cached_input_tokens, self.reasoning_tokens
        return self.trials, self.microseconds, *tokens


MakeKind = Callable[[int, Coordinates, list[str]], UsualKind]


class UsualTrials:
    """The rows of usual trials, and their sums, until those are written."""

    def __init__(self, make_kind: MakeKind) -> None:
        """`make_kind` gives the kind of a session, what a trial says of itself, and its scorers."""
        self._make_kind = make_kind
        self._kinds: dict[tuple[object, ...], UsualKind] = {}
        self.rows: list[tuple[object, ...]] = []
        self.slot_rows: list[tuple[object, ...]] = []

    def add(self, key: bytes | str, records: list[FoundRecord]) -> bool:
        """Takes in all that is recorded of a trial; False if it is not a usual one."""
        if len(records) < _LEAST_RECORDS:
            return False
        call, step, answer, *scores, end = records
        if not _is_usual(call, step, answer, end) or not _are_scores(scores, end):
            return False
        figures = (*_tokens_of(end.entry.usage), round(end.entry.seconds * MICRO))
        if min(figures) < 0 or max(figures) > MOST:
            return False
        self._add(key, call, step, scores, end, figures)
        return True

    def _add(
        self,
        key: bytes | str,
        call: FoundRecord,
        step: FoundRecord,
        scores: list[FoundRecord],
        end: FoundRecord,
        figures: tuple[int, ...],
    ) -> None:
        about, (session, writer, seq) = call.entry.about, end.at.frame
        kind = self._kind(session, about, scores)
        where, tokens = (session, writer, seq, end.place), figures[:4]
        # The fields of a `TrialRow`, and of what it holds, in their order: as structs they would take twice as long.
        decides = (*where, 1, 0, 1, "", end.entry.will_retry, ())
        spent, reply = (1, *where, *figures, False, ()), (1, about.model, False, *tokens)
        row = (1, session, seq, decides, (1,), 1, about.sample, about.epoch, (spent,), (reply,), (), (), (), 0)
        moment = moment_of(session, seq, end.place)
        self.rows.append((key, kind.standing, 1, 1, moment, pack_row(row), _places(call, step, end)))
        for score, scorer in zip(scores, kind.scorers, strict=True):
            value, tried = score.entry.value, score.entry.slot_attempt
            self.slot_rows.append((key, scorer, 1, value, False, session, writer, seq, score.place, FILLED, tried))
        kind.trials += 1
        kind.requests += step.entry.tries
        kind.input_tokens += figures[0]
        kind.output_tokens += figures[1]
        kind.cached_input_tokens += figures[2]
        kind.reasoning_tokens += figures[3]
        kind.microseconds += figures[4]

    def _kind(self, session: int, about: Coordinates, scores: list[FoundRecord]) -> UsualKind:
        scorers = [score.entry.scorer for score in scores]
        axes = tuple(about.axes.items()) if about.axes else ()
        names = (session, about.task, about.model, axes, *scorers)
        kind = self._kinds.get(names)
        if kind is None:
            kind = self._kinds[names] = self._make_kind(session, about, scorers)
        return kind

    def take_kinds(self) -> list[UsualKind]:
        """What was taken in since the last time, by kind."""
        taken, self._kinds = list(self._kinds.values()), {}
        return taken


def _is_usual(call: FoundRecord, step: FoundRecord, answer: FoundRecord, end: FoundRecord) -> bool:
    """Whether a first call of this run has got its reply, which gave the answer, and the end speaks of just that.

    One writer of a session has written all of it, and the answer with what follows it in one frame.
    """
    asked, reply, ended = call.entry, step.entry, end.entry
    return (
        type(asked) in _CALLS
        and type(reply) is StepEntry
        and type(answer.entry) is AnswerEntry
        and type(ended) in _ENDS
        and ended.status is Status.VALID
        and asked.attempt == reply.attempt == answer.entry.attempt == ended.attempt == ended.calls == 1
        and asked.about is not None
        and not (asked.repeats or ended.unused)
        and 0 <= reply.tries <= MOST_CALLS
        and asked.about.model == reply.model == ended.model != ""
        and reply.error is None
        and reply.role is ModelRole.UNDER_TEST
        and not (reply.source or reply.lender or ended.source or ended.shares or ended.replayed or ended.samplings)
        and reply.usage is not None
        and reply.usage == ended.usage
        and answer.at is end.at
        and call.at.frame[:2] == end.at.frame[:2]
        and call.at.frame <= step.at.frame <= end.at.frame
    )


def _are_scores(scores: list[FoundRecord], end: FoundRecord) -> bool:
    """Whether each is a number, for which nobody else was asked, and they are the scores of the end."""
    for score in scores:
        entry = score.entry
        if (
            type(entry) not in _SCORES
            or entry.attempt != 1
            or entry.value is None
            or entry.unscored
            or entry.unused
            or entry.error is not None
            or entry.usage is not None
            or entry.scorer not in end.entry.scores
        ):
            return False
    is_distinct = len(scores) <= 1 or len({score.entry.scorer for score in scores}) == len(scores)
    return is_distinct and len(scores) == len(end.entry.scores)


def _places(call: FoundRecord, step: FoundRecord, end: FoundRecord) -> bytes:
    """Where its frames lie; the call and its reply are often in one."""
    first, second, last = call.at, step.at, end.at
    found = first.stored if second is first else first.stored + second.stored
    return found if last is second else found + last.stored
