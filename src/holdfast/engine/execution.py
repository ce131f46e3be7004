"""Executing a run: from an open session to its end, with the true exit code.

0 complete · 1 finished, but trials failed, were blocked or remain · 5 storage failure · 75 paused · 129/130/143
interrupted
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from holdfast.engine.dependencies.waves import Waves, has_dependencies, recall_choices, startable_now
from holdfast.engine.events import (
    ADMISSION,
    FAILURE_BESIDE_JOURNAL,
    LEFT_BEHIND,
    Events,
    Interrupted,
    LimitChanged,
    ModelDisabled,
    Note,
    Observer,
    SessionEnded,
    SessionStarted,
    UploadReported,
)
from holdfast.engine.fail_fast import FailFast
from holdfast.engine.group_progress import EarlierWork, GroupProgress, earlier_work
from holdfast.engine.interrupt import INTERRUPTED, Interrupt
from holdfast.engine.model_calls.caller import CallCounts, Caller, ReplyChecks
from holdfast.engine.model_calls.open_model import OpenModel, open_models, open_or_disable
from holdfast.engine.model_calls.reply_warnings import ReplyWarnings
from holdfast.engine.model_calls.served_model import ServedModels
from holdfast.engine.observers import GuardedObserver
from holdfast.engine.opening.held_addresses import AddressBook, HeldAddresses
from holdfast.engine.planning.plan import FailedTrials, PlannedTask, PlannedTrial, TrialSequence
from holdfast.engine.planning.prepared_eval import PreparedEval
from holdfast.engine.planning.selection import EVERYTHING, TrialSelection
from holdfast.engine.planning.trial_keys import KeySet
from holdfast.engine.progress import Progress, SessionLabel
from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.scheduling.admission import Admission
from holdfast.engine.scheduling.admission_mark import AdmissionMark
from holdfast.engine.scheduling.call_tally import TrialGroup
from holdfast.engine.scheduling.capacity import CapacityGrant
from holdfast.engine.scheduling.clock import Clock, RealClock
from holdfast.engine.scheduling.concurrency_limits import EvalLimits, Limit
from holdfast.engine.scheduling.holds import Holds
from holdfast.engine.scheduling.live_settings import LiveSettings
from holdfast.engine.scheduling.scheduler import Scheduler, TrialQueue
from holdfast.engine.trials.error_boundary import guard
from holdfast.engine.trials.history import TrialHistory
from holdfast.engine.trials.reuse import ReusableReplies
from holdfast.engine.trials.runner import TrialRunner
from holdfast.engine.trials.scopes import scoping_tasks
from holdfast.engine.trials.stages.cleaning import left_trials
from holdfast.engine.trials.step_threads import StepThreads
from holdfast.engine.trials.trial_environment import TrialEnvironment
from holdfast.errors import PAUSED_EXIT_CODE, HoldfastError, ResumeAborted, RunGone, RunHeld, StorageFailure, UsageError
from holdfast.event_type import Event
from holdfast.run.core.prices import Prices
from holdfast.run.core.records import ODD_REPLIES, SCORE_STAGE, MarkRecord
from holdfast.run.drift.served_names import names_on_record
from holdfast.run.fold.ends_on_record import run_ids
from holdfast.run.fold.rows.trial_row import PAUSED
from holdfast.run.fold.states import SAME_ERROR, State, StateCounts
from holdfast.run.session.place_watch import watching_place
from holdfast.run.session.result_writer import ResultWriter
from holdfast.run.session.session import RunSession
from holdfast.spec import EvalSpec, plain_data
from holdfast.storage.leases.forked_children import marking_commands
from holdfast.storage.leases.holder import LEASE_LOST
from holdfast.storage.tolerated_failures import ToleratedFailure
from holdfast.suggestions import did_you_mean
from holdfast.tasks.judges.panels import panels_of
from holdfast.tasks.stages import is_staged


class SilentModel(NamedTuple):
    """A model that has never replied in a session."""

    error: str
    setting: str
    """The key of the eval that may mend it, if one may."""


@dataclass(frozen=True)
class SessionOutcome:
    """How a session ended, and the states of the run's trials then."""

    how: str
    exit_code: int
    counts: StateCounts
    warning: str = ""
    failures: Sequence[ToleratedFailure] = ()
    """Files beside the journal that could not be written, which did not stop the session."""
    errors: Sequence[str] = ()
    """Why trials have failed or got no reply, each error once; filled in for whoever gets the outcome from Python."""
    loss: RunGone | None = None
    """What became of the run, where it was moved, deleted or replaced meanwhile; the counts are the session's own."""
    uploaded: bool | None = None
    """Whether the run's store has everything; None for a run that is in no store."""
    silent_models: Sequence[SilentModel] = ()
    """Those that were retried until a signal came, and have never replied."""
    trials_code: int | None = None
    """The exit code by the states of the trials, where only missing uploads have made it another one."""

    @property
    def code_by_trials(self) -> int:
        """The exit code, whatever is not uploaded."""
        return self.exit_code if self.trials_code is None else self.trials_code


