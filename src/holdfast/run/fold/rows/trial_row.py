"""The state of one trial according to its records: a row of the index.

Records come in any order of segments, each once; whatever the order, the row is the same. Of several final records
that are kept, the first of the newest session counts: a late holder of the run fills gaps only. A failed end never
takes the place of one that is kept.
"""

from collections.abc import Mapping

import msgspec

from holdfast.journal.frame import Origin
from holdfast.models.message import Usage
from holdfast.run.core.records import ARTIFACT, IMPORTED, ShareKey, Status, TrialRecord
from holdfast.run.core.sampling_figures import SamplingFigures
from holdfast.run.fold.entries import TrialEntry, is_reused_end
from holdfast.run.fold.rows.spent import (
    AttemptReplies,
    AttemptSpent,
    SlotSpent,
    SpentFigures,
    attempt_spent,
    spent_by_share,
    with_reply,
    with_slots,
)
from holdfast.run.fold.states import NOT_UPLOADED

STATUSES = (Status.VALID, Status.LIMITED, Status.BLOCKED, Status.FAILED, Status.UNFINISHED)
_KEPT_CODES = 3
"""The number of statuses that are kept; they come first, and that of a valid trial before all others."""
_CODES = {status: code for code, status in enumerate(STATUSES)}
_WORDS = tuple(status.value for status in STATUSES)
_UNFINISHED = Status.UNFINISHED.value
INTERRUPTED, NO_REPLY, MODEL_DISABLED = "interrupted", "no reply", "model disabled"
REFUSED = "refused"
"""The model's server refused the request, as it will again."""
NOT_SCORED = "not scored"
"""It has its answer, but a score is missing."""
TASK_ERROR, POLICY = "task error", "content policy"
PAUSED = "paused"
PAUSED_AFTER = f"{PAUSED} after "
"""How the reason begins for which a trial remains that a session has left after a stage, as it was to."""
SCORE = "score"
"""It has failed in slots; which of them count is a matter of the plan."""
UNUSED, SAVED, REFUSED_MODEL, GIVEN_UP_CALLS = "unused", "saved", "refused_model", "given_up"
"""What the ledger counts beside calls that repeat others: recorded replies that nobody asked for again, replies of
other runs, calls that another model answered, whose replies were kept out, and calls that were given up in flight.
"""
_BY_ERROR = {"closed": MODEL_DISABLED, "rejected": REFUSED, INTERRUPTED: INTERRUPTED, NOT_UPLOADED: NOT_UPLOADED}
"""By the kind of its error, why a trial remains whose model gave no reply; another tool may have been stopped in it."""
MOST_CALLS = 1 << 40
_LAST_MOMENT = (1 << 63) - 1


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
    """How many recorded steps the attempt rests on, by its own count."""
    reason: str
    will_retry: bool
    samplings: tuple[SamplingFigures, ...] = ()
    """How the samplings of the attempt went, if the end is kept."""

    @property
    def status(self) -> Status:
        return STATUSES[self.code]

    @property
    def order(self) -> tuple[int, int, int]:
        return self.writer, self.seq, self.place

    def gives_way_to(self, other: "DecidingEnd") -> bool:
        """Whether the other one decides, now that both are known."""
        kept, other_kept = self.status.is_kept, other.status.is_kept
        if kept != other_kept:
            return other_kept
        if kept:
            return (other.session, self.order) > (self.session, other.order)
        return (other.attempt, other.session, other.order) > (self.attempt, self.session, self.order)


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
    """How many results of steps the newest attempt has recorded."""
    sample: str = ""
    epoch: int = 1
    spent: tuple[AttemptSpent, ...] = ()
    """What the attempts with a recorded end used; an unfinished one is continued, and its next end counts."""
    replies: tuple[AttemptReplies, ...] = ()
    """What the replies took that are recorded, by model: an attempt that was interrupted has no end that says it."""
    judge_replies: tuple[AttemptReplies, ...] = ()
    """The same of those that score slots have asked for, which no end speaks of."""
    slots: tuple[SlotSpent, ...] = ()
    """What the attempts of score slots took, by their own records; of those that took nothing, none."""
    ledger: tuple[tuple[int, str, int], ...] = ()
    """By session and kind, how many of its calls the ledger names: nearly always none."""
    cleaned: int = 0
    """The newest attempt after which nothing is left to be cleaned up; 0 for a task that leaves nothing."""

    def note_calls(self, session: int, kind: str, calls: int = 1) -> None:
        """The ledger names some of its calls."""
        known = {(one, name): count for one, name, count in self.ledger}
        known[session, kind] = known.get((session, kind), 0) + calls
        # In an order that does not depend on which was met first.
        self.ledger = tuple([(*names, known[names]) for names in sorted(known)])

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
        samplings = _sampling_figures(entry) if entry.samplings else ()
        end = DecidingEnd(
            *frame, place, entry.attempt, _CODES[entry.status], steps, reason, entry.will_retry, samplings
        )
        if self.end is None or self.end.gives_way_to(end):
            self.end = end

    def add_spent(self, entry: TrialEntry | TrialRecord, frame: Origin, place: int) -> None:
        """An attempt has ended, and says what it took."""
        spent = attempt_spent(entry, frame, place)
        if not self.spent:
            self.spent = (spent,)
            return
        known = next((one for one in self.spent if one.attempt == entry.attempt), None)
        if known is None or known.gives_way_to(spent):
            others = [one for one in self.spent if one is not known]
            # In the order of attempts, whichever was met first.
            self.spent = tuple(sorted([*others, spent], key=lambda one: one.attempt))

    def add_reply(self, attempt: int, model: str, usage: Usage, *, reused: bool) -> None:
        """A reply of an attempt is recorded, or a refusal that was billed."""
        self.replies = with_reply(self.replies, attempt, (model, reused), usage)

    def add_judge_reply(self, attempt: int, model: str, usage: Usage, *, reused: bool) -> None:
        """The same of a reply that a score slot has asked for."""
        self.judge_replies = with_reply(self.judge_replies, attempt, (model, reused), usage)

    def add_slot(self, slot: SlotSpent) -> None:
        """An attempt of a score slot says what it took."""
        known = next((one for one in self.slots if one.of == slot.of), None)
        if known is None or known.gives_way_to(slot):
            self.slots = tuple(sorted([*(one for one in self.slots if one is not known), slot], key=_slot_order))

    def total_spent(self, own: str) -> dict[ShareKey, SpentFigures]:
        """What all attempts took, ended or not, by share; `own` is the model of the trial."""
        if len(self.spent) == 1 and len(self.replies) < 2 and not self.judge_replies and not self.slots:
            end = self.spent[0]
            is_covered = not self.replies or self.replies[0].is_covered_by(end, own)
            if is_covered and not end.shares and not end.reused:
                return {(own, False): SpentFigures(1, end.microseconds, *end.tokens)}
        solved = spent_by_share(own, self.spent, self.replies)
        return with_slots(solved, own, self.slots, self.judge_replies)

    def needs_replies(self, own: str) -> bool:
        """Whether some of what it took is known from its replies alone: then deleting them would change the sums.

        In format 1 no end says which of its replies are from other runs.
        """
        if not self.replies and not self.judge_replies:
            return False
        without = msgspec.structs.replace(self, replies=(), judge_replies=())
        return _nonzero(self.total_spent(own)) != _nonzero(without.total_spent(own))

    def add_answer(self, attempt: int) -> None:
        """An attempt has its answer."""
        if not self.answered:
            self.answered = (attempt,)
        elif attempt not in self.answered:
            self.answered = tuple(sorted((*self.answered, attempt)))

    @property
    def answer_of(self) -> int:
        """The attempt whose answer, and whose scores from then on, belong to the one that counts.

        In format 1 an attempt after a failed scorer used the answer of the one before it, and has none itself.
        """
        counted = self.counted
        if not counted:
            return self.answered[-1] if self.answered else 0
        if self.end is None or self.end.code != 0:
            return counted
        return next((attempt for attempt in reversed(self.answered) if attempt <= counted), counted)

    @property
    def counted(self) -> int:
        """The attempt whose end is kept and counts; 0 if absent."""
        return self.end.attempt if self.end is not None and self.end.code < _KEPT_CODES else 0

    @property
    def scored(self) -> int:
        """The attempt whose scores count: the one that counts, or one with an answer and missing scores."""
        if counted := self.counted:
            return counted
        if self.attempt in self.answered:
            return self.attempt
        return self.end.attempt if self.end is not None and self.end.attempt in self.answered else 0

    @property
    def moment(self) -> int:
        """A number that grows with the place, in the run, of what decides about it."""
        end = self.end
        if end is None:
            return moment_of(self.session, self.seq, 0)
        return moment_of(end.session, end.seq, end.place)

    def fact(self) -> tuple[str, str]:
        """Its state, and why, whatever the plan asks for."""
        end = self.end
        if end is not None and end.code < _KEPT_CODES:
            return _WORDS[end.code], end.reason
        is_over = end is not None and end.attempt >= self.attempt and not end.will_retry
        if end is None or not is_over or self._was_taken_up_again(end):
            return _UNFINISHED, NOT_SCORED if self.attempt in self.answered else INTERRUPTED
        return _WORDS[end.code], end.reason

    def _was_taken_up_again(self, end: DecidingEnd) -> bool:
        """Whether an attempt that was left unfinished has been continued since, and interrupted."""
        return end.status is Status.UNFINISHED and (self.session, self.seq) > (end.session, end.seq)

    @property
    def left_behind(self) -> int:
        """The attempt that has ended for good and was not cleaned up after; 0 if absent. Only of tasks with stages."""
        end = self.end
        is_over = end is not None and end.status is not Status.UNFINISHED and not end.will_retry
        if end is not None and self.attempt > end.attempt:
            # A newer attempt has started since: what is left is its own.
            return 0
        return end.attempt if end is not None and is_over and end.attempt > self.cleaned else 0

    @property
    def is_without_answer(self) -> bool:
        """Whether no answer is recorded that the attempt which counts could have."""
        return not self.answered or self.answered[0] > self.counted

    @property
    def is_hollow(self) -> bool:
        """Whether records that its end rests on are missing: they are lost, or were deleted on purpose."""
        end = self.end
        if end is None or end.code >= _KEPT_CODES or end.attempt < self.attempt:
            return False
        return self.steps < end.steps or (end.code == 0 and end.steps >= 0 and self.is_without_answer)


