"""The trials of a run, one row each: what was asked, answered, scored and spent."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.models.message import Usage
from holdfast.run.core.records import Failure, SamplingSummary, ScoreRecord, TrialRecord
from holdfast.run.fold.candidate import LOST, WHOLE, TrialCandidate, answer_in, coordinates
from holdfast.run.fold.ends_on_record import error_on_record
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.run_fold import FoldedTrial
from holdfast.run.fold.states import State
from holdfast.run.where.expression import Where

if TYPE_CHECKING:
    from holdfast.engine.planning.saved_samples import SavedSample, SavedSamples


_REPR_CHARACTERS = 60


class TrialResult(msgspec.Struct, frozen=True):
    """One trial: the attempt that counts, or else how far it has come."""

    trial: str
    """Its key."""
    task: str
    model: str
    sample: str
    epoch: int
    axes: dict[str, str]
    state: State
    reason: str
    """Why it remains, or which limit it reached; empty for a valid one."""
    input: Any
    """What was asked; None, as `target`, where the run no longer has the sample."""
    target: Any
    metadata: Mapping[str, Any]
    answer: str | None
    scores: dict[str, float | None]
    """None for a slot that is filled without a score."""
    attempt: int
    """The one that counts, or the newest."""
    attempts: int
    """How many were made."""
    usage: Usage
    """Of all attempts that have ended."""
    cost: float | None
    """The same by the newest prices; None where a model that was used has none."""
    seconds: float
    transcript: str
    """`lost` where the scores are kept and records behind them are lost."""
    error: Failure | None
    samplings: tuple[SamplingSummary, ...] | None = None
    """How the samplings of the attempt that counts went; None if no trial of the run has any."""
    choice: str = ""
    """The choice that the target means, with its letter; not in the row as plain data."""

    def __repr__(self) -> str:
        where = f"{self.task}/{self.sample} {self.model} epoch {self.epoch}"
        axes = "".join(f" {name}={value}" for name, value in self.axes.items())
        scores = "".join(f" {name}={value}" for name, value in self.scores.items())
        why = f" ({self.reason})" if self.reason else ""
        answer = "" if self.answer is None else f" answer={_shortened(self.answer)}"
        error = "" if self.error is None else f" error={_shortened(self.error.message)}"
        return f"<TrialResult {self.trial} {repr(f'{where}{axes} {self.state}{why}{scores}')[1:-1]}{answer}{error}>"

    def as_dict(self) -> dict[str, Any]:
        """The row as plain data, with the same keys in every row; `samplings` only in a run that has some."""
        error = msgspec.structs.asdict(self.error) if self.error is not None else None
        row = {**msgspec.to_builtins(self), "usage": msgspec.structs.asdict(self.usage), "error": error}
        del row["samplings"], row["choice"]
        if self.samplings is not None:
            row["samplings"] = [_sampling_dict(sampling) for sampling in self.samplings]
        return row


def _shortened(text: str) -> str:
    """A text as Python spells it, of moderate length."""
    return repr(text if len(text) <= _REPR_CHARACTERS else f"{text[:_REPR_CHARACTERS]}…")


def _sampling_dict(sampling: SamplingSummary) -> dict[str, Any]:
    """With every key, also those whose values are the usual ones."""
    wasted = [
        {**msgspec.structs.asdict(share), "usage": msgspec.structs.asdict(share.usage)} for share in sampling.wasted
    ]
    return {**msgspec.structs.asdict(sampling), "wasted": wasted}


class TrialResults:
    """The rows of a run."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader

    @cached_property
    def _samples(self) -> "SavedSamples":
        # Datasets and tasks are needed here only.
        from holdfast.engine.planning.saved_samples import SavedSamples  # noqa: PLC0415

        return SavedSamples(self._reader)

    @property
    def notes(self) -> list[str]:
        """Why some rows have no input and target."""
        return self._samples.notes if "_samples" in self.__dict__ else []

    def select(self, where: Where | None = None) -> Iterator[FoldedTrial]:
        """Every trial that is on record, or those that an expression selects, in the order they were written."""
        states = [State(name) for name in where.states()] if where is not None else []
        if where is not None and not states:
            return
        for trial in self._reader.fold.trials_in_order(*states):
            if where is None or where.matches(self._candidate(trial)):
                yield trial

    def _candidate(self, trial: FoldedTrial) -> TrialCandidate:
        about, fold = coordinates(trial), self._reader.fold
        return TrialCandidate(self._reader, fold, trial.key, about, trial, lambda: self._sample(trial))

    def _sample(self, trial: FoldedTrial) -> "SavedSample | None":
        group, key = trial.standing.group, trial.row.sample
        return self._samples.find(group.task, key, group.axes, group.model) if group.task and key else None

    def metadata_names(self) -> list[str]:
        """The names of the metadata that the sample of the first trial has."""
        first = next(self._reader.fold.trials_in_order(), None)
        sample = self._sample(first) if first is not None else None
        return list(sample.metadata) if sample is not None else []

    def row(self, trial: FoldedTrial, *, with_sample: bool = True) -> TrialResult:
        """The row of one trial; without its sample, nothing of the run's inputs is read."""
        records = [
            (item.ident, self._reader.read(item.line)) for item in self._reader.lines_of(trial, "answer", "trial")
        ]
        ends = {ident: record for ident, record in records if isinstance(record, TrialRecord)}
        decisive = ends.get(trial.end_id) if trial.end_id else None
        sample, group, standing = self._sample(trial) if with_sample else None, trial.standing.group, trial.standing
        attempt = trial.row.counted or trial.row.attempt
        spent = trial.spent
        return TrialResult(
            trial=trial.key,
            task=group.task,
            model=group.model,
            sample=trial.row.sample,
            epoch=trial.row.epoch,
            axes=dict(group.axes),
            state=standing.state,
            reason=standing.reason,
            input=sample.input if sample is not None else None,
            target=sample.target if sample is not None else None,
            metadata=dict(sample.metadata) if sample is not None else {},
            answer=answer_in([record for _, record in records], trial.row.answer_of or attempt),
            scores=self._reader.fold.scores_of(trial.key),
            attempt=attempt,
            attempts=trial.row.attempt,
            usage=spent.usage,
            cost=self._reader.fold.prices.cost(spent.shares, {group.model}).amount,
            seconds=spent.seconds,
            transcript=LOST if standing.is_hollow and self._reader.has_losses() else WHOLE,
            error=error_on_record(self._reader, trial, decisive),
            samplings=self._samplings(trial, decisive),
            choice=sample.choice if sample is not None else "",
        )

    def score_records(self, trial: FoldedTrial) -> list[ScoreRecord]:
        """The records that fill the score slots of a trial and count."""
        return self._reader.scores_that_count(trial.key)

    def _samplings(self, trial: FoldedTrial, decisive: TrialRecord | None) -> tuple[SamplingSummary, ...] | None:
        if not self._reader.fold.has_samplings:
            return None
        return decisive.samplings if decisive is not None and trial.row.counted else ()
