"""Selecting the trials of a session with `--where` and `--redo`.

`where` selects some of the remaining trials; `redo` runs some that have ended again, and keeps their results until the
new attempt has one. Both are computed once, under the lease, before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.engine.planning.plan import PlannedTask, PlannedTrial, TrialSequence
from holdfast.engine.planning.prepared_eval import PreparedEval
from holdfast.engine.planning.saved_samples import SavedSample, saved_sample
from holdfast.engine.planning.trial_keys import KeySet
from holdfast.errors import UsageError
from holdfast.run.core.records import BY_NAMES, BY_RESULTS, BY_SCORES, Coordinates, PlanEntry
from holdfast.run.fold.candidate import TrialCandidate, names_of
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.run_fold import FoldedTrial, RunFold
from holdfast.run.fold.states import State
from holdfast.run.where.expression import Names, Where, parse_where
from holdfast.spec import EvalSpec
from holdfast.tasks.judges.panels import shown_names
from holdfast.tasks.solver import Generate

_OF_RESULTS = frozenset({"status", "reason", "cost", "tokens", "seconds", "answer"})


@dataclass(frozen=True)
class SelectionRequest:
    """The expressions that a person has given; empty if absent."""

    where: str | None = None
    redo: str | None = None
    option_prefix: str = "--"
    """The prefix of the names of the two where they are given."""
    rescoring: bool = False
    """Whether only answers that are on record are scored, and nothing else is run."""
    start_from: str = ""
    """The stage from which trials are attempted once more: those that `where` matches."""
    until: str = ""
    """The stage after which trials are left for a later session."""
    offered: EvalSpec | None = None
    """The eval that a rescoring was given: answers of models and tasks that it leaves out are not scored."""

    def __bool__(self) -> bool:
        return self.where is not None or self.redo is not None or self.rescoring or bool(self.start_from)


class TrialSelection(NamedTuple):
    """The trials that were selected."""

    remaining: KeySet | None
    """Those of the remaining trials that are run; None for all of them."""
    redo: KeySet
    """Trials that are attempted once more."""
    again: int
    """How many of those are finished: what they have counts until then."""
    matched: int
    """How many trials of the plan `where` matches, finished or not."""
    blocked: int
    """How many of those are blocked."""
    failed: int = 0
    """How many of those have failed or belong to a stopped task, and are not run."""
    failed_again: int = 0
    """How many of the trials that are attempted once more have failed."""
    redone_by: str = ""
    """What finished trials that are attempted once more were selected by."""
    redone_tasks: frozenset[str] = frozenset()
    """The tasks of which a trial is attempted once more: none of them is stopped any longer."""
    slots: Mapping[str, KeySet] | None = None
    """Of a rescoring, by the name of a slot, the trials in which it is filled."""
    scores_that_hold: int = 0
    """How many of those scores are on record and hold, since the targets of their samples are as they were."""
    start_from: str = ""
    """The stage from which those of `redo` are attempted."""
    not_reached: int = 0
    """How many of those that `where` matches have not come to that stage."""
    until: str = ""
    """The stage after which trials are left for a later session."""
    passed: KeySet = KeySet([])
    """Those that were left there before."""
    skipped_tasks: frozenset[str] = frozenset()
    """The tasks of which every stage comes later."""
    left_out: int = 0
    """Of a rescoring, how many answers lack scores of which the eval has left out the model or the task."""

    def takes(self, planned: PlannedTrial) -> bool:
        """Whether a trial that is not finished is run in this session."""
        digest = bytes.fromhex(planned.key)
        if self.until and (planned.task.name in self.skipped_tasks or digest in self.passed):
            return False
        return self.remaining is None or digest in self.remaining or digest in self.redo

    def trials_of(self, sequence: TrialSequence) -> Iterator[PlannedTrial]:
        """Those of a sequence that are run in this session, each as it is attempted."""
        trials = filter(self.takes, sequence.trials())
        return map(self.entering, trials) if self.start_from else trials

    def entering(self, planned: PlannedTrial) -> PlannedTrial:
        """A trial as it is attempted: from a stage on, if that was asked for."""
        if not self.start_from or bytes.fromhex(planned.key) not in self.redo:
            return planned
        return planned._replace(start_from=self.start_from, scores_only=False, slots_again=False)

    @property
    def is_finished(self) -> bool:
        """Whether nothing of what was selected is left to be done."""
        return self.remaining is not None and not len(self.remaining) and not len(self.redo)


EVERYTHING = TrialSelection(None, KeySet([]), 0, 0, 0)


def select_trials(
    request: SelectionRequest, reader: RunReader, prepared: PreparedEval, plan: list[PlanEntry]
) -> TrialSelection:
    """The trials of a plan that the expressions select, in the states that they have by that plan.

    Raises:
        UsageError: an expression is not valid, or matches no trial.
    """
    if request.rescoring:
        # Only this command selects slots.
        from holdfast.engine.planning.slot_selection import select_slots  # noqa: PLC0415

        return select_slots(request, reader, prepared, plan)
    if not request:
        return EVERYTHING
    names = known_names(reader, prepared)
    prefix = request.option_prefix
    where = parse_where(request.where, names, f"{prefix}where") if request.where is not None else None
    redo = parse_where(request.redo, names, f"{prefix}redo") if request.redo is not None else None
    selecting = _Selecting(reader, reader.fold.with_plan(plan), where, redo)
    for planned in all_trials(prepared):
        selecting.look_at(planned)
    return selecting.selection(request)


def known_names(reader: RunReader, prepared: PreparedEval) -> Names:
    """What an expression about a plan may name: the axes and scorers on record, and those that come with it."""
    known = names_of(reader.fold)
    axes = {axis for task in prepared.tasks for axes in task.axes for axis in axes}
    scorers = {name for task in prepared.tasks for name in shown_names(task.task.scorers)}
    values = {name: sorted({*known.values.get(name, ()), *more}) for name, more in _planned_values(prepared).items()}
    return Names(
        known.axes | axes,
        known.scorers | scorers,
        columns=lambda: _metadata_names(prepared),
        values={**known.values, **values},
    )


def _planned_values(prepared: PreparedEval) -> dict[str, set[str]]:
    """The tasks, the models and the values of axes that come with a plan."""
    found = {"task": {task.name for task in prepared.tasks}, "model": prepared.models_under_test}
    for axis, value in (item for task in prepared.tasks for axes in task.axes for item in axes.items()):
        found.setdefault(f"axes.{axis}", set()).add(value)
    return found


def _metadata_names(prepared: PreparedEval) -> set[str]:
    """The names of the metadata that the first sample of each task has."""
    return {name for task in prepared.tasks if len(task.dataset) for name in task.dataset[0].metadata or {}}


def all_trials(prepared: PreparedEval) -> Iterator[PlannedTrial]:
    """Every trial of a plan, finished or not."""
    for task in prepared.tasks:
        yield from trials_of_task(task)


def trials_of_task(task: PlannedTask) -> Iterator[PlannedTrial]:
    """Every trial of a task, finished or not."""
    none = KeySet([])
    for model in task.models:
        yield from TrialSequence(task, model, none, none).trials()


class _Selecting:
    """Looks at the trials of a plan one by one."""

    def __init__(self, reader: RunReader, fold: RunFold, where: Where | None, redo: Where | None) -> None:
        self._reader, self._fold, self._where, self._redo = reader, fold, where, redo
        self._started = KeySet(fold.keys())
        self._remaining: list[str] = []
        self._matching_redo: list[str] = []
        self._stuck: list[str] = []
        """Failed trials that `where` matches and `redo` does not: they are not run."""
        self._of_stopped: list[tuple[str, str]] = []
        """The task and the key of others that `where` matches, whose tasks were stopped."""
        self._matched = self._blocked = self._again = self._failed_again = 0
        self._redone_tasks: set[str] = set()

    def look_at(self, planned: PlannedTrial) -> None:
        trial = self._fold.find(planned.key) if bytes.fromhex(planned.key) in self._started else None
        candidate = candidate_of(self._reader, self._fold, planned, trial)
        is_redone = self._redo is not None and self._redo.matches(candidate)
        if self._where is not None and self._where.matches(candidate):
            self._take(planned, trial, is_redone=is_redone)
        if is_redone:
            self._matching_redo.append(planned.key)
            self._redone_tasks.add(planned.task.name)
            self._again += trial is not None and trial.state.is_finished
            self._failed_again += trial is not None and trial.state is State.FAILED

    def _take(self, planned: PlannedTrial, trial: FoldedTrial | None, *, is_redone: bool) -> None:
        self._matched += 1
        if trial is not None and trial.state.is_finished:
            self._blocked += trial.state is State.BLOCKED
            return
        if trial is not None and trial.state is State.FAILED and not is_redone:
            self._stuck.append(planned.key)
        elif planned.task.name in self._fold.stopped:
            self._of_stopped.append((planned.task.name, planned.key))
        else:
            self._remaining.append(planned.key)

    def selection(self, request: SelectionRequest) -> TrialSelection:
        for where, option, matched in (
            (self._where, "where", self._matched),
            (self._redo, "redo", len(self._matching_redo)),
        ):
            if where is not None and not matched:
                listed = "`holdfast show RUN --where …` lists matching trials that have been started."
                raise UsageError(
                    f"{request.option_prefix}{option} {where.text!r} matches no trial of {self._reader.place}.",
                    hint=" ".join([*where.unknown_values, "Nothing was run.", listed]),
                )
        freed = [key for task, key in self._of_stopped if task in self._redone_tasks]
        remaining = KeySet([*self._remaining, *freed]) if request.where is not None else None
        return TrialSelection(
            remaining,
            KeySet(self._matching_redo),
            self._again,
            self._matched,
            self._blocked,
            failed=len(self._stuck) + len(self._of_stopped) - len(freed),
            failed_again=self._failed_again,
            redone_by=selected_by(self._redo) if self._redo is not None and self._again else "",
            redone_tasks=frozenset(self._redone_tasks),
        )


def selected_by(redo: Where) -> str:
    """What of a trial an expression asks for: its scores, another part of its result, or names; empty for transcripts.

    A lost transcript is nothing that a person or the trial's result decides.
    """
    if "scores" in redo.fields:
        return BY_SCORES
    harmless = {"status", "reason"} if "transcript" in redo.fields else set()
    if redo.fields & (_OF_RESULTS - harmless):
        return BY_RESULTS
    return "" if "transcript" in redo.fields else BY_NAMES


def _asked_sample(planned: PlannedTrial) -> SavedSample:
    solver = planned.task.task.solver_at(planned.axes, planned.chosen)
    asks = solver if isinstance(solver, Generate) else None
    return saved_sample(planned.read_sample(), planned.axes, asks)


def candidate_of(reader: RunReader, fold: RunFold, planned: PlannedTrial, trial: FoldedTrial | None) -> TrialCandidate:
    """A trial of a plan as an expression sees it."""
    about = Coordinates(planned.task.name, planned.model, planned.sample, planned.epoch, dict(planned.axes))
    return TrialCandidate(reader, fold, planned.key, about, trial, lambda: _asked_sample(planned))
