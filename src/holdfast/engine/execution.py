"""Executing a run: from an open session to its end, with the exit code that tells the truth.

0 complete, every trial valid · 1 finished, but trials failed, were blocked or remain · 5 storage failure · 130/143
interrupted
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from holdfast.engine.interrupt import INTERRUPTED, Interrupt
from holdfast.engine.model_calls.caller import CallCounts, Caller
from holdfast.engine.model_calls.open_model import OpenModel, open_models
from holdfast.engine.planning.plan import PlannedTrial, TrialSequence
from holdfast.engine.planning.prepared_eval import PreparedEval
from holdfast.engine.planning.trial_keys import KeySet
from holdfast.engine.progress import Progress
from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.scheduling.admission import Admission
from holdfast.engine.scheduling.clock import Clock, RealClock
from holdfast.engine.scheduling.concurrency_limits import EvalLimits
from holdfast.engine.scheduling.scheduler import Scheduler, TrialQueue
from holdfast.engine.trials.error_boundary import guard
from holdfast.engine.trials.history import TrialHistory, blocked_trials
from holdfast.engine.trials.reuse import ReusableReplies
from holdfast.engine.trials.runner import TrialRunner
from holdfast.engine.trials.trial_environment import TrialEnvironment
from holdfast.errors import ResumeAborted, RunHeld, StorageFailure
from holdfast.run.fold.remaining_trials import trials_missing_scores
from holdfast.run.session.session import RunSession
from holdfast.storage.tolerated_failures import ToleratedFailure


@dataclass(frozen=True)
class SessionOutcome:
    """How a session ended."""

    how: str
    exit_code: int
    planned: int
    finished: int
    failed: int
    """Trials whose task failed at every attempt that it had."""
    warning: str = ""
    unfinished: int = 0
    """Trials that got no reply, or were stopped by an error outside their control; they remain to be done."""
    failures: Sequence[ToleratedFailure] = ()
    """What failed meanwhile and stopped nothing."""

    @property
    def owed(self) -> int:
        """The trials that remain."""
        return self.planned - self.finished


_FLUSH_SECONDS = 5.0


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
    ) -> None:
        self._session, self._prepared, self._clock = session, prepared, clock or RealClock()
        self._finished = KeySet(session.reader.finished())
        self._missing_scores = KeySet(trials_missing_scores(session.reader))
        self._counts = CallCounts()
        lag = session.uploader.lag_text if session.uploader is not None else str
        self.progress = Progress(self._clock, prepared.planned, self._finished_before(), self._counts, lag=lag)
        session.publish_finished(lambda: self.progress.done)
        self._admission = Admission(session.is_held)
        self._limits = EvalLimits(prepared.spec)
        self._scheduler: Scheduler[PlannedTrial] = Scheduler(self._limits.run)
        self._interrupt = Interrupt(self._drain, self._scheduler.cancel, self._note_signal)
        self._models = open_models(prepared, session.reader, self._clock)
        self._runner = self._make_runner(rng or random.Random(), reuse)  # noqa: S311 - jitter
        self._sequences = [self._queue(sequence) for sequence in self._remaining_trials()]
        self._refusal = ""
        """Why the run may not continue as it was resumed, if that came out only now."""

    def _finished_before(self) -> int:
        """As far as it is known before the whole plan has been read: some may no longer be part of it."""
        return min(len(self._finished), self._prepared.planned) - len(self._missing_scores)

    def _make_runner(self, rng: random.Random, reuse: ReusableReplies | None) -> TrialRunner:
        environment = TrialEnvironment(
            session=self._session,
            caller=Caller(
                self._clock,
                self._admission,
                self._counts,
                rng,
                self._scheduler.slots,
                self._disable,
                self._report_retry,
            ),
            admission=self._admission,
            counts=self._counts,
            clock=self._clock,
            on_idle=self._check_idle,
            score_limits=self._limits.score,
            seed=self._prepared.spec.seed,
            reuse=reuse,
        )
        return TrialRunner(environment, self._models, TrialHistory(self._session.reader), self.progress)

    def _remaining_trials(self) -> list[TrialSequence]:
        return [
            TrialSequence(task, model, self._finished, self._missing_scores, task.dataset.rows.cache)
            for task in self._prepared.tasks
            for model in task.models
        ]

    def _queue(self, sequence: TrialSequence) -> TrialSequence:
        model, limits = sequence.model, self._limits
        needed = limits.solve(sequence.task.name, self._models[model].limit)
        self._scheduler.add(TrialQueue(sequence.trials(), needed, limits.active(), model))
        return sequence

    async def run(
        self,
        *,
        signals: bool = True,
        on_stuck: Callable[[SessionOutcome], None] | None = None,
        missed_signal: Callable[[], int] = lambda: 0,
    ) -> SessionOutcome:
        """Runs everything that remains, and ends the session.

        `on_stuck` is called, from another thread, when the second signal does not lead to an end. `missed_signal` gives
        the number of a signal that came before this session listened, or 0.
        """
        if signals:
            stuck = None if on_stuck is None else lambda: on_stuck(self._interrupted())
            self._interrupt.install(missed_signal, stuck)
        try:
            failure = await self._work()
        finally:
            if signals:
                self._interrupt.remove()
            for opened in self._models.values():
                await guard(opened.provider.close())
        return replace(self._end(failure), failures=self._session.failures())

    async def _work(self) -> StorageFailure | RunHeld | None:
        """Runs everything; whatever ends that early, the run is let go."""
        failure: StorageFailure | RunHeld | None = None
        async with contextlib.AsyncExitStack() as undo:
            undo.callback(self._session.abandon)
            undo.push_async_callback(self._scheduler.end)
            try:
                await self._scheduler.run(self._runner.run)
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
        """As Ctrl-C does it to asyncio.run: what is running remains to be done."""
        self._admission.close()
        await self._scheduler.end()
        self._interrupt.exit_code = self._interrupt.exit_code or INTERRUPTED
        self._end(None)

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
        """A model is disabled for this session: said once, and none of its trials is started any more."""
        self.progress.messages.append(f"{model.name}: not asked again in this session. {model.refusal}")
        self._scheduler.drop_model(model.name)
        if model.is_other_model:
            self._refusal = f"Resume aborted: {model.refusal}"
            self._let_finish()

    def _report_retry(self, model: OpenModel, why: str) -> None:
        self.progress.messages.append(f"{model.name}: asked again after: {why}")

    # Interrupts.

    def _note_signal(self) -> None:
        """The very moment a signal arrives; the loop may be in the middle of anything."""
        self._admission.close()
        self._runner.note_signal()

    def _drain(self, name: str) -> None:
        self.progress.messages.append(f"{name}: letting calls in flight finish; once more stops at once.")
        self._let_finish()

    def _let_finish(self) -> None:
        """Starts nothing more, and gives calls in flight a while to finish."""
        self._admission.close()
        self._scheduler.stop()
        asyncio.get_running_loop().call_later(self._prepared.spec.runner.grace_period, self._scheduler.cancel)
        for trial in self._runner.running:
            self._check_idle(trial.activity)

    def _check_idle(self, activity: TrialActivity) -> None:
        """Once the session is about to end, a trial that only waits gives its slots to those that can finish."""
        if self._admission.is_closed:
            asyncio.get_running_loop().call_soon(self._cancel_if_idle, activity)

    def _cancel_if_idle(self, activity: TrialActivity) -> None:
        if activity.is_idle and activity.task is not None:
            activity.task.cancel()

    # The end.

    def _interrupted(self) -> SessionOutcome:
        progress = self.progress
        return SessionOutcome(
            "interrupted",
            self._interrupt.exit_code,
            progress.planned,
            progress.done,
            progress.failed,
            unfinished=progress.unfinished,
        )

    def _end(self, failure: StorageFailure | RunHeld | None) -> SessionOutcome:
        progress = self.progress
        if self._scheduler.is_exhausted:
            progress.finished_before = sum(sequence.skipped for sequence in self._sequences)
        how, code = self._how_and_exit_code(failure)
        ended = replace(self._interrupted(), how=how, exit_code=code, warning=self._refusal)
        if failure is not None:
            self._session.abandon()
            return replace(ended, warning=str(failure))
        try:
            self._session.close(
                how,
                code,
                finished=len(self._finished) + self._runner.recorded,
                failed=progress.failed,
                planned=progress.planned,
                ledger=asdict(self._counts),
            )
        except StorageFailure as error:
            # The end of a session is only information; what was acknowledged does not depend on it.
            warning = f"The end of the session could not be recorded. {error}"
            code = code if self._interrupt.has_arrived else error.exit_code
            return replace(ended, exit_code=code, warning=warning)
        return ended

    def _how_and_exit_code(self, failure: StorageFailure | RunHeld | None) -> tuple[str, int]:
        progress = self.progress
        if failure is not None:
            return "storage" if isinstance(failure, StorageFailure) else "held by another", failure.exit_code
        if self._refusal:
            return "refused", ResumeAborted.exit_code
        if self._interrupt.has_arrived and progress.done < progress.planned:
            return "interrupted", self._interrupt.exit_code
        if progress.done < progress.planned or progress.blocked or blocked_trials(self._session.reader):
            return "finished with failures", 1
        return "completed", 0
