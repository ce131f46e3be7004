"""Running the trials of a task in waves, where axis values depend on others.

The first wave are the values that depend on none. Whenever no trial of a task and model is left to be started and none
runs, the values that wait are looked at: where all that one depends on is finished, the best is chosen, the choice is
made durable, and only then its trials start. A value for which nothing can be chosen is left alone: its trials remain,
and say what they wait for. Tasks whose values depend on nothing have no waves, and pay nothing for them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import chain

from holdfast.engine.dependencies.choosing import Dependency, choose
from holdfast.engine.events import AxisValueChosen, Events
from holdfast.engine.planning.plan import PlannedTask, PlannedTrial
from holdfast.engine.planning.prepared_eval import PreparedEval
from holdfast.engine.scheduling.capacity import CapacityGrant
from holdfast.engine.scheduling.scheduler import RunTrial, Scheduler, TrialQueue
from holdfast.engine.trials.record_sink import RecordSink
from holdfast.run.core.axes.choices import AxisChoice
from holdfast.run.fold.reader import RunReader, chosen_values
from holdfast.run.fold.run_fold import RunFold

TrialsOf = Callable[[PlannedTask, str], Iterator[PlannedTrial]]
"""Gives the trials of a task and model that a session runs."""
AskRun = Callable[[Callable[[RunReader], AxisChoice | None]], AxisChoice | None]
"""Asks a question about a run, by what is durable now."""


def recall_choices(prepared: PreparedEval, reader: RunReader) -> None:
    """Gives the tasks of a plan the choices that a run has recorded."""
    for task in prepared.tasks:
        if has_dependencies(task):
            task.choices.update(chosen_values(reader, task.name))


def has_dependencies(task: PlannedTask) -> bool:
    """Whether axis values of a task depend on others."""
    return task.task.grid is not None and task.listed is None and bool(task.task.grid.dependencies)


def startable_now(task: PlannedTask, model: str, fold: RunFold) -> PlannedTask:
    """A task with the combinations that need no score which is still to come."""
    if not has_dependencies(task):
        return task
    own = task.for_model(model)
    undecided = (one for one in _dependencies(own, model) if one.key not in task.choices and choose(fold, one) is None)
    return _without_values(own, undecided)


def count_undecided(prepared: PreparedEval, fold: RunFold) -> int:
    """How many trials of a plan wait for scores that are still to come."""
    return sum(
        task.planned_of(model) - startable_now(task, model, fold).planned_of(model)
        for task in prepared.tasks
        if has_dependencies(task)
        for model in task.models
    )


def _dependencies(task: PlannedTask, model: str) -> Iterator[Dependency]:
    grid = task.task.grid
    for axis, values in (grid.dependencies if grid is not None else {}).items():
        for value, entry in values.items():
            if any(axes[axis] == value for axes in task.axes):
                yield Dependency(task, model, axis, value, entry)


def _without_values(task: PlannedTask, dependencies: Iterable[Dependency]) -> PlannedTask:
    waiting = {(one.axis, one.value) for one in dependencies}
    return task._replace(axes=tuple(axes for axes in task.axes if waiting.isdisjoint(axes.items())))


class Waves:
    """The waves of one task and model: the later ones follow the first in its queue."""

    def __init__(
        self,
        task: PlannedTask,
        model: str,
        scheduler: Scheduler[PlannedTrial],
        sink: RecordSink,
        events: Events,
        trials_of: TrialsOf,
        ask_run: AskRun,
    ) -> None:
        self._task, self._model = task.for_model(model), model
        self._scheduler, self._sink, self._events = scheduler, sink, events
        self._trials_of, self._ask_run = trials_of, ask_run
        self._waiting = {one.key: (one, self._with_value(one)) for one in _dependencies(self._task, model)}
        """Every value that depends on others, and the task with its combinations alone."""
        self._queue: TrialQueue[PlannedTrial] | None = None
        self._active = 0
        self._is_exhausted = self._is_advancing = False

    def _with_value(self, one: Dependency) -> PlannedTask:
        axes = tuple(axes for axes in self._task.axes if axes[one.axis] == one.value)
        return self._task._replace(axes=axes)

    @property
    def first(self) -> PlannedTask:
        """The task with the combinations that depend on nothing."""
        return _without_values(self._task, (one for one, _ in self._waiting.values()))

    def follow(self, queue: TrialQueue[PlannedTrial]) -> None:
        """Has the later waves follow the trials of a queue."""
        self._queue = queue
        queue.trials = self._until_exhausted(queue.trials)

    def _until_exhausted(self, trials: Iterator[PlannedTrial]) -> Iterator[PlannedTrial]:
        self._is_exhausted = False
        yield from trials
        self._is_exhausted = True
        self._look_ahead()

    async def run(self, run_trial: RunTrial[PlannedTrial], planned: PlannedTrial, grant: CapacityGrant) -> None:
        """Runs a trial, and notices whether it was the last one that ran."""
        self._active += 1
        try:
            await run_trial(planned, grant)
        finally:
            self._active -= 1
            self._look_ahead()

    def _look_ahead(self) -> None:
        if self._is_exhausted and not self._active and self._waiting and not self._scheduler.is_stopped:
            self._scheduler.spawn(self._advance())

    async def _advance(self) -> None:
        """Starts the trials of the values that have all that they depend on."""
        # A trial that was taken last may have started since this was spawned.
        if self._active or self._is_advancing or self._queue is None:
            return
        self._is_advancing = True
        try:
            ready = [trials async for trials in self._startable()]
        finally:
            self._is_advancing = False
        if ready:
            self._queue.trials = self._until_exhausted(chain(*ready))
            self._scheduler.add(self._queue)

    async def _startable(self) -> AsyncIterator[Iterator[PlannedTrial]]:
        for one, task in list(self._waiting.values()):
            trials = self._trials_of(task, self._model)
            first = next(trials, None)
            # Nothing is chosen for a value of which this session runs nothing.
            if first is None:
                del self._waiting[one.key]
            elif one.key in self._task.choices or await self._choose(one):
                del self._waiting[one.key]
                yield chain([first], trials)

    async def _choose(self, one: Dependency) -> bool:
        """Makes and records a choice, if one can be made."""
        choice = self._ask_run(lambda reader: choose(reader.fold, one))
        if choice is None:
            return False
        await self._sink.keep(choice.as_note())
        self._task.choices[choice.key] = choice.chosen
        self._events.emit(AxisValueChosen(choice.task, choice.model, choice.axis, choice.value, choice.chosen))
        return True
