"""A trial as a `--where` expression sees it: its place in the plan, and its state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Protocol

from holdfast.run.core.records import AnswerRecord, Coordinates
from holdfast.run.core.slots.slot_names import base_name
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.rows.spent import Spent
from holdfast.run.fold.run_fold import FoldedTrial, RunFold
from holdfast.run.fold.states import State
from holdfast.run.where.expression import Names

LOST, WHOLE = "lost", "whole"
_SPENT = {"cost", "tokens", "seconds"}


class AskedSample(Protocol):
    """The sample of a trial, as it was asked about."""

    @property
    def input(self) -> Any: ...

    @property
    def target(self) -> Any: ...

    @property
    def metadata(self) -> Mapping[str, Any]: ...


class TrialCandidate:
    """One trial of a run, planned or recorded; expensive values are computed when they are used."""

    def __init__(
        self,
        reader: RunReader,
        fold: RunFold,
        key: str,
        about: Coordinates,
        trial: FoldedTrial | None,
        sample: Callable[[], AskedSample | None],
    ) -> None:
        self._reader, self._fold, self._key, self._about = reader, fold, key, about
        self._trial, self._sample = trial, sample

    @property
    def coordinates(self) -> Coordinates:
        """Which trial it is."""
        return self._about

    def field(self, name: str) -> str | float | int | None:
        """A built-in field of an expression."""
        if name in _SPENT:
            return self._spent(name)
        if name in {"task", "model", "sample", "epoch"}:
            # The first record of a trial says where it belongs; without it that is unknown.
            value: str | int = getattr(self._about, name)
            return value or None
        return {"trial": self._key, **self._standing}.get(name)

    @cached_property
    def _standing(self) -> dict[str, str | int]:
        trial = self._trial
        if trial is None:
            about = self._about
            reason = self._fold.reason_not_started(about.task, about.model, about.axes)
            return {"status": State.NOT_STARTED.value, "reason": reason, "attempt": 0}
        lost = trial.standing.is_hollow and self._reader.has_losses()
        standing: dict[str, str | int] = {"status": trial.state.value, "transcript": LOST if lost else WHOLE}
        if trial.standing.reason:
            standing["reason"] = trial.standing.reason
        return {**standing, "attempt": trial.row.counted or trial.row.attempt}

    def _spent(self, name: str) -> float | None:
        spent = self._trial.spent if self._trial is not None else Spent()
        if name == "tokens":
            return spent.usage.input_tokens + spent.usage.output_tokens
        if name == "seconds":
            return spent.seconds
        return self._fold.prices.cost(spent.shares, {self._about.model}).amount

    def axis(self, name: str) -> str | None:
        return self._about.axes.get(name)

    def score(self, name: str) -> float | None:
        return self._fold.scores_of(self._key).get(name) if self._trial is not None else None

    def metadata(self, path: tuple[str, ...]) -> object:
        sample = self._sample()
        found: object = sample.metadata if sample is not None else None
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    def text(self, name: str) -> object:
        """The `input`, the `target` or the `answer`."""
        if name == "answer":
            return answer_of(self._reader, self._trial) if self._trial is not None else None
        return getattr(self._sample(), name, None)


def answer_of(reader: RunReader, trial: FoldedTrial) -> str | None:
    """The answer of the attempt that counts, or of the newest."""
    attempt = trial.row.answer_of or trial.row.counted or trial.row.attempt
    return answer_in([reader.read(item.line) for item in reader.lines_of(trial, "answer")], attempt)


def answer_in(records: Iterable[object], attempt: int) -> str | None:
    """The answer of an attempt, among records of its trial."""
    answers = [record for record in records if isinstance(record, AnswerRecord) and record.attempt == attempt]
    return answers[-1].text if answers else None


def coordinates(trial: FoldedTrial) -> Coordinates:
    """Which trial it is."""
    group = trial.standing.group
    return Coordinates(group.task, group.model, trial.row.sample, trial.row.epoch, dict(group.axes))


def names_of(fold: RunFold) -> Names:
    """The axes and scorers that an expression about the run may name."""
    code = fold.session.code.values() if fold.session else []
    axes = {axis for task in code for axis in task.axes} | {
        axis for group in fold.groups.values() for axis in group.axes
    }
    planned = {base_name(scorer) for entry in fold.plan for scorer in entry.scorers}
    shown = {scorer for entry in fold.plan for scorer in entry.shown_scorers}
    scorers = frozenset(shown | (set(fold.scorers) - planned))
    return Names(frozenset(axes), scorers, values={name: sorted(known) for name, known in _values(fold).items()})


def _values(fold: RunFold) -> dict[str, set[str]]:
    """The values that trials of the run have: tasks, models, and those of each axis."""
    found: dict[str, set[str]] = {"task": set(), "model": set()}
    for entry in fold.plan:
        found["task"].add(entry.task)
        found["model"].add(entry.model)
    for task in fold.session.code.values() if fold.session else ():
        for axis, values in task.axes.items():
            found.setdefault(f"axes.{axis}", set()).update(values)
    for group in fold.groups.values():
        found["task"].add(group.task)
        found["model"].add(group.model)
        for axis, value in group.axes.items():
            found.setdefault(f"axes.{axis}", set()).add(value)
    return found
