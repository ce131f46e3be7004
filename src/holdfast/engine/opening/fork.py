"""Forking: a new run with another eval, which keeps every trial that the change does not affect.

A trial is kept when everything that determines its answer is the same: the messages it asks with, or its solver's
source and input; its model and generation; its axes and epoch; its limits. If only the scoring differs, its replies
and its answer are kept, and it is scored again. All of it is in the new run before the run gets its name, so a kill
leaves either nothing or a complete run. A trial in stages without an answer starts from the beginning. Trials that
are run again use the replies of the old run to the same requests.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from holdfast.engine.dependencies.waves import has_dependencies, recall_choices
from holdfast.engine.opening.forking.fork_files import ForkFiles
from holdfast.engine.opening.forking.fork_identity import TrialIdentities, mark_changes
from holdfast.engine.opening.forking.fork_slots import step_at_slot, with_plain_names
from holdfast.engine.opening.new_run import StartedSession, create_planned
from holdfast.engine.opening.noted_runs import FORK, noted_run
from holdfast.engine.opening.second_load import unsteady_values
from holdfast.engine.planning.cost import CostEstimate
from holdfast.engine.planning.earlier_runs import comparable_code
from holdfast.engine.planning.inputs import FreshInputs, SavedInputs
from holdfast.engine.planning.plan import PlannedTask, PlannedTrial, TrialSequence
from holdfast.engine.planning.prepared_eval import PreparedEval, prepare_eval
from holdfast.engine.planning.saved_eval import last_session, saved_eval
from holdfast.engine.planning.trial_keys import KeySet
from holdfast.engine.trials.history import NEW_SLOT, AttemptState, TrialHistory
from holdfast.engine.trials.scopes import slot_path
from holdfast.engine.trials.stages.stage_outcomes import clean_up_step
from holdfast.models.message import Usage
from holdfast.run.core.axes.choices import AxisChoice
from holdfast.run.core.prices import Prices
from holdfast.run.core.recorded_code import recorded_code
from holdfast.run.core.records import (
    REDO_NOTE,
    Coordinates,
    NoteRecord,
    Record,
    SessionRecord,
    ShareKey,
    Status,
    StepRecord,
    TaskCode,
)
from holdfast.run.core.result_file import RESULT
from holdfast.run.core.slots.slot_versions import slots_by_name
from holdfast.run.drift.served_names import recorded_name, served_note
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.rows.fold_tables import REPLY
from holdfast.run.fold.rows.trial_row import SAVED
from holdfast.run.session.create import refuse_existing, refuse_unwritable
from holdfast.spec import EvalSpec, plain_data
from holdfast.tasks.from_spec import samples_on_record, with_agent
from holdfast.tasks.scorers.base import BuiltIn
from holdfast.tasks.stages import is_staged
from holdfast.tasks.task import Task

UNFINISHED_THERE = "unfinished in the run"


class ForkSummary(msgspec.Struct):
    """What a fork kept, and why not the rest."""

    run: str
    planned: int
    taken: int
    """Trials that were kept whole."""
    rescored: int
    """Trials that were kept with their answers, to be scored again."""
    remaining_by_reason: dict[str, int]
    """Why the others remain, and how many."""
    cost: float | None
    """What those are likely to cost, by what the trials of the run have taken so far; None where that is unknown. Less
    where they ask what the run has answered.
    """
    saved: float | None = None
    """What the replies that are kept would cost if they were asked for again; None where that is unknown."""
    replies: int = 0
    """Recorded replies of the run that are not kept: those trials use them again where they ask the same."""
    currency: str = "USD"
    """Of the cost."""
    without_trials: list[str] = []
    """The tasks and models that have no trial in the run, whose cost goes by trials of others."""
    warnings: list[str] = []
    """What was noticed about the eval."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing remains to be run in the new run."""
        return self.taken == self.planned


def fork_run(
    source: Path, spec: EvalSpec, root: Path, *, origin: str = "", tasks: Mapping[str, Task] | None = None
) -> tuple[StartedSession, ForkSummary]:
    """Makes the run `root` with the eval `spec` and keeps what it can of the run at `source`.

    `tasks` are those that exist in this process.

    Raises:
        NotARun: there is no run at `source`.
        ConfigurationError: the eval is wrong.
        UsageError: there is something at `root` already.
        StorageFailure: no run can be written there.
    """
    refuse_existing(root.absolute(), "choose another directory")
    refuse_unwritable(root.absolute())
    reader = RunReader(source)
    inputs = FreshInputs()
    try:
        prepared = prepare_eval(spec, inputs, tasks, _samples_of_run(reader))
        kept = _KeptTrials(reader, prepared, tasks)
        session = create_planned(root, prepared, inputs, origin, preload=kept.records(), fill=kept.files.copy)
        return StartedSession(session, prepared, warnings=prepared.warnings), kept.summary(root)
    finally:
        inputs.close()
        reader.close()


