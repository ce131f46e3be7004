"""`fail_fast`: stops a task whose first trials all fail with the same error, before the bug has cost much.

Every task without a valid trial has a watch (see `TaskWatch`) that begins with what is on record, so that a resumed
session decides as the one before it would have. Each decision is a note in the journal, written before whatever
follows from it. A retry that has to wait holds no capacity: the trial leaves, and comes back in front of its queue.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from math import gcd
from typing import NamedTuple

import msgspec

from holdfast.engine.events import AttemptEnded, Events, TaskStopped
from holdfast.engine.planning.plan import PlannedTrial, TrialSequence
from holdfast.engine.planning.selection import TrialSelection
from holdfast.engine.scheduling.scheduler import Scheduler, TrialQueue
from holdfast.engine.scheduling.task_watch import TaskWatch, WatchPhase
from holdfast.engine.trials.history import AttemptState, TrialHistory, has_lost_work
from holdfast.engine.trials.record_sink import RecordSink
from holdfast.run.core.records import Failure, Status, TrialRecord
from holdfast.run.core.task_stops import TaskDecision, WatchStep
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.run_fold import FoldedTrial
from holdfast.run.fold.states import is_failed_slot
from holdfast.tasks.source.failure_text import error_identity, failure_line


class _Recorded(NamedTuple):
    """The trials of a task that are on record, as far as its watch has to know them."""

    ended: list[FoldedTrial]
    """Those whose first attempt has ended since the watch began, in the order of their ends."""
    held: list[str]
    """The keys of those of them that have retries left."""
    begun: list[FoldedTrial]
    """Those whose first attempt has not come to an end, of any kind."""
    left_alone: int
    """How many failed before the watch began, and are not run again."""


class WatchedTask:
    """A task under watch: its queues, and the trials that wait for the outcome."""

    def __init__(self, name: str) -> None:
        self.name, self.watch = name, TaskWatch(0)
        self.since = 0
        """The first session whose ends count."""
        self.sequences: list[TrialSequence] = []
        self.queues: dict[str, TrialQueue[PlannedTrial]] = {}
        """By model."""
        self.held: dict[str, tuple[PlannedTrial, TrialRecord | None]] = {}
        """By key, the trials whose next attempt waits, with the end of the last one if it is of this session."""
        self.held_on_record: list[str] = []
        self.attempted: set[str] = set()
        """The keys of trials that have been started since the watch began."""
        self.in_front: set[str] = set()
        """The keys of trials that were put in front of a queue, and come up in it once more."""
        self.drawn: set[str] = set()
        """The keys of those that were drawn to be tried one at a time, in this session."""
        self.counted = 0
        """How many of them have come to an end that counts."""
        self.text = ""
        """The error that all have in common, as people read it."""
        self.is_stuck = False
        """Whether this session can find out no more."""

    @property
    def has_front(self) -> bool:
        return any(queue.front for queue in self.queues.values())


class FailFast:
    """The watches of one session."""

    def __init__(
        self,
        reader: RunReader,
        history: TrialHistory,
        sink: RecordSink,
        events: Events,
        scheduler: Scheduler[PlannedTrial],
        selection: TrialSelection,
        *,
        session: int,
        seed: int,
    ) -> None:
        """`session` is the number of this session, `seed` decides which trials are drawn."""
        self._reader, self._history, self._sink, self._events = reader, history, sink, events
        self._scheduler, self._selection, self._session, self._seed = scheduler, selection, session, seed
        self._watched: dict[str, WatchedTask] = {}
        self._decisions = reader.fail_fast_decisions()
        self._places: dict[str, Iterator[tuple[TrialSequence, int]]] = {}

    # The start of a session.

    def add(self, sequence: TrialSequence, queue: TrialQueue[PlannedTrial]) -> None:
        """The trials of a task and a model, and the queue that they are started from."""
        name = sequence.task.name
        if name not in self._watched and self._needs_watch(sequence):
            self._watched[name] = WatchedTask(name)
        if (watched := self._watched.get(name)) is not None:
            watched.sequences.append(sequence)
            watched.queues[queue.model] = queue

    def _needs_watch(self, sequence: TrialSequence) -> bool:
        name, decision = sequence.task.name, self._decisions.get(sequence.task.name)
        is_lifted = decision is not None and decision.step is WatchStep.LIFTED
        return sequence.task.fail_fast and not is_lifted and name not in self._reader.fold.valid_tasks

    def begin(self) -> None:
        """Takes in what is on record; before the first trial starts."""
        for watched in list(self._watched.values()):
            self._take_in(watched, self._decisions.get(watched.name))
        for name in self._reader.fold.stopped.keys() & self._selection.redone_tasks - self._watched.keys():
            # It is no longer watched; but it was stopped, and is not from now on.
            self._sink.put(TaskDecision(name, WatchStep.REDO, since=self._session).as_note())

    def _take_in(self, watched: WatchedTask, decision: TaskDecision | None) -> None:
        if watched.name in self._selection.redone_tasks:
            watched.since = self._session
            self._note(watched, WatchStep.REDO)
            decision = None
        elif decision is not None:
            watched.since = decision.since
        found = self._recorded(watched)
        watched.watch = self._rewatched(watched, found)
        watched.held_on_record = found.held
        watched.attempted = {trial.key for trial in found.ended}
        self._replay(watched, found, decision)

    def _rewatched(self, watched: WatchedTask, found: _Recorded) -> TaskWatch:
        planned = sum(sequence.task.planned_of(sequence.model) for sequence in watched.sequences)
        watch = TaskWatch(planned - found.left_alone)
        for queue in watched.queues.values():
            queue.watch = watch
        return watch

    def _recorded(self, watched: WatchedTask) -> _Recorded:
        found = _Recorded([], [], [], 0)
        left_alone = 0
        for trial in self._reader.fold.trials_of(watched.name):
            end = trial.row.end
            if end is None:
                found.begun.append(trial)
            elif end.session < watched.since:
                left_alone += end.status is Status.FAILED and trial.packed_key not in self._selection.redo
            elif end.will_retry and self._has_lost_work(trial):
                found.begun.append(trial)
            elif end.status is not Status.UNFINISHED or trial.row.answered:
                found.ended.append(trial)
                if end.status is Status.FAILED and end.will_retry and end.attempt >= trial.row.attempt:
                    found.held.append(trial.key)
        found.ended.sort(key=lambda trial: trial.row.moment)
        return found._replace(left_alone=left_alone)

    def _has_lost_work(self, trial: FoldedTrial) -> bool:
        """Whether its last attempt says nothing of the task, because its work was lost."""
        end = self._history.last_end(trial.key)
        return end is not None and has_lost_work(end)

    def _replay(self, watched: WatchedTask, found: _Recorded, decision: TaskDecision | None) -> None:
        """Brings the watch to where the record leaves it."""
        watch = watched.watch
        checking = decision.trials if decision is not None and decision.step is WatchStep.CHECKING else None
        for number, trial in enumerate(found.ended):
            if checking == number and watch.phase is WatchPhase.DRAINING:
                watch.phase = WatchPhase.CHECKING
            is_read = watch.phase is not WatchPhase.DRAINING
            failure = self._failure(trial) if is_read and not watch.is_over else None
            if watch.count(_identity(failure), is_drawn=True):
                self._lift(watched)
                return
            watched.text = watched.text or (failure_line(failure) if failure is not None else "")
        if checking == len(found.ended) and watch.phase is WatchPhase.DRAINING:
            watch.phase = WatchPhase.CHECKING
        if watch.phase is WatchPhase.DRAINING:
            self._put_begun_in_front(watched, found.begun)
        self._settle(watched)

    def _failure(self, trial: FoldedTrial) -> Failure | None:
        """The error of the task's code with which a trial has failed; None where it has ended in another way."""
        end = self._history.last_end(trial.key)
        return _task_failure(end) if end is not None else None

    def _put_begun_in_front(self, watched: WatchedTask, begun: list[FoldedTrial]) -> None:
        """What was running when the first ten had failed alike comes to its end first, as it would have then."""
        keys = {trial.key for trial in begun}
        for sequence in watched.sequences:
            queue = watched.queues[sequence.model]
            count = sum(trial.standing.group.model == sequence.model for trial in begun)
            trials = (trial for trial in self._selection.trials_of(sequence) if trial.key in keys)
            queue.front.extend(islice(trials, count))
            watched.in_front.update(trial.key for trial in queue.front)

    # While trials run.

    def holds_back(self, planned: PlannedTrial, state: AttemptState) -> bool:
        """Whether a trial that was started has to wait, because its first attempt has ended."""
        watched = self._watched.get(planned.task.name)
        if watched is None:
            return False
        watched.attempted.add(planned.key)
        if state.is_first or state.answer is not None:
            return False
        watched.held[planned.key] = planned, None
        return True

    def attempt_ended(self, planned: PlannedTrial, end: TrialRecord, *, is_first: bool) -> bool:
        """Counts the end of an attempt, which is durable; whether its retry, if there is to be one, has to wait."""
        watched = self._watched.get(planned.task.name)
        if watched is None:
            return False
        if end.status is Status.VALID:
            self._lift(watched, is_noted=False)
        elif is_first and (end.status is not Status.UNFINISHED or is_failed_slot(end.stage)):
            self._count(watched, planned, end)
        if watched.watch.is_over or not end.will_retry:
            return False
        watched.held[planned.key] = planned, end
        return True

    def _count(self, watched: WatchedTask, planned: PlannedTrial, end: TrialRecord) -> None:
        failure = _task_failure(end)
        watched.text = watched.text or (failure_line(failure) if failure is not None else "")
        is_drawn = planned.key in watched.drawn
        watched.counted += is_drawn
        if watched.watch.count(_identity(failure), is_drawn=is_drawn):
            self._lift(watched)

    def left(self, planned: PlannedTrial) -> None:
        """A trial no longer runs."""
        watched = self._watched.get(planned.task.name)
        if watched is not None:
            watched.watch.active -= 1
            self._settle(watched)

    def resolve(self) -> bool:
        """Nothing runs, and nothing may start; whether that is different now."""
        before = len(self._watched)
        is_changed = False
        for watched in list(self._watched.values()):
            if watched.watch.phase is WatchPhase.OPENING and self._selection.remaining is not None and watched.held:
                # Only these few were selected: nothing more will come to light about the others.
                self._lift(watched, is_noted=False)
            elif not watched.is_stuck:
                self._drop_unreachable(watched)
                self._settle(watched)
                is_changed = is_changed or watched.has_front
        return is_changed or len(self._watched) < before

    def _drop_unreachable(self, watched: WatchedTask) -> None:
        """Forgets trials whose model has been disabled meanwhile."""
        for queue in watched.queues.values():
            if not self._scheduler.may_start(queue):
                queue.front.clear()

    # Decisions.

    def _settle(self, watched: WatchedTask) -> None:
        """Once none of the task runs any more, and all failed alike: tries the next one, or stops the task."""
        watch = watched.watch
        if not watch.is_quiet or watched.has_front:
            return
        trial = None if watch.has_checked else self._draw(watched)
        if trial is None:
            # Where the rest of the plan is all that was drawn, every one of them has to have failed.
            watched.is_stuck = not watch.has_checked and watched.counted < len(watched.drawn)
            if not watched.is_stuck:
                self._stop(watched)
            return
        if watch.phase is WatchPhase.DRAINING:
            self._note(watched, WatchStep.CHECKING)
            watch.phase = WatchPhase.CHECKING
        watched.drawn.add(trial.key)
        watched.in_front.add(trial.key)
        queue = watched.queues[trial.model]
        queue.front.append(trial)
        self._scheduler.add(queue)

    def _draw(self, watched: WatchedTask) -> PlannedTrial | None:
        """The next trial to try, by the seed of the eval; None if no other is left."""
        places = self._places.get(watched.name)
        if places is None:
            places = self._places[watched.name] = _places_by_seed(watched.sequences, f"{self._seed}/{watched.name}")
        for sequence, place in places:
            trial = sequence.at(place)
            if trial is not None and trial.key not in watched.attempted and self._may_try(watched, trial):
                return self._selection.entering(trial)
        return None

    def _may_try(self, watched: WatchedTask, trial: PlannedTrial) -> bool:
        return self._selection.takes(trial) and self._scheduler.may_start(watched.queues[trial.model])

    def _lift(self, watched: WatchedTask, *, is_noted: bool = True) -> None:
        """The trials do not all fail alike: from now on the task runs like any other.

        A valid trial says so by itself, for as long as the run exists; anything else is noted.
        """
        if is_noted:
            self._note(watched, WatchStep.LIFTED)
        self._end_watch(watched)
        for queue in watched.queues.values():
            queue.watch = None
            if watched.in_front:
                queue.trials = _without(queue.trials, watched.in_front)
        for planned, _ in watched.held.values():
            queue = watched.queues[planned.model]
            queue.front.append(planned)
            self._scheduler.add(queue)

    def _end_watch(self, watched: WatchedTask) -> None:
        watched.watch.end()
        del self._watched[watched.name]
        self._places.pop(watched.name, None)

    def _stop(self, watched: WatchedTask) -> None:
        """Nothing more of the task is started: whatever has an attempt has failed with it."""
        self._end_watch(watched)
        self._scheduler.drop_watched(watched.watch)
        self._scheduler.spawn(self._record_stop(watched))

    async def _record_stop(self, watched: WatchedTask) -> None:
        last = [self._last_end(key, end) for key, (_, end) in watched.held.items()]
        last += [self._last_end(key, None) for key in watched.held_on_record if key not in watched.held]
        ends = [msgspec.structs.replace(end, will_retry=False) for end in last if end is not None]
        for end in ends:
            self._sink.put(end)
        await self._sink.keep(self._decision(watched, WatchStep.STOPPED).as_note())
        self._sink.when_counted(lambda: self._report_stop(watched, ends))

    def _last_end(self, key: str, end: TrialRecord | None) -> TrialRecord | None:
        return end if end is not None else self._history.last_end(key)

    def _report_stop(self, watched: WatchedTask, ends: list[TrialRecord]) -> None:
        for end in ends:
            is_of_now = watched.held.get(end.trial, (None, None))[1] is not None
            self._events.emit(AttemptEnded(end, without_retry=is_of_now))
        planned = sum(sequence.task.planned_of(sequence.model) for sequence in watched.sequences)
        watch = watched.watch
        self._events.emit(TaskStopped(watched.name, watched.text, watch.alike, planned - watch.ended))

    def _note(self, watched: WatchedTask, step: WatchStep) -> None:
        self._sink.put(self._decision(watched, step).as_note())

    def _decision(self, watched: WatchedTask, step: WatchStep) -> TaskDecision:
        watch = watched.watch
        # Checking starts at a place of the plan; a stop says how many trials have failed alike.
        count = {WatchStep.CHECKING: watch.ended, WatchStep.STOPPED: watch.alike}.get(step)
        return TaskDecision(watched.name, step, "" if count is None else watched.text, count or 0, watched.since)