def moment_of(session: int, seq: int, place: int) -> int:
    """A number that grows with the place of a record in the run."""
    return min((session << 50) + (seq << 20) + place, _LAST_MOMENT)


def _slot_order(slot: SlotSpent) -> tuple[int, str, int]:
    return slot.of


def _nonzero(spent: Mapping[ShareKey, SpentFigures]) -> dict[ShareKey, SpentFigures]:
    return {share: figures for share, figures in spent.items() if any(figures)}


def _steps_of(entry: TrialEntry | TrialRecord) -> int:
    """As many as were asked for in the attempt; -1 for a result that came from a file and has no transcript."""
    if entry.source in {ARTIFACT, IMPORTED}:
        return -1
    return min(max(entry.calls, 0) + max(entry.replayed, 0), MOST_CALLS)


def _sampling_figures(entry: TrialEntry | TrialRecord) -> tuple[SamplingFigures, ...]:
    """A failed attempt counts nowhere but in what was spent."""
    if not entry.status.is_kept:
        return ()
    is_reused = is_reused_end(entry)
    return tuple(SamplingFigures.of(summary, is_reused=is_reused) for summary in entry.samplings)


def _reason(entry: TrialEntry | TrialRecord) -> str:
    if entry.status is Status.LIMITED:
        return entry.limit
    if entry.status is Status.BLOCKED:
        return POLICY
    if entry.status is Status.FAILED:
        return SCORE if entry.stage.startswith(SCORE) else TASK_ERROR
    return _why_unfinished(entry) if entry.status is Status.UNFINISHED else ""


def _why_unfinished(entry: TrialEntry | TrialRecord) -> str:
    if entry.paused:
        return f"{PAUSED_AFTER}{entry.stage}"
    if entry.error is None and entry.stage == SCORE:
        # A rescoring was to fill some of its slots only.
        return NOT_SCORED
    reason = _BY_ERROR.get(entry.error.kind, NO_REPLY) if entry.error is not None else NO_REPLY
    return f"{reason} ({entry.stage})" if entry.stage.startswith(SCORE) else reason
