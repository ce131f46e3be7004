"""A run in Python: open it, iterate over its trials and steps, get its report.

Nothing in the run is changed. Records are read while they are iterated over, never held as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from holdfast.analysis.report import Report, make_report
from holdfast.analysis.status import SessionStatus, run_status
from holdfast.api.trial_results import TrialResult, TrialResults
from holdfast.run.core.codec import decode
from holdfast.run.core.records import AnswerRecord, ScoreRecord, SessionRecord, StepRecord, TrialRecord
from holdfast.run.fold.candidate import names_of
from holdfast.run.fold.reader import LargeRecord, RunReader
from holdfast.run.fold.run_fold import FoldedTrial
from holdfast.run.fold.states import StateCounts
from holdfast.run.locate import find_run
from holdfast.run.where.expression import parse_where

if TYPE_CHECKING:
    from holdfast.engine.execution import SessionOutcome

_TRANSCRIPT = ("step", "answer", "score", "trial")


class Run:
    """A run in any state. Everything is read from its journal, and nothing in it is changed."""

    def __init__(self, reader: RunReader, ended: SessionOutcome | None = None) -> None:
        self._reader = reader
        self._results = TrialResults(reader)
        self.ended = ended
        """How the session that this process executed ended, if it did."""

    @classmethod
    def open(cls, path: str | Path, *, ended: SessionOutcome | None = None) -> Self:
        """Opens the run at a path or URL, or the one whose name it is part of.

        Raises:
            NotARun: there is no such run.
        """
        return cls(RunReader(find_run(str(path))), ended)

    @property
    def path(self) -> Path:
        """The directory that it is read from; for a run in an object store, a copy of it on this machine."""
        return self._reader.layout.root

    @property
    def place(self) -> str:
        """How a person names the run: by its URL if it is in a store."""
        return self._reader.place

    @property
    def counts(self) -> StateCounts:
        """How many trials of the plan are in which state, and why the others remain."""
        return self._reader.fold.counts

    @property
    def planned(self) -> int:
        return self.counts.planned

    @property
    def finished(self) -> int:
        return self.counts.finished

    @property
    def is_complete(self) -> bool:
        """Whether nothing of the plan remains."""
        return self.counts.is_complete

    @property
    def sessions(self) -> list[SessionRecord]:
        return list(self._reader.sessions)

    @property
    def lineage(self) -> list[SessionStatus]:
        """Every session: what it changed, kept and may have paid twice, and how it ended."""
        return run_status(self._reader).sessions

    def trials(self, where: str = "") -> Iterator[TrialResult]:
        """Every trial that is on record, once, with the attempt that counts; one at a time, in the order of the run.

        `where` selects among them, as `holdfast show --where` does: `run.trials("status=failed and task=math")`. Trials
        that were not started have no row; `counts.not_started` says how many there are.

        Raises:
            UsageError: the expression is not valid.
        """
        return (self.result(trial) for trial in self.select(where or None, "where"))

    def to_dicts(self, where: str = "") -> list[dict[str, Any]]:
        """The same as plain data, for a table or a data frame."""
        return [trial.as_dict() for trial in self.trials(where)]

    def select(self, where: str | None, option: str = "--where") -> Iterator[FoldedTrial]:
        """The trials that an expression selects, as the fold has them; `result` gives the whole row of one.

        Raises:
            UsageError: the expression is not valid.
        """
        selected = parse_where(where, names_of(self._reader.fold), option) if where is not None else None
        return self._results.select(selected)

    def result(self, trial: FoldedTrial, *, with_sample: bool = True) -> TrialResult:
        """The row of a trial that was selected; `with_sample` is what input, target and metadata come from."""
        return self._results.row(trial, with_sample=with_sample)

    @property
    def on_record(self) -> int:
        """How many trials have a record of any kind."""
        return self._reader.fold.on_record

    @property
    def notes(self) -> list[str]:
        """Why rows that were given have no input and target."""
        return self._results.notes

    def trials_of_sample(self, sample: str) -> set[str]:
        """The keys of the trials that ask about a sample."""
        return {trial.key for trial in self._reader.fold.trials() if trial.row.sample == sample}

    def attempts(self) -> Iterator[TrialRecord]:
        """The end of every attempt on record, in the order of the run; one at a time.

        A trial that was tried again has several: for figures about trials use `trials`.
        """
        yield from self._stream_of(TrialRecord, "trial")

    def steps(self, trial: str | None = None) -> Iterator[StepRecord]:
        """Every step on record, or those of one trial, one at a time."""
        if trial is None:
            yield from self._stream_of(StepRecord, "step")
            return
        yield from (record for record in self._reader.records_of(trial, "step") if isinstance(record, StepRecord))

    def trial_keys(self) -> Iterator[str]:
        """The key of every trial that has a record of any kind, sorted; each once."""
        yield from self._reader.fold.keys()

    def records_of(self, trial: str) -> list[StepRecord | AnswerRecord | ScoreRecord | TrialRecord]:
        """Everything on record of one trial, in the order it was written."""
        records = self._reader.records_of(trial, *_TRANSCRIPT)
        return [
            record for record in records if isinstance(record, StepRecord | AnswerRecord | ScoreRecord | TrialRecord)
        ]

    def transcript(self, trial: str) -> Iterator[StepRecord | AnswerRecord | ScoreRecord | TrialRecord | LargeRecord]:
        """As `records_of`, one at a time, and records of many megabytes in pieces."""
        for placed in self._reader.lines_of(self._reader.fold.find(trial), *_TRANSCRIPT):
            if isinstance(
                record := self._reader.read_or_open(placed.line),
                StepRecord | AnswerRecord | ScoreRecord | TrialRecord | LargeRecord,
            ):
                yield record

    def _stream_of(self, type_: type[Any], name: str) -> Iterator[Any]:
        for _, line in self._reader.stream([], name):
            if isinstance(record := decode(line), type_):
                yield record

    def report(self) -> Report:
        """The report: scores, coverage, and at what cost."""
        return make_report(self._reader)

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
