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

from holdfast.engine.begin import Begun, input_files, last_session, session_fields
from holdfast.engine.examine import saved_eval
from holdfast.engine.history import History
from holdfast.engine.plan import Cell, KeySet, Lane, PlannedTask
from holdfast.engine.prepare import FreshInputs, Prepared, SavedInputs, prepare
from holdfast.run import create_run
from holdfast.run.create import refuse_existing
from holdfast.run.reading import RunReader
from holdfast.run.records import Note, Record, TaskCode
from holdfast.spec import EvalSpec, ModelSpec, plain
from holdfast.tasks.code import code_of


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


class _Side:
    """One of the two runs: its plan, and what each trial's answer and score rest on."""

    def __init__(self, prepared: Prepared, code: dict[str, TaskCode]) -> None:
        self.prepared, self._code = prepared, code
        self._tasks = {task.name: task for task in prepared.tasks}
        self._positions: dict[str, dict[str, int]] = {}

    def task(self, name: str) -> PlannedTask | None:
        return self._tasks.get(name)

    def position(self, task: PlannedTask, sample: str) -> int | None:
        if task.name not in self._positions:
            keys = enumerate(task.dataset.keys())
            self._positions[task.name] = {key: position for position, key in keys}
        return self._positions[task.name].get(sample)

    def answer_identity(self, task: PlannedTask, model: str, position: int, cell: Cell) -> Any:
        """Everything that determines the answer of one trial."""
        sample = task.dataset[position]
        own = {**task.task.solver_identity(sample, cell.axes), "source": self._code[task.name].solver}
        entry = self.prepared.spec.models[model]
        return (
            msgspec.json.encode(own, order="sorted"),
            task.dataset.input_digest(position),
            _asked(entry),
            task.limits,
        )

    def score_identity(self, task: PlannedTask, position: int) -> Any:
        return (self._code[task.name].scorers, task.dataset.target_digest(position))


def _asked(model: ModelSpec) -> bytes:
    """What of a model determines its replies."""
    kept = {name: value for name, value in plain(model).items() if name in {"provider", "model", "generation", "args"}}
    return msgspec.json.encode(kept, order="sorted")


def fork(source: Path, spec: EvalSpec, root: Path, *, origin: str = "") -> tuple[Begun, Forked]:
    """Makes the run `root` with the eval `spec` and takes over what it can from the run at `source`.

    Raises:
        NotARun: there is no run at `source`.
        ConfigurationError: the eval is wrong.
        UsageError: there is something at `root` already.
    """
    refuse_existing(root.absolute())
    reader = RunReader(source)
    inputs = FreshInputs()
    try:
        prepared = prepare(spec, inputs)
        taking = _Taking(reader, prepared)
        session = create_run(
            root,
            name=spec.name,
            config=plain(spec, explicit=True),
            inputs=input_files(prepared, inputs.files),
            planned=prepared.planned,
            fields={**session_fields(prepared), "source": origin},
            preload=taking.records(),
        )
        return Begun(session, prepared), taking.told(root)
    finally:
        inputs.close()
        reader.close()


class _Taking:
    """Goes through the new plan and finds what the old run has of it."""

    def __init__(self, reader: RunReader, prepared: Prepared) -> None:
        last = last_session(reader)
        saved = saved_eval(last)
        common = msgspec.structs.replace(
            saved, tasks={n: t for n, t in saved.tasks.items() if n in prepared.spec.tasks}
        )
        built = (
            prepare(common, SavedInputs(reader.layout, last.inputs))
            if common.tasks
            else Prepared(saved, [], prepared.inputs)
        )
        self._reader, self._history = reader, History(reader)
        self._old = _Side(built, last.code)
        self._new = _Side(prepared, {task.name: code_of(task.task) for task in prepared.tasks})
        self._finished = KeySet(reader.finished())
        self._taken = self._rescored = 0
        self._why: Counter[str] = Counter()
        self._costs: list[float] = []

    def records(self) -> Iterator[Record]:
        """Every record to be taken over, and at the end a note that says so."""
        for task in self._new.prepared.tasks:
            for model in task.models:
                for cell in Lane(task, model, KeySet([]), KeySet([])).cells():
                    yield from self._of(cell)
        text = (
            f"taken over from run {self._reader.run.hex()}: {self._taken} trials, {self._rescored} to be scored again"
        )
        yield Note(kind="fork", text=text, data={"run": self._reader.run.hex(), "trials": self._taken})

    def _of(self, cell: Cell) -> Iterator[Record]:
        why = self._difference(cell)
        if why:
            self._why[why] += 1
            return
        sources = {"source": self._reader.run.hex()}
        past = self._history.whole(cell.key)
        yield from (msgspec.structs.replace(step, **sources) for step in past.steps)
        if past.answer is not None:
            yield past.answer
        if past.end is None:
            self._why["unfinished in the run"] += 1
            return
        self._costs.append(past.end.cost)
        if self._scores_the_same(cell):
            self._taken += 1
            yield from past.scores.values()
            yield msgspec.structs.replace(past.end, **sources)
        else:
            self._rescored += 1

    def _difference(self, cell: Cell) -> str:
        """Why a trial cannot be taken over; empty if it can."""
        old = self._old.task(cell.task.name)
        if old is None or cell.model not in old.models:
            return "new task or model"
        position = self._old.position(old, cell.task.dataset.key(cell.position))
        if position is None:
            return "new sample"
        digest = bytes.fromhex(cell.key)
        if digest not in self._finished and digest not in self._history.touched:
            return "not in the run yet"
        mine = self._new.answer_identity(cell.task, cell.model, cell.position, cell)
        if mine != self._old.answer_identity(old, cell.model, position, cell):
            return "its answer would be another"
        return ""

    def _scores_the_same(self, cell: Cell) -> bool:
        old = self._old.task(cell.task.name)
        position = self._old.position(old, cell.task.dataset.key(cell.position)) if old else None
        if old is None or position is None:
            return False
        mine = self._new.score_identity(cell.task, cell.position)
        return bool(mine == self._old.score_identity(old, position))

    def told(self, root: Path) -> Forked:
        planned = self._new.prepared.planned
        mean = sum(self._costs) / len(self._costs) if self._costs else 0.0
        owed = sum(self._why.values())
        return Forked(str(root), planned, self._taken, self._rescored, dict(self._why), mean * owed)
