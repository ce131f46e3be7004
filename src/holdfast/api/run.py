"""A run in Python: open it, iterate over its trials and steps, get its report.

Nothing in the run is changed. Records are read while they are iterated over, never held as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import groupby
from pathlib import Path
from typing import Any, Self

from holdfast.analysis.report import Report, make_report
from holdfast.analysis.status import SessionStatus, run_status
from holdfast.engine.execution import SessionOutcome
from holdfast.journal import IndexRow
from holdfast.run.core.codec import decode
from holdfast.run.core.reader import LargeRecord, RunReader
from holdfast.run.core.records import AnswerRecord, ScoreRecord, SessionRecord, StepRecord, TrialRecord
from holdfast.run.fold.remaining_trials import trials_missing_scores
from holdfast.run.locate import find_run


class Run:
    """A run in any state. Everything is read from its journal, and nothing in it is changed."""

    def __init__(self, reader: RunReader, ended: SessionOutcome | None = None) -> None:
        self._reader = reader
        self.ended = ended
        """How the session that this process executed ended, if it did."""

    @classmethod
    def open(cls, path: str | Path, *, ended: SessionOutcome | None = None) -> Self:
        """Opens the run at `path`, or the one whose name it is part of.

        Raises:
            NotARun: there is no such run.
        """
        return cls(RunReader(find_run(str(path))), ended)

    @property
    def path(self) -> Path:
        return self._reader.layout.root

    @property
    def planned(self) -> int:
        return self._reader.sessions[-1].planned if self._reader.sessions else 0

    @property
    def finished(self) -> int:
        return sum(1 for _ in self._reader.finished())

    @property
    def is_complete(self) -> bool:
        """Whether every planned trial has a valid final record."""
        return 0 < self.planned <= self.finished and not trials_missing_scores(self._reader)

    @property
    def sessions(self) -> list[SessionRecord]:
        return list(self._reader.sessions)

    @property
    def lineage(self) -> list[SessionStatus]:
        """Every session: what it changed, kept and may have paid twice, and how it ended."""
        return run_status(self._reader).sessions

    def trials(self) -> Iterator[TrialRecord]:
        """The end of every attempt on record, in the order of the run; one at a time."""
        yield from self._stream_of(TrialRecord, "trial")

    def steps(self, trial: str | None = None) -> Iterator[StepRecord]:
        """Every step on record, or those of one trial, one at a time."""
        if trial is None:
            yield from self._stream_of(StepRecord, "step")
            return
        for row in self._reader.index.rows("step", trial):
            if isinstance(record := self._reader.read(row), StepRecord):
                yield record

    def trial_keys(self) -> Iterator[str]:
        """The key of every trial that has a record of any kind, sorted; each once."""
        kinds = ("call", "step", "answer", "score", "trial")
        keys = merge(*((row.key for row in self._reader.index.rows(kind)) for kind in kinds))
        yield from (key for key, _ in groupby(keys))

    def records_of(self, trial: str) -> list[StepRecord | AnswerRecord | ScoreRecord | TrialRecord]:
        """Everything on record of one trial, in the order it was written."""
        records = (self._reader.read(row) for row in self._rows_of(trial))
        return [
            record for record in records if isinstance(record, StepRecord | AnswerRecord | ScoreRecord | TrialRecord)
        ]

    def transcript(self, trial: str) -> Iterator[StepRecord | AnswerRecord | ScoreRecord | TrialRecord | LargeRecord]:
        """As `records_of`, one at a time, and records of many megabytes in pieces."""
        for row in self._rows_of(trial):
            if isinstance(
                record := self._reader.read_or_open(row),
                StepRecord | AnswerRecord | ScoreRecord | TrialRecord | LargeRecord,
            ):
                yield record

    def _rows_of(self, trial: str) -> list[IndexRow]:
        rows = [row for kind in ("step", "answer", "score", "trial") for row in self._reader.index.rows(kind, trial)]
        return sorted(rows, key=lambda row: row.ident)

    def _stream_of(self, type_: type[Any], name: str) -> Iterator[Any]:
        for _, line in self._reader.stream([], name):
            if isinstance(record := decode(line), type_):
                yield record

    def report(self) -> Report:
        """The report: what was measured, on how many trials, at what cost."""
        return make_report(self._reader)

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