class ForkForecast(msgspec.Struct, frozen=True):
    """What a fork would keep."""

    planned: int
    kept: int
    """Trials whose answers would be kept, to be scored again or not."""


_MOST_FORECAST = 20_000
"""Of more trials a forecast takes too long for a message."""


def forecast_fork(reader: RunReader, spec: EvalSpec, tasks: Mapping[str, Task] | None = None) -> ForkForecast | None:
    """What a fork with this eval would keep; None where there are too many trials to count. Nothing is written.

    Raises:
        ConfigurationError: the eval is wrong.
    """
    with contextlib.closing(FreshInputs()) as inputs:
        prepared = prepare_eval(spec, inputs, tasks, _samples_of_run(reader))
        if prepared.planned > _MOST_FORECAST:
            return None
        return ForkForecast(prepared.planned, _KeptTrials(reader, prepared, tasks).count_kept())


class _KeptTrials:
    """Goes through the new plan and finds what the old run has of it."""

    def __init__(self, reader: RunReader, prepared: PreparedEval, tasks: Mapping[str, Task] | None) -> None:
        last = last_session(reader)
        self._reader, self._history = reader, TrialHistory(reader)
        saved = recorded_code(reader.sessions)
        self._old = TrialIdentities(_old_plan(reader, last, prepared), saved, last.weights)
        codes = {task.name: comparable_code(task.task, saved.get(task.name)) for task in prepared.tasks}
        unsteady = unsteady_values(reader, saved, codes, prepared.spec, set(tasks or ()))
        self._new = TrialIdentities(prepared, mark_changes(saved, codes, unsteady), prepared.weights)
        self._source = reader.run.hex()
        self.files = ForkFiles(reader.layout, self._source)
        self._taken = self._rescored = self._kept_replies = 0
        self._why: Counter[str] = Counter()
        self._names: set[tuple[str, str]] = set()
        """The models whose replies are kept, each with a name that its server reported."""
        self._estimate = CostEstimate(reader, prepared.spec)
        self._kept_usage: dict[ShareKey, Usage] = {}
        recall_choices(self._old.prepared, reader)
        self._choices = list(self._kept_choices())

    def _kept_choices(self) -> Iterator[AxisChoice]:
        """The choices for axis values that would be made again as they were: all that they rest on is kept."""
        tasks = {task.name: task for task in self._new.prepared.tasks if has_dependencies(task)}
        # In the order in which they were made: one may rest on another.
        for choice in self._reader.axis_choices().values():
            task, old = tasks.get(choice.task), self._old.task(choice.task)
            if task is None or old is None or old.task.grid is None or task.task.grid is None:
                continue
            place = choice.axis, choice.value
            entry, before = task.task.grid.value(*place), old.task.grid.value(*place)
            is_same = (entry.best_of, entry.scorer) == (before.best_of, before.scorer)
            if is_same and choice.model in task.models and self._keeps_all(task, choice, entry.best_of):
                task.choices[choice.key] = choice.chosen
                yield choice

    def _keeps_all(self, task: PlannedTask, choice: AxisChoice, values: Collection[str]) -> bool:
        """Whether every trial with one of these values is kept with all of its scores."""
        axes = tuple(axes for axes in task.axes_of(choice.model) if axes[choice.axis] in values)
        part, scorers = task._replace(axes=axes, by_model=None), {scorer.name for scorer in task.task.scorers}
        trials = TrialSequence(part, choice.model, KeySet([]), KeySet([])).trials()
        return all(self._is_finished_alike(planned, scorers) for planned in trials)

    def _is_finished_alike(self, planned: PlannedTrial, scorers: set[str]) -> bool:
        if self._difference(planned) or self._kept_scores(planned) != scorers:
            return False
        trial = self._reader.fold.find(planned.key)
        return trial is not None and trial.state.is_finished

    def count_kept(self) -> int:
        """How many trials of the run keep their answers, those that have failed in a scorer too."""
        unchanged = (planned.key for planned in self._planned() if not self._difference(planned))
        found = map(self._reader.fold.find, unchanged)
        return sum(trial is not None and bool(trial.row.counted or trial.row.answered) for trial in found)

    def _planned(self) -> Iterator[PlannedTrial]:
        for task in self._new.prepared.tasks:
            for model in task.models:
                yield from TrialSequence(task, model, KeySet([]), KeySet([])).trials()

    def records(self) -> Iterator[Record]:
        """Every record to be kept, and at the end a note that says so."""
        yield from (choice.as_note() for choice in self._choices)
        for planned in self._planned():
            yield from self._records_of(planned)
        text = f"kept from run {self._source}: {self._taken} trials, {self._rescored} to be scored again"
        runs = [noted_run(self._source, self._reader.layout.root)]
        yield from (served_note(model, name, is_reused=True) for model, name in sorted(self._names))
        yield from (note for _, note in self._reader.notes() if note.kind == REDO_NOTE)
        yield NoteRecord(kind=FORK, text=text, data={"run": self._source, "trials": self._taken, "runs": runs})

    def _records_of(self, planned: PlannedTrial) -> Iterator[Record]:
        if why := self._difference(planned):
            self._count_remaining(planned, why)
            return
        named = slots_by_name(self._reader.sessions[-1], planned.task.name)
        state = with_plain_names(self._history.kept_attempt(planned.key), named)
        is_in_stages = is_staged(planned.task.task.solver)
        if is_in_stages and state.answer is None and state.end is None:
            # What its stages left beside the run, such as a workspace, stays with the old one.
            self._count_remaining(planned, UNFINISHED_THERE)
            return
        kept = self._kept_scores(planned)
        yield from self._transcript(planned, state, kept)
        here: dict[str, Any] = {"source": self._source, "attempt": state.attempt}
        if state.end is not None and self._is_whole(planned, state, kept):
            self._taken += 1
            self.files.keep(planned.key, is_whole=True)
            yield from (msgspec.structs.replace(score, **here) for score in state.scores.values())
            # The result file is written anew, so a digest of the old one, which a repair has cited, is not kept.
            cited = {name: digest for name, digest in state.end.artifacts.items() if name != RESULT}
            yield msgspec.structs.replace(state.end, artifacts=cited, **here)
            if is_in_stages:
                # Nothing of it is beside the new run.
                yield clean_up_step(planned.key, state.attempt)
            return
        # A score of a trial that is to end here again has its place in that end.
        placeless = here | {"task": "", "model": "", "axes": {}}
        yield from (msgspec.structs.replace(state.scores[name], **placeless) for name in kept if name in state.scores)
        if state.answer is None:
            self._count_remaining(planned, UNFINISHED_THERE)
        else:
            self._rescored += 1
            self.files.keep(planned.key, is_whole=False)

    def _transcript(self, planned: PlannedTrial, state: AttemptState, kept: set[str]) -> Iterator[Record]:
        """The steps of the solver, its answer, and the steps of the score slots that are kept."""
        # The first record of a trial says which it is.
        about: Coordinates | None = _coordinates(planned)
        self._kept_replies += sum(bool(step.model) and step.error is None for step in state.steps)
        for step in state.steps:
            self._note_usage(step)
            self._note_name(step)
            yield msgspec.structs.replace(step, source=self._drawn_in(step), attempt=state.attempt, about=about)
            about = None
        if state.answer is None:
            return
        yield msgspec.structs.replace(state.answer, attempt=state.attempt, about=about)
        for scorer in sorted(kept):
            for step in _slot_steps(state, scorer):
                self._note_name(step)
                self._note_usage(step)
                yield msgspec.structs.replace(step, source=self._drawn_in(step), attempt=state.attempt)

    def _note_usage(self, step: StepRecord) -> None:
        key = step.model, False
        self._kept_usage[key] = self._kept_usage.get(key, Usage()) + (step.usage or Usage())

    def _note_name(self, step: StepRecord) -> None:
        if step.model and step.error is None:
            self._names.add((step.model, recorded_name(step)))

    def _drawn_in(self, step: StepRecord) -> str:
        """The run in which a reply was drawn: by that it is known as one draw, however often it is passed on."""
        return step.source or self._source

    def _is_whole(self, planned: PlannedTrial, state: AttemptState, kept: set[str]) -> bool:
        """Whether a trial that has ended has exactly the scores that it is to have."""
        if state.end is None or state.end.status is not Status.VALID:
            return state.end is not None
        scorers = {scorer.name for scorer in planned.task.task.scorers}
        return scorers == kept == {*state.end.scores, *state.scores}

    def _count_remaining(self, planned: PlannedTrial, why: str) -> None:
        self._why[why] += 1
        self._estimate.add(planned)

    def _difference(self, planned: PlannedTrial) -> str:
        """Why a trial cannot be kept; empty if it can."""
        old, name = self._old.task(planned.task.name), planned.task.name
        if old is None:
            return "its answer could differ" if name in self._old.prepared.spec.tasks else "new task or model"
        if planned.model not in old.models:
            return "new task or model"
        position = old.dataset.position(planned.task.dataset.key(planned.position))
        if position is None:
            return "new sample"
        if bytes.fromhex(planned.key) not in self._history.started:
            return "not in the run yet"
        mine = self._new.answer_identity(planned.task, planned.model, planned.position, planned.axes)
        if mine != self._old.answer_identity(old, planned.model, position, planned.axes):
            return "its answer could differ"
        return ""

    def _kept_scores(self, planned: PlannedTrial) -> set[str]:
        """The scorers that would score this trial's answer as they have."""
        old = self._old.task(planned.task.name)
        position = old.dataset.position(planned.task.dataset.key(planned.position)) if old else None
        if old is None or position is None:
            return set()
        built_in = {scorer.name for scorer in planned.task.task.scorers if isinstance(scorer, BuiltIn)}
        before = self._old.score_identities(old, position, built_in)
        after = self._new.score_identities(planned.task, planned.position, built_in)
        return {name for name, identity in after.items() if before.get(name) == identity}

    def summary(self, root: Path) -> ForkSummary:
        planned = self._new.prepared.planned
        shares = {key: usage for key, usage in self._kept_usage.items() if key[0]}
        saved = Prices(plain_data(self._new.prepared.spec)).cost(shares, ()).amount
        kept, why = (self._taken, self._rescored), dict(self._why)
        found = ForkSummary(str(root), planned, *kept, why, self._estimate.cost, saved, self._unkept_replies())
        found.without_trials = self._estimate.without_trials
        return found

    def _unkept_replies(self) -> int:
        """How many replies trials that are run again may find in the old run, which has some from other runs itself."""
        fold = self._reader.fold
        reused = sum(entry.calls for entry in fold.ledger() if entry.kind == SAVED)
        return max(sum(fold.written(REPLY).values()) + reused - self._kept_replies, 0)


