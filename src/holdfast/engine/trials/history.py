"""What is on record of a trial: where the next attempt begins, and what counts.

An attempt that was interrupted continues: its steps are replayed, its answer and scores are kept. An attempt whose
solver failed is over, and the next one begins anew. One that has its answer is never begun anew because of a scorer:
what is left of it are score slots, and each of them continues by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from holdfast.engine.planning.trial_keys import KeySet
from holdfast.engine.trials.scopes import scope_in_key, slot_in_path
from holdfast.models.role import ModelRole
from holdfast.run.core.records import (
    AnswerRecord,
    AnyRecord,
    CallRecord,
    Failure,
    ScoreRecord,
    Status,
    StepRecord,
    TrialRecord,
)
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.run_fold import FoldedTrial


@dataclass(frozen=True)
class SlotState:
    """A score slot that was attempted and is not filled."""

    attempt: int = 1
    """The one that comes next, or continues."""
    first: int = 1
    """The first of those that the task's retries count: a redo counts anew."""
    failure: Failure | None = None
    """Why its last attempt failed, if none is left."""


NEW_SLOT = SlotState()
T = TypeVar("T", CallRecord, StepRecord, AnswerRecord, ScoreRecord, TrialRecord)


@dataclass
class AttemptState:
    """An attempt as far as it is on record."""

    attempt: int = 1
    first: int = 1
    """The first attempt of those that the task's retries count: each time that a trial is run once more, anew."""
    steps: list[StepRecord] = field(default_factory=list)
    answer: AnswerRecord | None = None
    scores: dict[str, ScoreRecord] = field(default_factory=dict)
    end: TrialRecord | None = None
    in_flight: frozenset[str] = frozenset()
    """The keys of calls that were sent, and of which nothing more is on record."""
    slots: dict[str, SlotState] = field(default_factory=dict)
    """By scorer, the slots that have failed."""
    slot_steps: dict[str, list[StepRecord]] = field(default_factory=dict)
    """By the path of their scope, the steps of score slots."""