def _task_failure(end: TrialRecord) -> Failure | None:
    """The error of the task's own code with which an attempt has failed; scorers are no part of it."""
    return end.error if end.status is Status.FAILED and not is_failed_slot(end.stage) else None


def _identity(failure: Failure | None) -> str:
    return error_identity(failure) if failure is not None else ""


def _without(trials: Iterator[PlannedTrial], keys: set[str]) -> Iterator[PlannedTrial]:
    return (trial for trial in trials if trial.key not in keys)


def _places_by_seed(sequences: list[TrialSequence], seed: str) -> Iterator[tuple[TrialSequence, int]]:
    """All places of a plan, each once, in an order that the seed decides; none of them is kept in memory."""
    sizes = [sequence.task.planned_of(sequence.model) for sequence in sequences]
    total, noise = sum(sizes), random.Random(seed)  # noqa: S311 - a draw
    start, step = noise.randrange(total), _coprime(total, noise)
    for number in range(total):
        place = (start + number * step) % total
        for sequence, size in zip(sequences, sizes, strict=True):
            if place < size:
                yield sequence, place
                break
            place -= size


def _coprime(total: int, noise: random.Random) -> int:
    """A step that visits every one of so many places before it comes back to the first."""
    while gcd(step := noise.randrange(1, total + 1), total) != 1:
        pass
    return step
