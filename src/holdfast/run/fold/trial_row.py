"""The state of one trial as far as records say it: a row of the index.

Records come in any order of segments, each once; whatever the order, the row is the same. Of several final records
that are kept, the first of the newest session counts: a late holder of the run fills gaps only. A failed end never
takes the place of one that is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add

import msgspec

from holdfast.journal.frame import Origin
from holdfast.models.message import Usage
from holdfast.run.core.records import ARTIFACT, Status, TrialRecord
from holdfast.run.fold.entries import TrialEntry

STATUSES = (Status.VALID, Status.LIMITED, Status.BLOCKED, Status.FAILED, Status.UNFINISHED)
_KEPT_CODES = 3
"""The first so many statuses are kept; that of a valid trial is the first of all."""
_CODES = {status: code for code, status in enumerate(STATUSES)}
_WORDS = tuple(status.value for status in STATUSES)
_UNFINISHED = Status.UNFINISHED.value
INTERRUPTED, NO_REPLY, MODEL_DISABLED = "interrupted", "no reply", "model disabled"
NOT_SCORED = "not scored"
"""It has its answer, and lacks a score."""
TASK_ERROR, POLICY = "task error", "content policy"
SCORE = "score"
"""It has failed in slots; which of them count is a matter of the plan."""
_CLOSED = "closed"
"""The kind of error of a trial whose model is not asked any more."""
_MOST_CALLS = 1 << 40
_MOST = 1 << 62
_LAST_MOMENT = (1 << 63) - 1
_NO_USAGE = Usage()
PICO, MICRO = 10**12, 10**6
Figures = tuple[int, int, int, int, int, int]
_NO_FIGURES: Figures = (0, 0, 0, 0, 0, 0)


class DecidingEnd(msgspec.Struct, array_like=True, gc=False):
    """The end of an attempt that decides about the trial so far."""

    session: int
    writer: int
    seq: int
    place: int
    attempt: int
    code: int
    """Of its status."""
    steps: int
    """How many steps on record the attempt rests on, by its own count."""
    reason: str
    will_retry: bool

    @property
    def status(self) -> Status:
        return STATUSES[self.code]

    @property
    def order(self) -> tuple[int, int, int]:
        return self.writer, self.seq, self.place

    def gives_way_to(self, other: DecidingEnd) -> bool:
        """Whether the other one decides, now that both are known."""
        kept, other_kept = self.status.is_kept, other.status.is_kept
        if kept != other_kept:
            return other_kept
        if kept:
            return (other.session, self.order) > (self.session, other.order)
        return (other.attempt, other.session, other.order) > (self.attempt, self.session, self.order)


class AttemptSpent(msgspec.Struct, array_like=True, gc=False):
    """What one attempt took, by the end that counts for it: of several the first of the newest session."""

    attempt: int
    session: int
    writer: int
    seq: int
    place: int
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    reasoning_tokens: int
    picocost: int
    microseconds: int

    @property
    def order(self) -> tuple[int, int, int]:
        return self.writer, self.seq, self.place

    @property
    def figures(self) -> Figures:
        """Tokens in, out, cached and for reasoning, cost in millionths of a millionth, and microseconds."""
        tokens = self.input_tokens, self.output_tokens, self.cached_input_tokens, self.reasoning_tokens
        return *tokens, self.picocost, self.microseconds

    def gives_way_to(self, other: AttemptSpent) -> bool:
        return (other.session, self.order) > (self.session, other.order)


class AttemptReplies(msgspec.Struct, array_like=True, gc=False):
    """What the replies took that one attempt has on record."""

    attempt: int
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0
    picocost: int = 0

    def add(self, usage: Usage, cost: float) -> None:
        """Another reply is on record."""
        tokens = usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.reasoning_tokens
        if min(tokens) < 0 or cost < 0:
            return  # no reply takes less than nothing
        self.input_tokens += tokens[0]
        self.output_tokens += tokens[1]
        self.cached_input_tokens += tokens[2]
        self.reasoning_tokens += tokens[3]
        if cost:
            self.picocost += _picocost(cost)

    @property
    def figures(self) -> Figures:
        """As those of an end; how long they took is not added up."""
        tokens = self.input_tokens, self.output_tokens, self.cached_input_tokens, self.reasoning_tokens
        return *tokens, self.picocost, 0


class TrialRow(msgspec.Struct, array_like=True, gc=False):
    """What is known of a trial; the same bytes in every index of the run."""

    attempt: int = 0
    """The newest that has a record."""
    session: int = 0
    seq: int = 0
    """The newest session that has written about it, and the last frame in which it did."""
    end: DecidingEnd | None = None
    answered: tuple[int, ...] = ()
    """The attempts that have an answer of their own, in order."""
    steps: int = 0
    """How many results of steps the newest attempt has on record."""
    sample: str = ""
    epoch: int = 1
    spent: tuple[AttemptSpent, ...] = ()
    """What the attempts that have an end on record took; an unfinished one is continued, and its next end counts."""
    replies: tuple[AttemptReplies, ...] = ()
    """What the replies took that are on record: an attempt that was cut short has no end that says it."""
    judge_replies: tuple[AttemptReplies, ...] = ()
    """The same of those that score slots have asked for, which no end speaks of."""
    scores: tuple[AttemptReplies, ...] = ()
    """What the attempts of score slots took, by their own records."""

    def touch(self, session: int, seq: int) -> None:
        """A frame has records of it."""
        if session > self.session or (session == self.session and seq > self.seq):
            self.session, self.seq = session, seq

    def begin_attempt(self, attempt: int) -> None:
        """A record of a newer attempt was met."""
        self.attempt, self.steps = attempt, 0

    def add_end(self, entry: TrialEntry | TrialRecord, frame: Origin, place: int) -> None:
        """An attempt has ended."""
        steps, reason = _steps_of(entry), _reason(entry)
        end = DecidingEnd(*frame, place, entry.attempt, _CODES[entry.status], steps, reason, entry.will_retry)
        if self.end is None or self.end.gives_way_to(end):
            self.end = end

    def add_spent(self, entry: TrialEntry | TrialRecord, frame: Origin, place: int) -> None:
        """An attempt has ended, and says what it took."""
        spent = AttemptSpent(entry.attempt, *frame, place, *_figures(entry))
        if not self.spent:
            self.spent = (spent,)
            return
        known = next((one for one in self.spent if one.attempt == entry.attempt), None)
        if known is None or known.gives_way_to(spent):
            others = [one for one in self.spent if one is not known]
            # In the order of attempts, whichever was met first.
            self.spent = tuple(sorted([*others, spent], key=lambda one: one.attempt))

    def add_reply(self, attempt: int, usage: Usage, cost: float) -> None:
        """A reply of an attempt is on record, or a refusal that was billed."""
        self.replies = _with_reply(self.replies, attempt, usage, cost)

    def add_judge_reply(self, attempt: int, usage: Usage, cost: float) -> None:
        """The same of a reply that a score slot has asked for."""
        self.judge_replies = _with_reply(self.judge_replies, attempt, usage, cost)

    def add_score(self, attempt: int, usage: Usage, cost: float) -> None:
        """An attempt of a score slot says what it took."""
        self.scores = _with_reply(self.scores, attempt, usage, cost)

    def total_spent(self) -> tuple[int, ...]:
        """How many attempts have ended, and what all of them took, ended or not.

        Of an attempt, the larger of two figures counts: its end speaks of all its replies, of which some may be deleted
        since; and after an end that left it unfinished there may be more of them.
        """
        if len(self.spent) == 1 and not self.judge_replies and not self.scores and self._is_covered(self.spent[0]):
            return 1, *self.spent[0].figures
        solved, scored = _larger(self.spent, self.replies), _larger(self.scores, self.judge_replies)
        return len(self.spent), *map(add, solved, scored)

    def _is_covered(self, end: AttemptSpent) -> bool:
        """Whether the end of the only attempt speaks of all replies on record, as it nearly always does."""
        if len(self.replies) != 1:
            return not self.replies
        known = self.replies[0]
        return (
            known.attempt == end.attempt
            and known.input_tokens <= end.input_tokens
            and known.output_tokens <= end.output_tokens
            and known.cached_input_tokens <= end.cached_input_tokens
            and known.reasoning_tokens <= end.reasoning_tokens
            and known.picocost <= end.picocost
        )

    def add_answer(self, attempt: int) -> None:
        """An attempt has its answer."""
        if not self.answered:
            self.answered = (attempt,)
        elif attempt not in self.answered:
            self.answered = tuple(sorted((*self.answered, attempt)))

    @property
    def answer_of(self) -> int:
        """The attempt whose answer, and whose scores from then on, belong to the one that counts.

        An attempt after a scorer has failed takes over the answer of the one before it, so it has none of its own.
        """
        counted = self.counted
        if not counted:
            return self.answered[-1] if self.answered else 0
        if self.end is None or self.end.code != 0:
            return counted
        return next((attempt for attempt in reversed(self.answered) if attempt <= counted), counted)

    @property
    def counted(self) -> int:
        """The attempt whose end is kept and counts; 0 while there is none."""
        return self.end.attempt if self.end is not None and self.end.code < _KEPT_CODES else 0

    @property
    def scored(self) -> int:
        """The attempt whose scores count: the one that counts, or else one that ended without all of its scores."""
        if counted := self.counted:
            return counted
        return self.end.attempt if self.end is not None and self.end.attempt in self.answered else 0

    @property
    def moment(self) -> int:
        """A number that grows with the place, in the run, of what decides about it."""
        end = self.end
        if end is None:
            return min((self.session << 50) + (self.seq << 20), _LAST_MOMENT)
        return min((end.session << 50) + (end.seq << 20) + end.place, _LAST_MOMENT)

    def fact(self) -> tuple[str, str]:
        """How it stands, and why, whatever the plan asks for."""
        end = self.end
        if end is not None and end.code < _KEPT_CODES:
            return _WORDS[end.code], end.reason
        if end is None or end.attempt < self.attempt or end.will_retry:
            return _UNFINISHED, NOT_SCORED if self.attempt in self.answered else INTERRUPTED
        if end.status is Status.UNFINISHED and (self.session, self.seq) > (end.session, end.seq):
            # It was taken up again, and cut short.
            return _UNFINISHED, INTERRUPTED
        return _WORDS[end.code], end.reason

    @property
    def is_without_answer(self) -> bool:
        """Whether no answer is on record that the attempt which counts could have."""
        return not self.answered or self.answered[0] > self.counted

    @property
    def is_hollow(self) -> bool:
        """Whether records that its end rests on are not there: they are lost, or were deleted on purpose."""
        end = self.end
        if end is None or end.code >= _KEPT_CODES or end.attempt < self.attempt:
            return False
        return self.steps < end.steps or (end.code == 0 and end.steps >= 0 and self.is_without_answer)


def _steps_of(entry: TrialEntry | TrialRecord) -> int:
    """As many as were asked for in the attempt; -1 for a result that came from a file and has no transcript."""
    if entry.source == ARTIFACT:
        return -1
    return min(max(entry.calls, 0) + max(entry.replayed, 0), _MOST_CALLS)


def _figures(entry: TrialEntry | TrialRecord) -> Figures:
    usage = entry.usage or _NO_USAGE
    found = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_input_tokens,
        usage.reasoning_tokens,
        _picocost(entry.cost),
        round(min(entry.seconds, _MOST / MICRO) * MICRO),
    )
    if min(found) < 0 or max(found) > _MOST:
        # No trial takes less than nothing, or so much that it could not be stored.
        return tuple(min(max(figure, 0), _MOST) for figure in found)  # type: ignore[return-value]
    return found


def _picocost(cost: float) -> int:
    return round(min(cost, _MOST / PICO) * PICO) if cost else 0


def _with_reply(
    replies: tuple[AttemptReplies, ...], attempt: int, usage: Usage, cost: float
) -> tuple[AttemptReplies, ...]:
    for known in replies:
        if known.attempt == attempt:
            known.add(usage, cost)
            return replies
    known = AttemptReplies(attempt)
    known.add(usage, cost)
    return (known,) if not replies else tuple(sorted((*replies, known), key=_attempt_of))


def _attempt_of(replies: AttemptReplies) -> int:
    return replies.attempt


def _larger(ended: Sequence[AttemptSpent | AttemptReplies], replies: Sequence[AttemptReplies]) -> Figures:
    """What all attempts took: of each, the larger of two figures."""
    one, other = ({item.attempt: item.figures for item in items} for items in (ended, replies))
    total = _NO_FIGURES
    for attempt in one.keys() | other.keys():
        figures = map(max, one.get(attempt, _NO_FIGURES), other.get(attempt, _NO_FIGURES))
        total = tuple(map(add, total, figures))
    return total


def _reason(entry: TrialEntry | TrialRecord) -> str:
    if entry.status is Status.LIMITED:
        return entry.limit
    if entry.status is Status.BLOCKED:
        return POLICY
    if entry.status is Status.FAILED:
        return SCORE if entry.stage.startswith(SCORE) else TASK_ERROR
    if entry.status is Status.UNFINISHED:
        reason = MODEL_DISABLED if entry.error is not None and entry.error.kind == _CLOSED else NO_REPLY
        return f"{reason} ({entry.stage})" if entry.stage.startswith(SCORE) else reason
    return ""
