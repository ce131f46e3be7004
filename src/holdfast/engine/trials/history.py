"""What is on record of an unfinished trial: where the next attempt begins.

An attempt that was interrupted continues: its steps are replayed, its answer and scores are kept. An attempt that
failed by an error of the task is over: the next one begins anew, except that an answer it had reached is kept, with
the scores it got, so that nothing is paid twice only because a scorer broke.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from holdfast.engine.planning.trial_keys import KeySet
from holdfast.run.core.reader import RunReader
from holdfast.run.core.records import KEPT, AnswerRecord, ScoreRecord, Status, StepRecord, TrialRecord, decode_summary

T = TypeVar("T", StepRecord, AnswerRecord, ScoreRecord, TrialRecord)


@dataclass
class AttemptState:
    """An attempt as far as it is on record."""

    attempt: int = 1
    steps: list[StepRecord] = field(default_factory=list)
    answer: AnswerRecord | None = None
    scores: dict[str, ScoreRecord] = field(default_factory=dict)
    end: TrialRecord | None = None


class TrialHistory:
    """The records of the trials that were started and are not finished."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self.started = KeySet(reader.index.open_keys())

    def next_attempt(self, key: str) -> AttemptState:
        """Where the next attempt at this trial begins."""
        if bytes.fromhex(key) not in self.started:
            return AttemptState()
        steps = self._records(StepRecord, "step", key)
        answers = self._records(AnswerRecord, "answer", key)
        scores = self._records(ScoreRecord, "score", key)
        ends = self._records(TrialRecord, "trial", key)
        attempt = max(_attempts(steps) + _attempts(answers) + _attempts(scores) + _attempts(ends), default=1)
        # An answer, once reached, serves every later attempt.
        answer = max(answers, key=lambda record: record.attempt, default=None)
        scored = {score.scorer: score for score in scores if score.error is None} if answer else {}
        if any(end.status is Status.FAILED and end.attempt == attempt for end in ends):
            return AttemptState(attempt + 1, [], answer, scored)
        return AttemptState(attempt, [step for step in steps if step.attempt == attempt], answer, scored)

    def counting_attempt(self, key: str) -> AttemptState:
        """Everything of the attempt that counts: the one whose end is kept, or else the newest."""
        end = self._counting_end(key)
        if end is None:
            return self.next_attempt(key)
        kept = self.answer_and_scores(key)
        steps = [step for step in self._records(StepRecord, "step", key) if step.attempt == kept.attempt]
        return AttemptState(kept.attempt, steps, kept.answer, kept.scores, end)

    def answer_and_scores(self, key: str) -> AttemptState:
        """The attempt whose end counts, with its answer and its scores."""
        end = self._counting_end(key)
        attempt = end.attempt if end is not None else 1
        answers = [record for record in self._records(AnswerRecord, "answer", key) if record.attempt <= attempt]
        scores = {
            record.scorer: record for record in self._records(ScoreRecord, "score", key) if record.value is not None
        }
        return AttemptState(attempt, [], max(answers, key=lambda record: record.attempt, default=None), scores)

    def _counting_end(self, key: str) -> TrialRecord | None:
        """The final record that counts: the first of the newest session that has one."""
        rows = [row for row in self._reader.index.rows("trial", key) if row.flag == KEPT]
        newest = max((row.ident.session for row in rows), default=0)
        records = (self._reader.read(row) for row in rows if row.ident.session == newest)
        return next((record for record in records if isinstance(record, TrialRecord)), None)

    def _records(self, type_: type[T], kind: str, key: str) -> list[T]:
        records = (self._reader.read(row) for row in self._reader.index.rows(kind, key))
        return [record for record in records if isinstance(record, type_)]


def blocked_trials(reader: RunReader) -> int:
    """How many attempts ended because a content policy stepped in; such a trial is kept, and is not valid."""
    rows = reader.index.rows("trial")
    return sum(decode_summary(row.data or b"").status == Status.BLOCKED.value for row in rows)


def _attempts(records: Sequence[T]) -> list[int]:
    return [record.attempt for record in records]