def _slot_steps(state: AttemptState, scorer: str) -> list[StepRecord]:
    """The steps of the attempt that filled a slot, or that was to continue.

    The failed attempts of a slot are not kept: one that was to continue is the first in the new run.
    """
    if (score := state.scores.get(scorer)) is not None:
        return state.slot_steps.get(slot_path(scorer, score.slot_attempt), [])
    attempt = state.slots.get(scorer, NEW_SLOT).attempt
    return [step_at_slot(step, slot_path(scorer, 1)) for step in state.slot_steps.get(slot_path(scorer, attempt), [])]


def _coordinates(planned: PlannedTrial) -> Coordinates:
    return Coordinates(planned.task.name, planned.model, planned.sample, planned.epoch, dict(planned.axes))


def _old_plan(reader: RunReader, last: SessionRecord, new: PreparedEval) -> PreparedEval:
    """The plan of the run that is forked, as far as its tasks are tasks of the new one.

    Of code only the digests of what it was are compared, so that of today will do; what it asked about is in the run.
    """
    saved = saved_eval(last)
    common = {
        name: entry
        for name, entry in saved.tasks.items()
        if name in new.spec.tasks and bool(entry.use) is bool(new.spec.tasks[name].use)
    }
    given = {task.name: _old_task(task, saved, last.code.get(task.name)) for task in new.tasks if task.name in common}
    inputs = SavedInputs(reader.layout, last.inputs)
    # Without the names of code that may have changed or gone since.
    tasks = {name: msgspec.structs.replace(entry, solver=None, scorers=[]) for name, entry in common.items()}
    built = prepare_eval(msgspec.structs.replace(saved, tasks=tasks), inputs, given).tasks if common else []
    return PreparedEval(saved, built, inputs)


def _old_task(new: PlannedTask, saved: EvalSpec, code: TaskCode | None) -> Task:
    entry = saved.tasks[new.name]
    if entry.use:
        return new.task
    declared = samples_on_record(new.name, saved, code) or new.task
    if entry.agent is not None:
        return with_agent(declared, entry)
    return dataclasses.replace(declared, solver=new.task.solver) if entry.solver else declared


def _samples_of_run(reader: RunReader) -> dict[str, Task]:
    """By name, the tasks of a run as far as its samples are concerned, where that is on record."""
    last = last_session(reader)
    saved = saved_eval(last)
    found = {name: samples_on_record(name, saved, last.code.get(name)) for name in saved.tasks}
    return {name: task for name, task in found.items() if task is not None}
