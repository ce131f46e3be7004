"""Forking: a new run with another eval, which takes over every trial that the change does not touch.

A trial is taken over when everything that determines its answer is the same: the messages it asks with, or its
solver's source and input; its model and generation; its axes and epoch; its limits. If only the scoring differs, its
replies and its answer are taken over, and it is scored again. All of it is in the new run before the run has a name,
so a kill leaves either nothing or the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from holdfast.engine.opening.fork_identity import ForkedSide
from holdfast.engine.opening.start import StartedSession, create_planned, last_session
from holdfast.engine.planning.earlier_runs import comparable_code
from holdfast.engine.planning.estimate import Estimate
from holdfast.engine.planning.plan import KeySet, PlannedTrial, TrialSequence
from holdfast.engine.planning.prepared_eval import FreshInputs, Prepared, SavedInputs, prepare
from holdfast.engine.planning.saved_eval import saved_eval
from holdfast.engine.trials.history import History, Past
from holdfast.run.core.reader import RunReader
from holdfast.run.core.records import NoteRecord, Record, SessionRecord, Status
from holdfast.run.session.create import refuse_existing
from holdfast.spec import EvalSpec


class Forked(msgspec.Struct):
    """What a fork took over, and why not the rest."""

    run: str
    planned: int
    taken: int
    """Trials taken over whole."""
    rescored: int
    """Trials taken over with their answers, to be scored again."""
    owed: dict[str, int]
    """Why the others are owed."""
    cost: float
    """What those are likely to cost, by what the trials of the run have cost so far."""


def fork(source: Path, spec: EvalSpec, root: Path, *, origin: str = "") -> tuple[StartedSession, Forked]:
    """Makes the run `root` with the eval `spec` and takes over what it can from the run at `source`.

    Raises:
        NotARun: there is no run at `source`.
        ConfigurationError: the eval is wrong.
        UsageError: there is something at `root` already.
    """
    refuse_existing(root.absolute(), "choose another directory")
    reader = RunReader(source)
    inputs = FreshInputs()
    try:
        prepared = prepare(spec, inputs)
        taking = _Taking(reader, prepared)
        session = create_planned(root, prepared, inputs, origin, preload=taking.records())
        return StartedSession(session, prepared), taking.told(root)
    finally:
        inputs.close()
        reader.close()


class _Taking:
    """Goes through the new plan and finds what the old run has of it."""

    def __init__(self, reader: RunReader, prepared: Prepared) -> None:
        last = last_session(reader)
        self._reader, self._history = reader, History(reader)
        self._old = ForkedSide(_prepared_again(reader, last, prepared), last.code)
        codes = {task.name: comparable_code(task.task, last.code.get(task.name)) for task in prepared.tasks}
        self._new = ForkedSide(prepared, codes)
        self._finished = KeySet(reader.finished())
        self._source = reader.run.hex()
        self._taken = self._rescored = 0
        self._why: Counter[str] = Counter()
        self._estimate = Estimate(reader, prepared.spec)

    def records(self) -> Iterator[Record]:
        """Every record to be taken over, and at the end a note that says so."""
        for task in self._new.prepared.tasks:
            for model in task.models:
                for cell in TrialSequence(task, model, KeySet([]), KeySet([])).cells():
                    yield from self._of(cell)
        text = f"taken over from run {self._source}: {self._taken} trials, {self._rescored} to be scored again"
        yield NoteRecord(kind="fork", text=text, data={"run": self._source, "trials": self._taken})

    def _of(self, cell: PlannedTrial) -> Iterator[Record]:
        if why := self._difference(cell):
            self._owe(cell, why)
            return
        past = self._history.whole(cell.key)
        yield from (msgspec.structs.replace(step, source=self._source) for step in past.steps)
        if past.answer is not None:
            yield past.answer
        kept = self._kept_scores(cell)
        if past.end is not None and self._is_whole(cell, past, kept):
            self._taken += 1
            yield from (msgspec.structs.replace(score, source=self._source) for score in past.scores.values())
            yield msgspec.structs.replace(past.end, source=self._source)
            return
        # A score of a trial that is to end here again has its place in that end.
        placeless: dict[str, Any] = {"source": self._source, "task": "", "model": "", "axes": {}}
        yield from (msgspec.structs.replace(past.scores[name], **placeless) for name in kept if name in past.scores)
        if past.answer is None:
            self._owe(cell, "unfinished in the run")
        else:
            self._rescored += 1

    def _is_whole(self, cell: PlannedTrial, past: Past, kept: set[str]) -> bool:
        """Whether a trial that has ended has exactly the scores that it is to have."""
        if past.end is None or past.end.status is not Status.VALID:
            return past.end is not None
        planned = {scorer.name for scorer in cell.task.task.scorers}
        return planned == kept == {*past.end.scores, *past.scores}

    def _owe(self, cell: PlannedTrial, why: str) -> None:
        self._why[why] += 1
        self._estimate.add(cell)

    def _difference(self, cell: PlannedTrial) -> str:
        """Why a trial cannot be taken over; empty if it can."""
        old, name = self._old.task(cell.task.name), cell.task.name
        if old is None:
            return "its answer would be another" if name in self._old.prepared.spec.tasks else "new task or model"
        if cell.model not in old.models:
            return "new task or model"
        position = self._old.position(old, cell.task.dataset.key(cell.position))
        if position is None:
            return "new sample"
        digest = bytes.fromhex(cell.key)
        if digest not in self._finished and digest not in self._history.touched:
            return "not in the run yet"
        mine = self._new.answer_identity(cell.task, cell.model, cell.position, cell.axes)
        if mine != self._old.answer_identity(old, cell.model, position, cell.axes):
            return "its answer would be another"
        return ""

    def _kept_scores(self, cell: PlannedTrial) -> set[str]:
        """The scorers that would judge this trial's answer as they have."""
        old = self._old.task(cell.task.name)
        position = self._old.position(old, cell.task.dataset.key(cell.position)) if old else None
        if old is None or position is None:
            return set()
        before = self._old.score_identities(old, position)
        after = self._new.score_identities(cell.task, cell.position)
        return {name for name, identity in after.items() if before.get(name) == identity}

    def told(self, root: Path) -> Forked:
        planned = self._new.prepared.planned
        return Forked(str(root), planned, self._taken, self._rescored, dict(self._why), self._estimate.cost)


def _prepared_again(reader: RunReader, last: SessionRecord, new: Prepared) -> Prepared:
    """The plan of the run that is forked, as far as its tasks are tasks of the new one.

    Of a task in Python only the digests of what its code was are left; what it asked about is in the run.
    """
    saved = saved_eval(last)
    common = {
        name: entry
        for name, entry in saved.tasks.items()
        if name in new.spec.tasks and bool(entry.use) is bool(new.spec.tasks[name].use)
    }
    given = {task.name: task.task for task in new.tasks if new.spec.tasks[task.name].use}
    inputs = SavedInputs(reader.layout, last.inputs)
    built = prepare(msgspec.structs.replace(saved, tasks=common), inputs, given).tasks if common else []
    return Prepared(saved, built, inputs)
