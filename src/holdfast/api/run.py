"""A run in Python: open it, iterate over its trials and steps, get its report.

Nothing in the run is changed. Records are read while they are iterated over, never held as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from holdfast.api.reading.run_counts import RunCounts
from holdfast.api.trial_results import TrialResult, TrialResults
from holdfast.errors import UsageError
from holdfast.run.confirmed_results import open_results
from holdfast.run.core.codec import decode
from holdfast.run.core.display_text import nearby
from holdfast.run.core.records import AnswerRecord, ScoreRecord, SessionRecord, StepRecord, TrialRecord
from holdfast.run.fold.candidate import names_of
from holdfast.run.fold.inconsistencies import no_session_text
from holdfast.run.fold.reader import LargeRecord, RunReader
from holdfast.run.fold.run_fold import FoldedTrial
from holdfast.run.locate import find_run
from holdfast.run.trial_reference import TrialReferences
from holdfast.run.where.expression import Names, parse_where

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from holdfast.analysis.report import Report
    from holdfast.analysis.status import SessionStatus
    from holdfast.api.reading.frames import Rows
    from holdfast.engine.execution import SessionOutcome
    from holdfast.engine.opening.fork import ForkSummary
    from holdfast.run.core.records import PanelEntry

_QUICK_TRIALS = 10_000
_TRANSCRIPT = ("step", "answer", "score", "trial")


class Run:
    """A run in any state. Everything is read from its journal, and nothing in it is changed."""

    def __init__(
        self, run: str | Path | RunReader, ended: SessionOutcome | None = None, forked: ForkSummary | None = None
    ) -> None:
        """As `Run.open`.

        Raises:
            NotARun: there is no such run.
            UsageError: `run` is not a path.
        """
        self._reader = reader = _reader_of(run)
        self._results = TrialResults(reader)
        self._references: TrialReferences | None = None
        self._is_closed = False
        self.ended = ended
        """How the session that this process executed ended, if it did."""
        self.forked = forked
        """What was kept of another run, if this process has forked it."""

    @classmethod
    def open(cls, path: str | Path, *, ended: SessionOutcome | None = None, forked: ForkSummary | None = None) -> Self:
        """Opens the run at a path or URL, the one whose name it is part of, or the newest one: `@latest`.

        Raises:
            NotARun: there is no such run.
        """
        return cls(path, ended, forked)

    @property
    def path(self) -> Path:
        """The directory that it is read from; for a run in an object store, a copy of it on this machine."""
        return self._reader.layout.root

    @property
    def currency(self) -> str:
        """The currency of every cost of the run."""
        return self._reader.fold.prices.currency

    @property
    def place(self) -> str:
        """How a person names the run: by its URL if it is in a store."""
        return self._reader.place

    @property
    def counts(self) -> RunCounts:
        """How many trials of the plan are in which state, and why the others remain."""
        return RunCounts.of(self._reader.fold.counts)

    @property
    def planned(self) -> int | None:
        """How many trials the plan has; None if no session record can be read."""
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
        from holdfast.analysis.status import run_status  # noqa: PLC0415 - as in `report`

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

    def to_pandas(self, where: str = "", *, rows: Rows = "trials") -> pd.DataFrame:
        """A data frame with a complete row for each trial, or with `rows="steps"` for each step of these trials.

        Raises:
            UsageError: pandas is not installed, or the expression is not valid.
        """
        from holdfast.api.reading.frames import to_pandas  # noqa: PLC0415 - needed for data frames only

        return to_pandas(self._frame_rows(where, rows), rows, names_of(self._reader.fold))

    def to_polars(self, where: str = "", *, rows: Rows = "trials") -> pl.DataFrame:
        """The same as a data frame of polars.

        Raises:
            UsageError: polars is not installed, or the expression is not valid.
        """
        from holdfast.api.reading.frames import to_polars  # noqa: PLC0415 - needed for data frames only

        frame: pl.DataFrame = to_polars(self._frame_rows(where, rows), rows, names_of(self._reader.fold))
        return frame

    def _frame_rows(self, where: str, rows: Rows) -> Iterator[dict[str, Any]]:
        from holdfast.api.reading.frames import step_row, trial_row  # noqa: PLC0415 - needed for data frames only

        if rows not in {"trials", "steps"}:
            raise UsageError(f"rows is {rows!r}.", hint='Give rows="trials" or rows="steps".')
        for trial in self.select(where or None, "where"):
            if rows == "trials":
                yield trial_row(self.result(trial))
            else:
                records = (self._reader.read(placed.line) for placed in self._reader.lines_of(trial, "step"))
                yield from (step_row(trial, record) for record in records if isinstance(record, StepRecord))

    def select(self, where: str | None, option: str = "--where") -> Iterator[FoldedTrial]:
        """The trials that match an expression; `result` gives the whole row of one.

        Raises:
            UsageError: the expression is not valid.
        """
        selected = parse_where(where, self.names, option) if where is not None else None
        return self._results.select(selected)

    @property
    def names(self) -> Names:
        """The axes and scorers that an expression may name."""
        return names_of(self._reader.fold)._replace(columns=self._results.metadata_names)

    def result(self, trial: FoldedTrial, *, with_sample: bool = True) -> TrialResult:
        """The row of a selected trial; without `with_sample` it has no input, target and metadata."""
        return self._results.row(trial, with_sample=with_sample)

    @property
    def on_record(self) -> int:
        """How many trials have a record of any kind."""
        return self._reader.fold.on_record

    @property
    def notes(self) -> list[str]:
        """Why rows that were returned have no input and target, and what leads on if no session record can be read."""
        return [*self._results.notes, *([] if self._reader.sessions else [no_session_text(self._reader)])]

    @property
    def references(self) -> TrialReferences:
        """The names of its trials, as commands take them."""
        if self._references is None:
            self._references = TrialReferences(self._reader.fold, self.place)
        return self._references

    def key_of(self, trial: str) -> str:
        """The key of the trial that a reference (`fr#1`, `capitals/fr#1`), a key or the beginning of a key names.

        Raises:
            UsageError: no trial, or several, match.
        """
        return self.references.find(trial).key

    def scores_of(self, trial: str) -> list[ScoreRecord]:
        """The scores of one trial that count, each with its explanation.

        Raises:
            UsageError: no trial, or several, have this name.
        """
        return self._results.score_records(self.references.find(trial))

    def attempts(self) -> Iterator[TrialRecord]:
        """The end of every attempt on record, in the order of the run; one at a time.

        A trial that was tried again has several: for figures about trials use `trials`.
        """
        yield from self._stream_of(TrialRecord, "trial")

    def steps(self, trial: str | None = None) -> Iterator[StepRecord]:
        """Every step on record, or those of one trial, one at a time.

        Raises:
            UsageError: no trial, or several, have this name.
        """
        if trial is None:
            yield from self._stream_of(StepRecord, "step")
            return
        records = self._reader.records_of(self.key_of(trial), "step")
        yield from (record for record in records if isinstance(record, StepRecord))

    def trial_keys(self) -> Iterator[str]:
        """The key of every trial that has a record of any kind, sorted; each once."""
        yield from self._reader.fold.keys()

    def records_of(self, trial: str) -> list[StepRecord | AnswerRecord | ScoreRecord | TrialRecord]:
        """Everything on record of one trial, in the order it was written.

        Raises:
            UsageError: no trial, or several, have this name.
        """
        records = self._reader.records_of(self.key_of(trial), *_TRANSCRIPT)
        return [
            record for record in records if isinstance(record, StepRecord | AnswerRecord | ScoreRecord | TrialRecord)
        ]

    def transcript(self, trial: str) -> Iterator[StepRecord | AnswerRecord | ScoreRecord | TrialRecord | LargeRecord]:
        """As `records_of`, one at a time, and records of many megabytes in pieces.

        Raises:
            UsageError: no trial, or several, have this name.
        """
        found = self.references.find(trial)
        for placed in self._reader.lines_of(found, *_TRANSCRIPT):
            record = self._reader.read_or_open(placed.line)
            if isinstance(record, ScoreRecord):
                yield self._reader.fold.titled(found, record)
            elif isinstance(record, StepRecord | AnswerRecord | TrialRecord | LargeRecord):
                yield record

    def _stream_of(self, type_: type[Any], name: str) -> Iterator[Any]:
        for _, line in self._reader.stream([], name):
            if isinstance(record := decode(line), type_):
                yield record

    @property
    def panels(self) -> Mapping[str, Mapping[str, PanelEntry]]:
        """The scorers with judges, by task and name."""
        return self._reader.fold.panels

    def report(self) -> Report:
        """The report: scores, coverage, and at what cost."""
        # Loaded when it is made: commands that only list trials do not pay for it.
        from holdfast.analysis.report import make_report  # noqa: PLC0415

        return make_report(self._reader)

    def __repr__(self) -> str:
        if self._is_closed:
            return f"<Run {nearby(self.place)!r}: closed>"
        from holdfast.analysis.report_text import brief_scores  # noqa: PLC0415 - needed where it is shown

        state = "complete" if self.is_complete else "incomplete"
        # Scores are added up when they are asked for: in a large run that takes too long for a debugger.
        scores = brief_scores(self.report()) if self.on_record <= _QUICK_TRIALS else ""
        left = "" if self.is_complete else f", {self.counts.remaining_text()}"
        return f"<Run {nearby(self.place)!r}: {state}, {self.counts.finished_text()}{left}{scores}>"

    def _repr_html_(self) -> str:
        """What a notebook shows of it: the table of scores, and where the run is."""
        if self._is_closed:
            import html  # noqa: PLC0415 - needed in a notebook only

            return html.escape(repr(self))
        from holdfast.analysis.report_html import run_html  # noqa: PLC0415 - needed in a notebook only

        return run_html(self.report(), self.place)

    def close(self) -> None:
        self._is_closed = True
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _reader_of(run: object) -> RunReader:
    if isinstance(run, RunReader):
        return run
    if not isinstance(run, str | Path):
        raise UsageError(
            f"A run cannot be opened from {type(run).__name__}.", hint='Give its path: Run.open("runs/…").'
        )
    return open_results(find_run(str(run)))
