"""What is on record of an unfinished trial: where the next attempt begins.

The attempt that was interrupted goes on: its steps are replayed, its answer and scores stand. An attempt that failed
through the task's own fault is over: the next one begins anew, except that an answer it had come to is kept, with the
scores it got, so that nothing is paid twice only because a scorer broke.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from holdfast.engine.planning.plan import KeySet
from holdfast.run.core.reader import RunReader
from holdfast.run.core.records import KEPT, AnswerRecord, ScoreRecord, Status, StepRecord, TrialRecord, decode_summary

T = TypeVar("T", StepRecord, AnswerRecord, ScoreRecord, TrialRecord)


@dataclass
class Past:
    """Where an attempt begins."""

    attempt: int = 1
    steps: list[StepRecord] = field(default_factory=list)
    answer: AnswerRecord | None = None
    scores: dict[str, ScoreRecord] = field(default_factory=dict)
    end: TrialRecord | None = None


class History:
    """The records of the trials that are neither untouched nor finished."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self.touched = KeySet(reader.index.open_keys())

    def of(self, key: str) -> Past:
        """Where the next attempt at this trial begins."""
        if bytes.fromhex(key) not in self.touched:
            return Past()
        steps = self._records(StepRecord, "step", key)
        answers = self._records(AnswerRecord, "answer", key)
        scores = self._records(ScoreRecord, "score", key)
        ends = self._records(TrialRecord, "trial", key)
        attempt = max(_attempts(steps) + _attempts(answers) + _attempts(scores) + _attempts(ends), default=1)
        # An answer once come to serves every later attempt.
        answer = max(answers, key=lambda record: record.attempt, default=None)
        judged = {score.scorer: score for score in scores if score.error is None} if answer else {}
        if any(end.status is Status.FAILED and end.attempt == attempt for end in ends):
            return Past(attempt + 1, [], answer, judged)
        return Past(attempt, [step for step in steps if step.attempt == attempt], answer, judged)

    def whole(self, key: str) -> Past:
        """Everything of the attempt that counts: the one whose end is kept, or else the newest."""
        end = self._counting_end(key)
        if end is None:
            return self.of(key)
        kept = self.kept(key)
        steps = [step for step in self._records(StepRecord, "step", key) if step.attempt == kept.attempt]
        return Past(kept.attempt, steps, kept.answer, kept.scores, end)

    def kept(self, key: str) -> Past:
        """The attempt whose end counts, with its answer and its scores."""
        end = self._counting_end(key)
        attempt = end.attempt if end is not None else 1
        answers = [record for record in self._records(AnswerRecord, "answer", key) if record.attempt <= attempt]
        scores = {
            record.scorer: record for record in self._records(ScoreRecord, "score", key) if record.value is not None
        }
        return Past(attempt, [], max(answers, key=lambda record: record.attempt, default=None), scores)

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
    """How many attempts ended because a content policy stepped in; such a trial is kept, and is no valid one."""
    rows = reader.index.rows("trial")
    return sum(decode_summary(row.data or b"").status == Status.BLOCKED.value for row in rows)


def _attempts(records: Sequence[T]) -> list[int]:
    return [record.attempt for record in records]