FINISHED_WITH_FAILURES, INCOMPLETE, GONE = "finished with failures", "incomplete", "run gone"
"""With trials that are failed or blocked; with none of these, and some that remain for other reasons."""
_CODES_OF_TRIALS = (0, 1)
"""Exit codes by the states of trials; anything else that has ended a session is more important than its uploads."""
_FLUSH_SECONDS = 5.0
_LEASE_SECONDS = 0.5
"""How often it is looked at whether the lease in a store is held."""
_COLLECTED_OBJECTS = 50_000


@contextlib.contextmanager
def _relaxed_collector() -> Iterator[None]:
    """While a session runs, the collector looks for cycles after 50,000 new objects instead of 700.

    A trial makes hundreds of objects and no cycle of its own: looking again and again at those of the trials that are
    running, some 25,000 in a few hundred of them, took a sixth of a session's time.
    """
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(before[0], _COLLECTED_OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _how_failed(failure: StorageFailure | RunHeld) -> str:
    if isinstance(failure, RunGone):
        return GONE
    return "storage" if isinstance(failure, StorageFailure) else LEASE_LOST


class Execution:
    """One session's work on a run."""

    def __init__(
        self,
        session: RunSession,
        prepared: PreparedEval,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        reuse: ReusableReplies | None = None,
        selection: TrialSelection = EVERYTHING,
        observers: Iterable[Observer] = (),
        held: HeldAddresses | None = None,
    ) -> None:
        """To be made in the event loop that it runs in."""
        self._selection = selection
        self._session, self._prepared, self._clock = session, prepared, clock or RealClock()
        fold = session.reader.fold
        self._missing_scores = KeySet(fold.missing_scores())
        # Trials that only need scores are not run again either.
        self._finished = KeySet(fold.keys_with_end())
        self._failed = FailedTrials(KeySet(fold.keys(State.FAILED)), KeySet(fold.failed_in_slots()))
        self._counts = CallCounts()
        self._step_threads = StepThreads()
        run = session.run.hex()
        has_files = any(task.result_files for task in prepared.tasks)
        earlier = sorted(run_ids(session.reader) - {run}) if has_files else []
        self._results = ResultWriter(
            session.reader.fs, session.held, session.lease.check, session.derived, run, earlier
        )
        self.events = Events()
        self.settings = LiveSettings(prepared.spec)
        self._limits, holds = EvalLimits(prepared.spec), Holds(self._clock)
        self._scheduler: Scheduler[PlannedTrial] = Scheduler(self._limits.run, holds)
        self._addresses = AddressBook(session, held)
        self._served = ServedModels(names_on_record(session.reader), self.events, session.sink.put, self._save_address)
        self._models = open_models(prepared, self._clock, self._limits)
        for model in self._models.values():
            self._served.prepare(model)
        self.admission = Admission(
            self._limits,
            self._scheduler.capacity,
            holds,
            self._make_mark(),
            session.is_held,
            self.events.emit,
            session.lease.paused_text,
        )
        self.settings.listen(self._apply_settings)
        self._odd_replies = ReplyWarnings(self.events, session.sink.put, session.reader.unmetered_models())
        recall_choices(prepared, session.reader)
        self._waves = self._make_waves()
        """By task and model, of the tasks that have axis values which depend on others."""
        self.progress = self._make_progress()
        # Subscribed first: a trial is counted before any observer gets its event.
        self.progress.observe(self.events)
        for observer in observers:
            self.observe(observer)
        session.publish_finished(lambda: self.progress.done)
        self._interrupt = Interrupt(self._drain, self._stop_at_once, self._note_signal)
        history = TrialHistory(session.reader)
        self._fail_fast = FailFast(
            session.reader,
            history,
            session.sink,
            self.events,
            self._scheduler,
            selection,
            session=session.number,
            seed=prepared.spec.seed,
        )
        self._runner = self._make_runner(rng or random.Random(), reuse, history)  # noqa: S311 - jitter
        self._sequences = [self._queue(sequence) for sequence in self._remaining_trials()]
        self._has_left = False
        self._refusal = ""
        """Why the run may not continue as it was resumed, if that came out only now."""

    def _make_mark(self) -> AdmissionMark:
        sink = self._session.sink

        async def write(calls: int) -> None:
            await sink.keep(MarkRecord(calls=calls))

        # A session record without a mark promises nothing: a mark is written before the first call.
        return AdmissionMark(self._session.record.mark, write, self._limits.run)

    def _make_progress(self) -> Progress:
        uploader = self._session.uploader
        return Progress(
            self._clock,
            self._prepared.planned,
            self._session.reader.fold.counts,
            self._counts,
            expected=self._expected_trials(),
            tally=self.admission.tally,
            holds=self.admission.holds,
            lease_text=self._session.lease.paused_text,
            lag=uploader.lag_text if uploader is not None else str,
            concurrency=lambda: self.settings.spec.runner.concurrency_limit,
            prices=Prices(
                plain_data(self._prepared.spec), self._odd_replies.unmetered, self._prepared.models_under_test
            ),
            groups=self._group_progress(),
            label=self._label(),
        )

    def _expected_trials(self) -> int:
        """How many trials this session runs, unless it is stopped."""
        fold, selection = self._session.reader.fold, self._selection
        if selection.until:
            return sum(1 for sequence in self._until_stage() for _ in filter(selection.takes, sequence.trials()))
        if selection.remaining is not None:
            return len(selection.remaining) + selection.again
        groups = fold.counts_by_group().items() if selection.redone_tasks & fold.stopped.keys() else ()
        freed = sum(
            counts.remaining_by_reason.get(SAME_ERROR, 0)
            for (task, _), counts in groups
            if task in selection.redone_tasks
        )
        return fold.counts.to_run + freed + selection.again + selection.failed_again

    def _group_progress(self) -> dict[TrialGroup, GroupProgress]:
        before, now = earlier_work(self._session.reader.fold), self._clock.monotonic()
        return {
            (task.name, model): GroupProgress(
                task.name,
                model,
                task.planned_of(model),
                before.get((task.name, model), EarlierWork()),
                self.admission.tally.of_group((task.name, model)),
                now,
                panels_of(task.task.scorers),
            )
            for task in self._prepared.tasks
            for model in task.models
        }

    def _label(self) -> SessionLabel:
        record, uploader = self._session.record, self._session.uploader
        place = uploader.url if uploader is not None else str(self._session.layout.root)
        return SessionLabel(record.run, record.name, place, record.number)

    def _apply_settings(self, spec: EvalSpec) -> None:
        """Sets everything that acts by itself as the eval has it now; the rest reads it when it needs it."""
        for name, model in self._models.items():
            model.apply(spec.models[name])
        self.admission.apply(spec)

    def observe(self, observer: Observer, *kinds: type[Event]) -> None:
        """Has an observer called with the events of these kinds, or of all kinds, until it raises."""
        self.events.subscribe(GuardedObserver(self.events, observer), *kinds)

    def _make_runner(self, rng: random.Random, reuse: ReusableReplies | None, history: TrialHistory) -> TrialRunner:
        environment = TrialEnvironment(
            sink=self._session.sink,
            caller=Caller(
                self._clock,
                self.admission,
                self._counts,
                rng,
                self._scheduler.capacity,
                self.events,
                self._disable,
                ReplyChecks(self._odd_replies, self._served),
            ),
            admission=self.admission,
            counts=self._counts,
            clock=self._clock,
            settings=self.settings,
            events=self.events,
            on_idle=self._check_idle,
            step_threads=self._step_threads,
            score_limits=self._limits.score,
            stage_limits=self._limits.stages,
            capacity=self._scheduler.capacity,
            find_model=self._find_model,
            seed=self._prepared.spec.seed,
            deterministic=self._prepared.spec.deterministic is True,
            reuse=reuse,
            slots=self._selection.slots,
            redone_by=self._selection.redone_by,
            until=self._selection.until,
            root=self._session.layout.root,
            results=self._results,
            note_left=self._note_left,
        )
        return TrialRunner(environment, self._models, history, self._fail_fast)

    def _note_left(self, trial: str, text: str) -> None:
        """Says it once: where one workspace cannot be deleted, all others mostly cannot either."""
        if not self._has_left:
            self._has_left = True
            self.events.emit(Note(LEFT_BEHIND, trial, text))

    def _find_model(self, name: str) -> OpenModel:
        """A model that a scorer asks; one that no trial asks is opened now, and is disabled if that fails.

        Raises:
            UsageError: the eval has no such model.
        """
        if name not in self._models:
            if name not in self._prepared.spec.models:
                known = self._prepared.spec.models
                raise UsageError(f"The eval has no model {name!r}.", hint=did_you_mean(name, known))
            opened = open_or_disable(name, self._prepared, self._clock, self._limits)
            self._served.prepare(opened)
            self._models[name] = opened
            if opened.refusal:
                self._disable(opened)
        return self._models[name]

    def _remaining_trials(self) -> list[TrialSequence]:
        return [self._sequence(self._first_wave(task, model), model) for task, model in self._running_groups()]

    def _until_stage(self) -> list[TrialSequence]:
        """The trials that a session comes to which leaves them after a stage."""
        if self._selection.until == SCORE_STAGE:
            # Its scores decide which values are chosen, so it comes to all of them.
            return [self._sequence(task, model) for task, model in self._running_groups()]
        fold = self._session.reader.fold
        return [self._sequence(startable_now(task, model, fold), model) for task, model in self._running_groups()]

    def _running_groups(self) -> Iterator[tuple[PlannedTask, str]]:
        stopped = self._session.reader.fold.stopped.keys() - self._selection.redone_tasks
        return ((task, model) for task in self._prepared.tasks if task.name not in stopped for model in task.models)

    def _make_waves(self) -> dict[TrialGroup, Waves]:
        session = self._session
        return {
            (task.name, model): Waves(
                task, model, self._scheduler, session.sink, self.events, self._trials_of, session.counts.ask
            )
            for task, model in self._running_groups()
            if has_dependencies(task)
        }

    def _needed(self, task: PlannedTask, model: OpenModel) -> tuple[Limit, ...]:
        """What a trial needs to start: the capacity of its first stage."""
        solver = task.task.solver
        if is_staged(solver) and solver.stages[0].name in (stages := self._limits.stages[task.name]):
            return stages[solver.stages[0].name]
        return self._limits.solve(task.name, model.limit)

    def _sequence(self, task: PlannedTask, model: str) -> TrialSequence:
        cache = task.dataset.rows.cache
        return TrialSequence(
            task, model, self._finished, self._missing_scores, cache, self._selection.redo, self._failed
        )

    def _first_wave(self, task: PlannedTask, model: str) -> PlannedTask:
        """The task without the values that depend on others, whose trials follow."""
        waves = self._waves.get((task.name, model))
        return waves.first if waves is not None else task

    def _trials_of(self, task: PlannedTask, model: str) -> Iterator[PlannedTrial]:
        """The trials of a task and model that this session runs."""
        return self._selection.trials_of(self._sequence(task, model))

    async def _run_trial(self, planned: PlannedTrial, grant: CapacityGrant) -> None:
        waves = self._waves.get((planned.task.name, planned.model))
        if waves is None:
            await self._runner.run(planned, grant)
        else:
            await waves.run(self._runner.run, planned, grant)

    def _queue(self, sequence: TrialSequence) -> TrialSequence:
        model, limits = sequence.model, self._limits
        needed = self._needed(sequence.task, self._models[model])
        queue = TrialQueue(self._selection.trials_of(sequence), needed, limits.active(), model)
        if (waves := self._waves.get((sequence.task.name, model))) is not None:
            waves.follow(queue)
        self._scheduler.add(queue)
        self._fail_fast.add(sequence, queue)
        return sequence

    async def run(
        self,
        *,
        signals: bool = True,
        guest_signal: int | None = None,
        on_stuck: Callable[[SessionOutcome], None] | None = None,
        missed_signal: Callable[[], int] = lambda: 0,
    ) -> SessionOutcome:
        """Runs everything that remains, and ends the session.

        `on_stuck` is called, from another thread, when the second signal does not lead to an end. `missed_signal` gives
        the number of a signal that came before this session listened, or 0. In somebody else's process only Ctrl-C is
        listened to, if at all: `guest_signal` is then such a number.
        """
        if guest_signal is not None:
            self._interrupt.install_as_guest(guest_signal)
        elif signals:
            stuck = None if on_stuck is None else lambda: on_stuck(self._stuck())
            self._interrupt.install(missed_signal, stuck)
        try:
            with scoping_tasks(), _relaxed_collector(), marking_commands(), self._watching_place():
                failure = await self._work()
        finally:
            self._interrupt.remove()
            self._step_threads.close()
            self._results.close()
            for opened in self._models.values():
                await guard(opened.provider.close())
        ended = self._with_uploads(replace(self._end(failure), failures=self._session.failures()))
        try:
            # What the uploader's thread has put into the loop comes before the end.
            await asyncio.sleep(0)
        finally:
            self._report_end(ended)
        return ended

    def _watching_place(self) -> AbstractContextManager[None]:
        """Ends the session at once if its run is moved, deleted or replaced."""
        loop = asyncio.get_running_loop()

        def stop(error: RunGone) -> None:
            with contextlib.suppress(RuntimeError):
                # The loop may be closed by now.
                loop.call_soon_threadsafe(self._scheduler.fail, error)

        return watching_place(self._session.lease, self._session.acknowledged_frames, stop)

    def _report_start(self) -> None:
        """The first event; from now on those of other threads follow."""
        session, uploader, label = self._session, self._session.uploader, self.progress.label
        planned, finished = self._prepared.planned, self.progress.finished_before
        self.events.emit(SessionStarted(label.run, label.place, label.session, planned, finished))
        session.report_failures(self._report_failure)
        session.lease.report(lambda is_held: self.admission.note_lease(is_held=is_held))
        if uploader is not None:
            uploader.report_uploads(self._report_upload)
            self._watch_lease()

    def _watch_lease(self) -> None:
        """Notices that the lease has run out or is lost also while nothing new is to be started."""
        try:
            if not self._session.is_held():
                self.admission.note_lease(is_held=False)
        except (StorageFailure, RunHeld) as error:
            self._scheduler.fail(error)
            return
        if not self.admission.is_closed:
            asyncio.get_running_loop().call_later(_LEASE_SECONDS, self._watch_lease)

    def _report_failure(self, failure: ToleratedFailure) -> None:
        self.events.emit_from_thread(Note(FAILURE_BESIDE_JOURNAL, failure.what, failure.reason))

    def _report_upload(self, uploaded: int, behind: int, failure: str) -> None:
        self.events.emit_from_thread(UploadReported(uploaded, behind, failure))

    def _report_end(self, ended: SessionOutcome) -> None:
        self.events.close(SessionEnded(self._session.number, ended.how, ended.exit_code, ended.counts))

    async def _work(self) -> StorageFailure | RunHeld | None:
        """Runs everything; if that ends early, the run is released."""
        failure: StorageFailure | RunHeld | None = None
        async with contextlib.AsyncExitStack() as undo:
            undo.callback(self._session.abandon)
            undo.push_async_callback(self._scheduler.end)
            self._report_start()
            try:
                self._served.note_earlier()
                self._fail_fast.begin()
                self._start_agents()
                self._clean_up_left()
                run_trial = self._run_trial if self._waves else self._runner.run
                await self._scheduler.run(run_trial, self._fail_fast.resolve)
                await self._save_addresses()
                await self._wait_for_store()
            except (StorageFailure, RunHeld) as error:
                failure = error
            except asyncio.CancelledError:
                # A second Ctrl-C may interrupt this too; the run is let go then without a recorded end.
                await self._end_cancelled()
                undo.pop_all()
                raise
            undo.pop_all()
        return failure

    def _start_agents(self) -> None:
        """Has agents of a killed session ended before any trial starts."""
        for task in self._prepared.tasks:
            if (start := getattr(task.task.solver, "start_session", None)) is not None:
                start(self._session.layout.root)

    def _clean_up_left(self) -> None:
        """Beside the trials: an earlier session was killed before it had cleaned up after some.

        Not after those that are attempted once more: it would remove what the new attempt works with, after which it
        is cleaned up anyway.
        """
        found, redo = left_trials(self._session.reader.fold, self._prepared.tasks), self._selection.redo
        if left := [one for one in found if bytes.fromhex(one.planned.key) not in redo]:
            self._scheduler.spawn(self._runner.clean_up_after(left))

    async def _end_cancelled(self) -> None:
        """As Ctrl-C does to asyncio.run: running trials stay unfinished."""
        self._close_admission("cancelled")
        await self._scheduler.end()
        with contextlib.suppress(StorageFailure, RunHeld):
            await self._save_addresses()
        self._interrupt.exit_code = self._interrupt.exit_code or INTERRUPTED
        self._report_end(self._end(None))

    async def _wait_for_store(self) -> None:
        """Where trials count only once their segments are uploaded, waits for that; a signal ends the wait."""
        uploader = self._session.uploader
        while uploader is not None and self._session.counts_when_uploaded and not self._interrupt.has_arrived:
            if await asyncio.to_thread(uploader.flush, _FLUSH_SECONDS):
                # The last callback of the uploader has been put into the loop; let it have its turn.
                await asyncio.sleep(0)
                return
            self._session.check_store()

    def _disable(self, model: OpenModel) -> None:
        """A model is disabled for this session: none of its trials is started any more."""
        self.events.emit(ModelDisabled(model.name, model.refusal, model.is_other_model))
        self._scheduler.drop_model(model.name)
        if model.is_other_model:
            self._refusal = f"Resume aborted: {model.refusal}"
            self._let_finish("other model")

    async def _save_addresses(self) -> None:
        """At the end: an address at which nobody has answered is saved too, unless another model did somewhere."""
        if not self._refusal:
            await self._addresses.save_rest()

    def _save_address(self, model: OpenModel) -> None:
        """The model has answered where it is reached now."""
        if self._addresses.holds(model.name):
            self._scheduler.spawn(self._addresses.save(model.name))

    # Admission.

    def _close_admission(self, reason: str) -> None:
        self.admission.close()
        self.events.emit(LimitChanged(ADMISSION, 0, reason))

    # Interrupts.

    @property
    def was_interrupted(self) -> bool:
        """Whether a signal has come, whatever the session has finished since."""
        return self._interrupt.has_arrived

    def interrupt(self) -> None:
        """Does what Ctrl-C does: the first time calls in flight may finish, the next time everything stops."""
        self._interrupt.ask()

    def _note_signal(self) -> None:
        """The very moment a signal arrives; the loop may be in the middle of anything."""
        self.admission.close()
        self._runner.note_signal()

    def _drain(self, name: str) -> None:
        self.events.emit(Interrupted(name, self._calls_in_flight(), grace_period=self.settings.grace_period))
        self._let_finish(name)

    def _stop_at_once(self, name: str) -> None:
        self.events.emit(Interrupted(name, self._calls_in_flight(), at_once=True))
        self._scheduler.cancel()

    def _calls_in_flight(self) -> int:
        """Those that are waited for: a call that pauses before a retry is given up at once."""
        return self.admission.tally.awaited

    def _let_finish(self, reason: str) -> None:
        """Starts nothing more, and gives calls in flight a while to finish."""
        self._close_admission(reason)
        self._scheduler.stop()
        self._cancel_if_only_waiting()
        asyncio.get_running_loop().call_later(self.settings.grace_period, self._scheduler.cancel)
        for activity in self._runner.activities():
            self._check_idle(activity)

    def _cancel_if_only_waiting(self) -> None:
        """Does not wait for a lease that cannot be renewed, once every reply is on disk."""
        lease = self._session.lease
        if not lease.is_held() and lease.waiting_replies >= self.admission.tally.awaited:
            self._scheduler.cancel()
        elif self._scheduler.tasks:
            asyncio.get_running_loop().call_later(_LEASE_SECONDS, self._cancel_if_only_waiting)

    def _check_idle(self, activity: TrialActivity) -> None:
        """Once the session is about to end, a trial that only waits gives its capacity to those that can finish."""
        if self.admission.is_closed:
            asyncio.get_running_loop().call_soon(self._cancel_if_idle, activity)

    def _cancel_if_idle(self, activity: TrialActivity) -> None:
        if activity.is_idle and activity.task is not None:
            activity.task.cancel()

    # The end.

    def _with_uploads(self, ended: SessionOutcome) -> SessionOutcome:
        """The outcome with what the store lacks: a person has named a bucket, and it does not have the results."""
        uploader = self._session.uploader
        if uploader is None or ended.loss is not None:
            return ended
        ended = replace(ended, uploaded=not uploader.is_behind)
        if ended.uploaded or ended.exit_code not in _CODES_OF_TRIALS:
            return ended
        return replace(ended, exit_code=StorageFailure.exit_code, trials_code=ended.exit_code)

    def _stuck(self) -> SessionOutcome:
        """The counts while a task's code blocks the session; called from another thread."""
        return SessionOutcome("interrupted", self._interrupt.exit_code, self._acknowledged())

    def _acknowledged(self) -> StateCounts:
        if self._session.lease.loss is not None:
            # What is at the place now is not this session's to count.
            return self.progress.state_counts()
        try:
            return self._session.acknowledged_counts()
        except HoldfastError:
            # The storage has failed: only what this session knows by itself can be reported.
            return self.progress.state_counts()

    def _end(self, failure: StorageFailure | RunHeld | None) -> SessionOutcome:
        if failure is not None:
            self._session.note_end(_how_failed(failure), failure.exit_code)
            self._session.abandon()
            # A write that failed may have been the first to meet a run that is gone.
            failure = self._session.lease.loss or failure
            counts, loss = self._acknowledged(), self._session.lease.loss
            return SessionOutcome(_how_failed(failure), failure.exit_code, counts, str(failure), loss=loss)
        try:
            counts = self._session.counts.now()
        except StorageFailure:
            counts = self.progress.state_counts()
        how, code = self._how_and_exit_code(counts)
        warning = " ".join(filter(None, [self._refusal or self._redo_text(), self._doubt_text()]))
        ended = SessionOutcome(how, code, counts, warning, silent_models=self._silent_models())
        try:
            last = self._session.close(how, code, ledger=self._ledger())
            return replace(ended, counts=last or counts)
        except RunGone as error:
            # Whatever was read at its place was not this session's.
            counts, loss = self.progress.state_counts(), self._session.lease.loss or error
            return SessionOutcome(GONE, loss.exit_code, counts, str(loss), loss=loss)
        except StorageFailure as error:
            # The end of a session is only information; what was acknowledged does not depend on it.
            warning = f"The end of the session could not be recorded. {error}"
            code = code if self._interrupt.has_arrived else error.exit_code
            return replace(ended, exit_code=code, warning=warning)

    def _silent_models(self) -> list[SilentModel]:
        """The models that a signal has ended the wait for: no trial of theirs has an error on record."""
        if not self._interrupt.has_arrived:
            return []
        errors = (model.last_error for model in self._models.values() if not model.has_replied)
        return [SilentModel(str(error), error.setting) for error in errors if error is not None]

    def _doubt_text(self) -> str:
        """What is said of a session that ends while its lease could not be renewed."""
        if not (paused := self._session.lease.paused_text()):
            return ""
        since = paused.removeprefix("paused: ").partition(";")[0]
        count = "results since then are in the spool, and count unless another session has taken the run"
        return f"{since[0].upper()}{since[1:]}: {count}."

    def _ledger(self) -> dict[str, Any]:
        odd = self._odd_replies.counts
        return {**asdict(self._counts), ODD_REPLIES: odd} if odd else asdict(self._counts)

    def _redo_text(self) -> str:
        failed, left = self.progress.redo_failed, self._redo_left()
        parts = [f"{failed} got no new result"] if failed else []
        parts += [f"{left} were not run again"] if left else []
        return f"Of the finished trials to run again, {' and '.join(parts)}; they keep their results." if parts else ""

    def _how_and_exit_code(self, counts: StateCounts) -> tuple[str, int]:
        """Where only some trials were selected, they decide."""
        selected = self._selection.remaining
        remaining = counts.remaining if selected is None else self._remaining_of(selected) + self._selection.failed
        if self._selection.slots is not None:
            remaining = self._unfilled(self._selection.slots)
        blocked = counts.blocked if selected is None else self._selection.blocked
        if self._refusal:
            return "refused", ResumeAborted.exit_code
        if self._interrupt.has_arrived and (remaining or self._redo_left()):
            return "interrupted", self._interrupt.exit_code
        if self._is_paused(counts):
            return PAUSED, PAUSED_EXIT_CODE
        if remaining or blocked or self.progress.redo_failed:
            has_failures = counts.failed or blocked or self.progress.redo_failed
            return (FINISHED_WITH_FAILURES if has_failures else INCOMPLETE), 1
        return "completed" if selected is None else "selected trials completed", 0

    def _is_paused(self, counts: StateCounts) -> bool:
        """Whether every trial of the session was left after the stage that it was to stop at, or is finished."""
        progress = self.progress
        if not self._selection.until or not progress.paused or counts.failed or progress.redo_failed:
            return False
        return not progress.unfinished and progress.ended >= (progress.expected or 0)

    def _remaining_of(self, selected: KeySet) -> int:
        """How many of the trials that were to be run are neither valid nor limited."""
        try:
            return len(selected) - self._session.counts.finished_among(selected.__contains__)
        except StorageFailure:
            return len(selected)

    def _unfilled(self, slots: Mapping[str, KeySet]) -> int:
        """How many of the slots that were to be filled are not."""
        try:
            return self._session.counts.unfilled_among({name: keys.__contains__ for name, keys in slots.items()})
        except StorageFailure:
            return sum(map(len, slots.values()))

    def _redo_left(self) -> int:
        """Finished trials that were to be attempted once more, and were not."""
        return self._selection.again - self.progress.redone - self.progress.redo_failed
