"""What is on record of a trial: where the next attempt begins, and what counts.

An attempt that was interrupted continues: its steps are replayed, its answer and scores are kept. An attempt that
failed by an error of the task is over: the next one begins anew, except that an answer it had reached is kept, with
the scores it got, so that nothing is paid twice only because a scorer broke.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from holdfast.engine.planning.trial_keys import KeySet
from holdfast.run.core.records import AnswerRecord, AnyRecord, CallRecord, ScoreRecord, Status, StepRecord, TrialRecord
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.run_fold import FoldedTrial

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


class TrialHistory:
    """The records of trials that were started, by the fold of the run."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self.started = KeySet(reader.fold.keys())

    def next_attempt(self, key: str) -> AttemptState:
        """Where the next attempt at this trial begins."""
        if bytes.fromhex(key) not in self.started or (trial := self._reader.fold.find(key)) is None:
            return AttemptState()
        records = self._records_of(trial)
        # An answer, once reached, serves every later attempt; of several, that of the newest session.
        answer = max(reversed(_only(AnswerRecord, records)), key=lambda record: record.attempt, default=None)
        scored = {score.scorer: score for score in _only(ScoreRecord, records) if score.error is None} if answer else {}
        attempt = max(trial.row.attempt, 1)
        ends = _only(TrialRecord, records)
        if any(end.status is Status.FAILED and end.attempt == attempt for end in ends):
            return AttemptState(attempt + 1, _first_of_series(ends, attempt + 1), [], answer, scored)
        steps = [step for step in _only(StepRecord, records) if step.attempt == attempt]
        first, in_flight = _first_of_series(ends, attempt), _in_flight(records, steps, attempt)
        return AttemptState(attempt, first, steps, answer, scored, in_flight=in_flight)

    def attempt_again(self, key: str) -> AttemptState:
        """Another attempt at a trial that is finished: from the beginning, or as far as one that was cut short came."""
        if (trial := self._reader.fold.find(key)) is None:
            return AttemptState()
        records, attempt = self._records_of(trial), trial.row.attempt
        ends = _only(TrialRecord, records)
        if any(end.status is not Status.UNFINISHED and end.attempt == attempt for end in ends):
            return AttemptState(attempt + 1, _first_of_series(ends, attempt + 1))
        steps = [step for step in _only(StepRecord, records) if step.attempt == attempt]
        answers = [answer for answer in _only(AnswerRecord, records) if answer.attempt == attempt]
        scores = {
            one.scorer: one for one in _only(ScoreRecord, records) if one.attempt == attempt and one.error is None
        }
        first, answer = _first_of_series(ends, attempt), answers[-1] if answers else None
        in_flight = _in_flight(records, steps, attempt)
        return AttemptState(attempt, first, steps, answer, scores if answers else {}, in_flight=in_flight)

    def counting_attempt(self, key: str) -> AttemptState:
        """Everything of the attempt that counts: the one whose end is kept, or else the newest."""
        trial = self._reader.fold.find(key)
        if trial is None or not trial.row.counted:
            return self.next_attempt(key)
        records, counted = self._records_of(trial), trial.row.counted
        kept = self._answer_and_scores(trial, records)
        steps = [step for step in _only(StepRecord, records) if step.attempt == counted]
        return AttemptState(counted, counted, steps, kept.answer, kept.scores, self._counting_end(trial))

    def steps_behind(self, key: str, state: AttemptState) -> list[StepRecord]:
        """The steps of the attempt that the answer comes from, where a later one has taken the answer over."""
        trial = self._reader.fold.find(key)
        if trial is None or state.answer is None:
            return []
        steps = _only(StepRecord, self._records_of(trial))
        return [step for step in steps if step.attempt == state.answer.attempt]

    def answer_and_scores(self, key: str) -> AttemptState:
        """The attempt whose end counts, with its answer and its scores."""
        trial = self._reader.fold.find(key)
        return self._answer_and_scores(trial, self._records_of(trial)) if trial is not None else AttemptState()

    def _answer_and_scores(self, trial: FoldedTrial, records: list[AnyRecord]) -> AttemptState:
        first, counted = trial.row.answer_of or 1, trial.row.counted or 1
        answers = [record for record in _only(AnswerRecord, records) if record.attempt == first]
        scores = {
            record.scorer: record
            for record in _only(ScoreRecord, records)
            if record.value is not None and first <= record.attempt <= counted
        }
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


def _in_flight(records: list[AnyRecord], steps: list[StepRecord], attempt: int) -> frozenset[str]:
    sent = {call.step for call in _only(CallRecord, records) if call.attempt == attempt}
    return frozenset(sent.difference(step.step for step in steps))


def _only(type_: type[T], records: list[AnyRecord]) -> list[T]:
    return [record for record in records if isinstance(record, type_)]