class TrialHistory:
    """The records of trials that were started, by the fold of the run."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self.started = KeySet(reader.fold.keys())

    def next_attempt(self, key: str, *, slots_again: bool = False) -> AttemptState:
        """Where the next attempt at this trial begins; with `slots_again`, failed slots are attempted anew."""
        if bytes.fromhex(key) not in self.started or (trial := self._reader.fold.find(key)) is None:
            return AttemptState()
        records = self._records_of(trial)
        # An answer, once reached, serves every later attempt; of several, that of the newest session.
        answer = max(reversed(_only(AnswerRecord, records)), key=lambda record: record.attempt, default=None)
        attempt = max(trial.row.attempt, 1)
        scored = _filled(records, answer.attempt, attempt) if answer else {}
        ends = _only(TrialRecord, records)
        has_failed = any(end.status is Status.FAILED and end.attempt == attempt for end in ends)
        if has_failed and (answer is None or answer.attempt != attempt):
            return AttemptState(attempt + 1, _first_of_series(ends, attempt + 1), [], answer, scored)
        begun = _begun(records, attempt, again=slots_again)
        return replace(begun, first=_first_of_series(ends, attempt), answer=answer, scores=scored)

    def attempt_again(self, key: str) -> AttemptState:
        """Another attempt at a trial that is finished: from the beginning, or as far as one that was cut short came."""
        if (trial := self._reader.fold.find(key)) is None:
            return AttemptState()
        records, attempt = self._records_of(trial), trial.row.attempt
        ends = _only(TrialRecord, records)
        if any(end.status is not Status.UNFINISHED and end.attempt == attempt for end in ends):
            return AttemptState(attempt + 1, _first_of_series(ends, attempt + 1))
        answers = [answer for answer in _only(AnswerRecord, records) if answer.attempt == attempt]
        scores = _filled(records, attempt, attempt) if answers else {}
        first, answer = _first_of_series(ends, attempt), answers[-1] if answers else None
        return replace(_begun(records, attempt), first=first, answer=answer, scores=scores)

    def counting_attempt(self, key: str) -> AttemptState:
        """Everything of the attempt that counts: the one whose end is kept, or else the newest."""
        trial = self._reader.fold.find(key)
        if trial is None or not trial.row.counted:
            return self.next_attempt(key)
        records, counted = self._records_of(trial), trial.row.counted
        kept = self._answer_and_scores(trial, records)
        steps = [step for step in _solver_steps(records) if step.attempt == counted]
        return AttemptState(counted, counted, steps, kept.answer, kept.scores, self._counting_end(trial))

    def steps_behind(self, key: str, state: AttemptState) -> list[StepRecord]:
        """The steps of the attempt that the answer comes from, where a later one has taken the answer over."""
        trial = self._reader.fold.find(key)
        if trial is None or state.answer is None:
            return []
        steps = _solver_steps(self._records_of(trial))
        return [step for step in steps if step.attempt == state.answer.attempt]

    def answer_and_scores(self, key: str, *, slots_again: bool = False) -> AttemptState:
        """The attempt whose end counts, with its answer and its scores; with `slots_again`, as `next_attempt`."""
        trial = self._reader.fold.find(key)
        if trial is None:
            return AttemptState()
        records = self._records_of(trial)
        kept = self._answer_and_scores(trial, records)
        # What the solver has asked is in the end that counts.
        begun = _begun(records, kept.attempt, again=slots_again)
        return replace(kept, in_flight=begun.in_flight, slots=begun.slots, slot_steps=begun.slot_steps)

    def _answer_and_scores(self, trial: FoldedTrial, records: list[AnyRecord]) -> AttemptState:
        first, counted = trial.row.answer_of or 1, trial.row.counted or 1
        answers = [record for record in _only(AnswerRecord, records) if record.attempt == first]
        scores = _filled(records, first, counted)
        return AttemptState(counted, counted, [], answers[-1] if answers else None, scores)

    def _counting_end(self, trial: FoldedTrial) -> TrialRecord | None:
        for placed in self._reader.lines_of(trial, "trial"):
            if placed.ident == trial.end_id and isinstance(record := self._reader.read(placed.line), TrialRecord):
                return record
        return None

    def _records_of(self, trial: FoldedTrial) -> list[AnyRecord]:
        found = (self._reader.read(placed.line) for placed in self._reader.lines_of(trial))
        return [record for record in found if record is not None]


def _first_of_series(ends: list[TrialRecord], attempt: int) -> int:
    """The attempt that followed the last one after which the trial was left as it was."""
    over = (end.attempt for end in ends if end.status is not Status.UNFINISHED and not end.will_retry)
    return max((number for number in over if number < attempt), default=0) + 1


def _begun(records: list[AnyRecord], attempt: int, *, again: bool = False) -> AttemptState:
    """An attempt as far as it came: its steps, the calls that were in flight, and its slots."""
    steps = [step for step in _only(StepRecord, records) if step.attempt == attempt]
    sent = {call.step for call in _only(CallRecord, records) if call.attempt == attempt}
    state = AttemptState(attempt, attempt, in_flight=frozenset(sent.difference(step.step for step in steps)))
    for step in steps:
        if step.role is ModelRole.JUDGE:
            state.slot_steps.setdefault(slot_in_path(scope_in_key(step.step)), []).append(step)
        else:
            state.steps.append(step)
    state.slots.update(_failed_slots([one for one in _only(ScoreRecord, records) if one.attempt == attempt], again))
    return state


def _solver_steps(records: list[AnyRecord]) -> list[StepRecord]:
    return [step for step in _only(StepRecord, records) if step.role is not ModelRole.JUDGE]


def _filled(records: list[AnyRecord], first: int, last: int) -> dict[str, ScoreRecord]:
    """The slots that were filled in the attempts from the first to the last."""
    found = [one for one in _only(ScoreRecord, records) if one.error is None and first <= one.attempt <= last]
    return {one.scorer: one for one in found if one.value is not None or one.unscored}


def _failed_slots(scores: list[ScoreRecord], again: bool) -> Iterator[tuple[str, SlotState]]:  # noqa: FBT001
    """The slots that have failed, by their scorers; where they are attempted again, with attempts of their own."""
    failures: dict[str, list[ScoreRecord]] = {}
    for score in scores:
        if score.error is not None:
            failures.setdefault(score.scorer, []).append(score)
    for scorer, failed in failures.items():
        last = max(failed, key=lambda one: (one.slot_attempt, not one.will_retry))
        over = max((one.slot_attempt for one in failed if not one.will_retry), default=0)
        is_left = last.will_retry or again
        yield scorer, SlotState(last.slot_attempt + 1, over + 1, None if is_left else last.error)


def _only(type_: type[T], records: list[AnyRecord]) -> list[T]:
    return [record for record in records if isinstance(record, type_)]
