"""A trial whose records are being added: its row, its slots, and where its records are.

Records come in any order of segments, each once; whatever the order, the outcome is the same.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from holdfast.journal.frame import Origin
from holdfast.run.core.records import GIVEN_UP, KEPT_STATUSES, CallRecord, Coordinates, ScoreRecord, TrialRecord
from holdfast.run.fold.entries import AnswerEntry, CallEntry, RefusedEntry, ScoreEntry, StepEntry, TrialEntry
from holdfast.run.fold.rows.fold_tables import KEPT, REPLY, REQUEST, UNANSWERED
from holdfast.run.fold.rows.score_slot import FAILED, FILLED, RETRIED, UNSCORED, Slot
from holdfast.run.fold.rows.spent import slot_spent
from holdfast.run.fold.rows.trial_row import GIVEN_UP_CALLS, MOST_CALLS, REFUSED_MODEL, SAVED, UNUSED, TrialRow


class FrameAt(msgspec.Struct, frozen=True, gc=False):
    """A frame that was taken in, and where it lies, as that is stored."""

    frame: Origin
    stored: bytes


class FoundRecord(msgspec.Struct, frozen=True, gc=False):
    """A record of a trial. Thousands are held at once: none is anything a collector has to look at."""

    entry: Any
    """One of a type in `OF_TRIALS`."""
    at: FrameAt
    place: int


class OpenTrial(msgspec.Struct, gc=False):
    """A trial whose row is being changed."""

    key: bytes | str
    row: TrialRow
    group: int = 0
    standing: int = 0
    places: bytes = b""
    slots: tuple[Slot, ...] = ()
    about: Coordinates | TrialEntry | TrialRecord | None = None
    """What says which trial it is, where its group is unknown yet; all records that say it say the same."""

    def take_in(self, records: Iterable[FoundRecord], written: Counter[tuple[int, str]]) -> None:
        """Takes in records in the order in which they were met, and counts replies and ends that are kept."""
        last: FrameAt | None = None
        for found in records:
            entry, at = found.entry, found.at
            if at is not last:
                last = at
                self.places += at.stored
                self.row.touch(at.frame.session, at.frame.seq)
            if entry.attempt > self.row.attempt:
                self.row.begin_attempt(entry.attempt)
            OF_TRIALS[type(entry)](self, entry, at.frame, found.place, written)

    def _locate(self, about: Coordinates | TrialEntry | TrialRecord | None) -> None:
        if about is not None and self.about is None and not self.group:
            self.about = about
            self.row.sample, self.row.epoch = about.sample, about.epoch

    def add_call(self, entry: CallEntry | CallRecord, frame: Origin, *_: object) -> None:
        """A call that was sent."""
        if entry.repeats:
            self.row.note_calls(frame.session, entry.repeats)
        self._locate(entry.about)

    def add_refused(self, entry: RefusedEntry, frame: Origin, _place: int, written: Counter[tuple[int, str]]) -> None:
        """A call that another model answered: it has ended, and its reply is not used."""
        self.row.note_calls(frame.session, REFUSED_MODEL)
        written[frame.session, UNANSWERED] += 1
        written[frame.session, REQUEST] += min(max(entry.tries, 0), MOST_CALLS)

    def add_step(self, entry: StepEntry, frame: Origin, _place: int, written: Counter[tuple[int, str]]) -> None:
        """A step: its result, or why it is missing."""
        if entry.is_clean_up:
            self.row.cleaned = max(self.row.cleaned, entry.attempt)
        # A reply that was reused from another branch is recorded by that branch, and counts once.
        elif not entry.lender:
            self._add_outcome(entry, frame, written)
        self._locate(entry.about)

    def _add_outcome(self, entry: StepEntry, frame: Origin, written: Counter[tuple[int, str]]) -> None:
        row, is_judge = self.row, entry.is_of_slot
        if entry.error is None and entry.attempt == row.attempt and not is_judge and not entry.is_about_sampling:
            row.steps += 1
        if entry.model:
            self._count_call(entry, frame.session, written)
        if entry.usage is not None:
            add_reply = row.add_judge_reply if is_judge else row.add_reply
            add_reply(entry.attempt, entry.model, entry.usage, reused=bool(entry.source) and entry.is_reused)

    def _count_call(self, entry: StepEntry, session: int, written: Counter[tuple[int, str]]) -> None:
        if not entry.source:
            written[session, REPLY if entry.error is None else UNANSWERED] += 1
            written[session, REQUEST] += min(max(entry.tries, 0), MOST_CALLS)
            if entry.error == GIVEN_UP:
                self.row.note_calls(session, GIVEN_UP_CALLS)
        elif entry.is_reused and entry.error is None:
            self.row.note_calls(session, SAVED)

    def add_answer(self, entry: AnswerEntry, *_: object) -> None:
        """An answer."""
        self.row.add_answer(entry.attempt)
        self._locate(entry.about)

    def add_score(self, entry: ScoreEntry | ScoreRecord, frame: Origin, place: int, *_: object) -> None:
        """A score, or why it is missing."""
        if entry.unused > 0:
            self.row.note_calls(frame.session, UNUSED, min(entry.unused, MOST_CALLS))
        if entry.usage is not None:
            self.row.add_slot(slot_spent(entry, entry.usage, frame, place))
        state = FILLED
        if entry.error is not None:
            state = RETRIED if entry.will_retry else FAILED
        elif entry.unscored:
            state = UNSCORED
        elif entry.value is None and not getattr(entry, "blob", None):
            return
        slot = Slot(entry.scorer, entry.attempt, entry.value, False, *frame, place, state, entry.slot_attempt)
        self._add_slot(slot, self._find_slot(entry.scorer, entry.attempt))

    def add_end(
        self, entry: TrialEntry | TrialRecord, frame: Origin, place: int, written: Counter[tuple[int, str]]
    ) -> None:
        """The end of an attempt."""
        self._locate(entry)
        if entry.unused > 0:
            self.row.note_calls(frame.session, UNUSED, min(entry.unused, MOST_CALLS))
        self.row.add_end(entry, frame, place)
        self.row.add_spent(entry, frame, place)
        if entry.status in KEPT_STATUSES:
            written[frame.session, KEPT] += 1
            for scorer, value in entry.scores.items():
                known = self._find_slot(scorer, entry.attempt)
                if known is None or known.cached or known.value is None:
                    state = UNSCORED if value is None else FILLED
                    self._add_slot(Slot(scorer, entry.attempt, value, True, *frame, place, state), known)

    def _find_slot(self, scorer: str, attempt: int) -> Slot | None:
        for slot in self.slots:
            if slot.scorer == scorer and slot.attempt == attempt:
                return slot
        return None

    def _add_slot(self, slot: Slot, known: Slot | None) -> None:
        """A score; `known` is the one of the same attempt that was there."""
        if known is None:
            self.slots += (slot,)
        elif known.gives_way_to(slot):
            self.slots = tuple(slot if one is known else one for one in self.slots)

    def scorers(self, first: int, last: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Who has filled, and who has failed for good, the slots of the attempts from the first to the last."""
        slots = [slot for slot in self.slots if first <= slot.attempt <= last]
        filled = {slot.scorer for slot in slots if slot.is_filled}
        failed = {slot.scorer for slot in slots if slot.state == FAILED} - filled
        return tuple(sorted(filled)), tuple(sorted(failed))


OF_TRIALS: dict[type, Callable[..., None]] = {
    CallEntry: OpenTrial.add_call,
    CallRecord: OpenTrial.add_call,
    RefusedEntry: OpenTrial.add_refused,
    StepEntry: OpenTrial.add_step,
    AnswerEntry: OpenTrial.add_answer,
    ScoreEntry: OpenTrial.add_score,
    ScoreRecord: OpenTrial.add_score,
    TrialEntry: OpenTrial.add_end,
    TrialRecord: OpenTrial.add_end,
}
"""How records of a trial are taken in."""
