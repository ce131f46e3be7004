"""Executing a run: from an open session to its end, with the exit code that tells the truth.

0 complete, every trial valid · 1 finished, but trials failed, were blocked or are owed · 5 storage failure · 130/143
interrupted
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from holdfast.engine.interrupt import INTERRUPTED, Interrupt
from holdfast.engine.model_calls.caller import CallCounts, Caller, Model
from holdfast.engine.model_calls.open_model import ready_models
from holdfast.engine.planning.plan import KeySet, TrialSequence
from holdfast.engine.planning.prepared_eval import Prepared
from holdfast.engine.progress import Progress
from holdfast.engine.scheduling.admission import Activity, AdmissionGate
from holdfast.engine.scheduling.clock import Clock, RealClock
from holdfast.engine.scheduling.concurrency_limits import EvalLimits
from holdfast.engine.scheduling.scheduler import Scheduler, TrialQueue
from holdfast.engine.trials.attempt import TrialRunner
from holdfast.engine.trials.error_boundary import guard
from holdfast.engine.trials.history import History, blocked_trials
from holdfast.engine.trials.reuse import Reuse
from holdfast.engine.trials.running_trial import TrialEnvironment
from holdfast.errors import ResumeAborted, RunHeld, StorageFailure
from holdfast.run.fold.remaining_trials import trials_missing_scores
from holdfast.run.session.session import RunSession
from holdfast.storage.tolerated_failures import ToleratedFailure


@dataclass(frozen=True)
class Ended:
    """How a session ended."""

    how: str
    exit_code: int
    planned: int
    finished: int
    failed: int
    """Trials whose task failed at every attempt that it had."""
    warning: str = ""
    unfinished: int = 0
    """Trials that got no reply, or were stopped by a fault that is none of theirs; they are owed."""
    failures: Sequence[ToleratedFailure] = ()
    """What failed meanwhile and stopped nothing."""

    @property
    def owed(self) -> int:
        return self.planned - self.finished


_FLUSH_SECONDS = 5.0


class Execution:
    """One session's work on a run."""

    def __init__(
        self,
        session: RunSession,
        prepared: Prepared,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        reuse: Reuse | None = None,
    ) -> None:
        self._session, self._prepared, self._reuse = session, prepared, reuse
        self._clock = clock or RealClock()
        self._rng = rng or random.Random()  # noqa: S311 - jitter
        self._finished = KeySet(session.reader.finished())
        self._lacking = KeySet(trials_missing_scores(session.reader))
        self._counts = CallCounts()
        self.progress = Progress(self._clock, prepared.planned, self._planned_and_finished(), self._counts)
        self._gate = AdmissionGate(session.is_held)
        session.publish_finished(lambda: self.progress.done)
        if session.uploader is not None:
            self.progress.lag = session.uploader.lag_text
        self._lanes: list[TrialSequence] = []
        self._refusal = ""
        """Why the run may not go on as it was resumed, if that came out only now."""

    def _planned_and_finished(self) -> int:
        """As far as it is known before the plan has been gone through: some may not be part of it any more."""
        return min(len(self._finished), self._prepared.planned) - len(self._lacking)

    async def run(
        self,
        *,
        signals: bool = True,
        on_stuck: Callable[[Ended], None] | None = None,
        before: Callable[[], int] = lambda: 0,
    ) -> Ended:
        """Carries out everything that is owed, and ends the session.

        `on_stuck` is called, from another thread, when the second signal does not lead to an end. `before` gives the
        number of a signal that came before this session listened, or 0.
        """
        stuck = None if on_stuck is None else lambda: on_stuck(self._interrupted())
        self._interrupt = Interrupt(self._drain, self._stop, on_note=self._note_signal, on_stuck=stuck)
        models = ready_models(self._prepared, self._session.reader, self._clock)
        levels = EvalLimits(self._prepared.spec, {name: model.level for name, model in models.items()})
        self._scheduler = Scheduler(levels.run)
        self._carrier = self._make_carrier(models, levels)
        self._add_lanes(levels)
        if signals:
            self._interrupt.install(before)
        try:
            failure = await self._work()
        finally:
            if signals:
                self._interrupt.remove()
            for opened in models.values():
                await guard(opened.provider.close())
        return replace(self._end(failure), failures=self._session.failures())

    async def _work(self) -> StorageFailure | RunHeld | None:
        """Carries everything out; whatever ends that early, the run is let go."""
        failure: StorageFailure | RunHeld | None = None
        async with contextlib.AsyncExitStack() as undo:
            undo.callback(self._session.abandon)
            undo.push_async_callback(self._scheduler.end)
            try:
                await self._scheduler.run(self._carrier.carry)
                await self._wait_for_store()
            except (StorageFailure, RunHeld) as error:
                failure = error
            except asyncio.CancelledError:
                undo.pop_all()
                await self._end_cancelled()
                raise
            undo.pop_all()
        return failure

    async def _end_cancelled(self) -> None:
        """As Ctrl-C does it to asyncio.run: what is under way is owed."""
        self._gate.close()
        await self._scheduler.end()
        self._interrupt.exit_code = self._interrupt.exit_code or INTERRUPTED
        self._end(None)

    async def _wait_for_store(self) -> None:
        """Where trials count only once their segments are up, waits for that; a signal ends the wait."""
        uploader = self._session.uploader
        while uploader is not None and self._session.counts_when_uploaded and not self._interrupt.has_come:
            if await asyncio.to_thread(uploader.flush, _FLUSH_SECONDS):
                # The last of those who were told has been put into the loop; let it have its turn.
                await asyncio.sleep(0)
                return
            self._session.check_store()

    def _make_carrier(self, models: dict[str, Model], levels: EvalLimits) -> TrialRunner:
        slots, tell = self._scheduler.slots, self._tell_trouble
        caller = Caller(self._clock, self._gate, self._counts, self._rng, slots, self._refused, tell)
        seed = self._prepared.spec.seed
        environment = TrialEnvironment(self._session, caller, self._counts, self._clock, self._look_if_idle, seed)
        environment.reuse = self._reuse
        return TrialRunner(environment, models, History(self._session.reader), self.progress, levels.score)

    def _add_lanes(self, levels: EvalLimits) -> None:
        for task in self._prepared.tasks:
            for model in task.models:
                lane = TrialSequence(task, model, self._finished, self._lacking, task.dataset.rows.shelf)
                self._lanes.append(lane)
                queue = TrialQueue(lane.cells(), levels.solve_of(task.name, model), levels.active(), model)
                self._scheduler.add(queue)

    def _refused(self, model: Model) -> None:
        """A model is not asked again in this session: said once, and none of its trials is begun any more."""
        self.progress.messages.append(f"{model.name}: not asked again in this session. {model.refusal}")
        self._scheduler.drop(model.name)
        if model.is_other:
            self._refusal = f"Resume aborted: {model.refusal}"
            self._let_finish()

    def _tell_trouble(self, model: Model, why: str) -> None:
        self.progress.messages.append(f"{model.name}: asked again after: {why}")

    # Interrupts.

    def _note_signal(self) -> None:
        """The very moment a signal comes; the loop may be in the middle of anything."""
        self._gate.close()
        self._carrier.disturb()

    def _drain(self, name: str) -> None:
        self.progress.messages.append(f"{name}: letting calls in flight finish; once more stops at once.")
        self._let_finish()

    def _let_finish(self) -> None:
        """Begins nothing more, and gives calls in flight a while to come to their end."""
        self._gate.close()
        self._scheduler.stop()
        asyncio.get_running_loop().call_later(self._prepared.spec.runner.grace_period, self._scheduler.cancel)
        for trial in self._carrier.underway:
            self._look_if_idle(trial.activity)

    def _look_if_idle(self, activity: Activity) -> None:
        """Once the session is to end, a trial that does nothing but wait gives its slots to those that can finish."""
        if self._gate.is_closed:
            asyncio.get_running_loop().call_soon(self._cancel_if_idle, activity)

    def _cancel_if_idle(self, activity: Activity) -> None:
        if activity.is_idle and activity.task is not None:
            activity.task.cancel()

    def _stop(self) -> None:
        self._scheduler.cancel()

    # The end.

    def _interrupted(self) -> Ended:
        progress = self.progress
        return Ended(
            "interrupted",
            self._interrupt.exit_code,
            progress.planned,
            progress.done,
            progress.failed,
            unfinished=progress.unfinished,
        )

    def _end(self, failure: StorageFailure | RunHeld | None) -> Ended:
        progress = self.progress
        if self._scheduler.is_through:
            progress.finished_before = sum(lane.passed for lane in self._lanes)
        how, code = self._verdict(failure)
        ended = replace(self._interrupted(), how=how, exit_code=code, warning=self._refusal)
        if failure is not None:
            self._session.abandon()
            return replace(ended, warning=str(failure))
        try:
            self._session.close(
                how,
                code,
                finished=len(self._finished) + self._carrier.recorded,
                failed=progress.failed,
                planned=progress.planned,
                ledger=asdict(self._counts),
            )
        except StorageFailure as error:
            # The end of a session is a courtesy; what was acknowledged does not depend on it.
            warning = f"The end of the session could not be recorded. {error}"
            code = code if self._interrupt.has_come else error.exit_code
            return replace(ended, exit_code=code, warning=warning)
        return ended

    def _verdict(self, failure: StorageFailure | RunHeld | None) -> tuple[str, int]:
        progress = self.progress
        if failure is not None:
            return "storage" if isinstance(failure, StorageFailure) else "held by another", failure.exit_code
        if self._refusal:
            return "refused", ResumeAborted.exit_code
        if self._interrupt.has_come and progress.done < progress.planned:
            return "interrupted", self._interrupt.exit_code
        if progress.done < progress.planned or progress.blocked or blocked_trials(self._session.reader):
            return "finished with failures", 1
        return "completed", 0
