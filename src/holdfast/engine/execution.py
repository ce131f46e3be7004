"""Executing a run: from an open session to its end, with the exit code that tells the truth.

0 complete, every trial valid · 1 finished, but trials failed, were blocked or are owed · 5 storage failure · 130/143
interrupted
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.engine.calls import CallCounts, Caller, Gate, Model
from holdfast.engine.carry import Carrier
from holdfast.engine.clock import Clock, RealClock
from holdfast.engine.history import History
from holdfast.engine.interrupt import INTERRUPTED, Interrupt
from holdfast.engine.pace import Pace
from holdfast.engine.plan import KeySet, Lane, PlannedTask
from holdfast.engine.prepare import Prepared
from holdfast.engine.progress import Progress
from holdfast.engine.reuse import Reuse
from holdfast.engine.scheduler import LaneQueue, Scheduler
from holdfast.engine.slots import Level
from holdfast.engine.trial import TrialEnvironment
from holdfast.errors import RunHeld, StorageFailure
from holdfast.run.lacking import lacking_scores
from holdfast.run.session import RunSession
from holdfast.spec import EvalSpec, StageLimits


@dataclass(frozen=True)
class Ended:
    """How a session ended."""

    how: str
    exit_code: int
    planned: int
    finished: int
    failed: int
    warning: str = ""

    @property
    def owed(self) -> int:
        return self.planned - self.finished


_FLUSH_SECONDS = 5.0

Show = Callable[[Progress], None]


class Execution:
    """One session's work on a run."""

    def __init__(
        self, session: RunSession, prepared: Prepared, *, clock: Clock | None = None, reuse: Reuse | None = None
    ) -> None:
        self._session, self._prepared, self._reuse = session, prepared, reuse
        self._clock = clock or RealClock()
        self._finished = KeySet(session.reader.finished())
        self._lacking = KeySet(lacking_scores(session.reader))
        self._counts = CallCounts()
        self.progress = Progress(self._clock, prepared.planned, self._planned_and_finished(), self._counts)
        self._gate = Gate(session.is_held)
        session.finished_now = lambda: self.progress.done

    def _planned_and_finished(self) -> int:
        """Finished trials that are part of the plan; those of a sample that is no longer asked are not."""
        return min(len(self._finished), self._prepared.planned) - len(self._lacking)

    async def run(self, *, signals: bool = True, on_stuck: Callable[[Ended], None] | None = None) -> Ended:
        """Carries out everything that is owed, and ends the session.

        `on_stuck` is called, from another thread, when the second signal does not lead to an end.
        """
        stuck = None if on_stuck is None else lambda: on_stuck(self._interrupted())
        self._interrupt = Interrupt(self._drain, self._stop, on_note=self._note_signal, on_stuck=stuck)
        models = self._open_models(self._prepared.spec)
        caller = Caller(self._clock, self._gate, self._counts, random.Random())  # noqa: S311 - jitter
        environment = TrialEnvironment(self._session, caller, self._counts, self._clock, self._look_if_drained)
        environment.reuse = self._reuse
        self._levels = Levels(self._prepared.spec)
        self._carrier = Carrier(
            environment,
            models,
            History(self._session.reader),
            self.progress,
            seed=self._prepared.spec.seed,
            score_levels=self._levels.score,
        )
        self._scheduler = Scheduler(self._carrier.carry)
        for task in self._prepared.tasks:
            for model in task.models:
                self._scheduler.add(self._lane(task, model))
        if signals:
            self._interrupt.install()
        try:
            failure = await self._work()
        finally:
            if signals:
                self._interrupt.remove()
            for opened in models.values():
                await opened.provider.close()
        return self._end(failure)

    async def _work(self) -> StorageFailure | RunHeld | None:
        """Carries everything out; whatever ends that early, the run is let go."""
        try:
            await self._scheduler.run()
            await self._wait_for_store()
        except (StorageFailure, RunHeld) as error:
            return error
        except asyncio.CancelledError:
            # As Ctrl-C does it to asyncio.run: what is under way is owed.
            self._gate.close()
            await self._scheduler.end()
            self._interrupt.exit_code = self._interrupt.exit_code or INTERRUPTED
            self._end(None)
            raise
        except BaseException:
            self._session.abandon()
            raise
        return None

    async def _wait_for_store(self) -> None:
        """Where trials count only once their segments are up, waits for that; a second signal ends the wait."""
        uploader = self._session.uploader
        while uploader is not None and self._session.counts_when_up and not self._interrupt.has_come:
            if await asyncio.to_thread(uploader.flush, _FLUSH_SECONDS):
                # The last of those who were told has been put into the loop; let it have its turn.
                await asyncio.sleep(0)
                return

    def _open_models(self, spec: EvalSpec) -> dict[str, Model]:
        self._prepared.open_models()
        models: dict[str, Model] = {}
        for name, provider in self._prepared.providers.items():
            model = spec.models[name]
            # A model in this machine's memory knows best how many requests it can work on.
            limit = model.concurrency_limit or getattr(provider, "concurrency_limit", None)
            slots = asyncio.Semaphore(limit) if limit else None
            models[name] = Model(name, model, provider, Pace(model.rate_limit, self._clock), slots)
        return models

    def _lane(self, task: PlannedTask, model: str) -> LaneQueue:
        lane = Lane(task, model, self._finished, self._lacking)
        return LaneQueue(lane.cells(), self._levels.solve_of(task.name, model), self._levels.active_of(model))

    # Interrupts.

    def _note_signal(self) -> None:
        """The very moment a signal comes; the loop may be in the middle of anything."""
        self._gate.close()
        self._carrier.disturb()

    def _drain(self, name: str) -> None:
        self.progress.messages.append(f"{name}: letting calls in flight finish; once more stops at once.")
        self._gate.close()
        self._scheduler.stop()
        loop = asyncio.get_running_loop()
        loop.call_later(self._prepared.spec.runner.grace, self._scheduler.cancel)
        self._look_if_drained()

    def _look_if_drained(self) -> None:
        """Once nobody does anything but wait, there is nothing left to wait for."""
        if self._gate.is_closed and self._carrier.is_idle:
            asyncio.get_running_loop().call_soon(self._cancel_if_drained)

    def _cancel_if_drained(self) -> None:
        if self._carrier.is_idle:
            self._scheduler.cancel()

    def _stop(self) -> None:
        self._scheduler.cancel()

    # The end.

    def _interrupted(self) -> Ended:
        progress = self.progress
        return Ended("interrupted", self._interrupt.exit_code, progress.planned, progress.done, progress.failed)

    def _end(self, failure: StorageFailure | RunHeld | None) -> Ended:
        progress = self.progress
        how, code = self._verdict(failure)
        ended = Ended(how, code, progress.planned, progress.done, progress.failed)
        if failure is not None:
            self._session.abandon()
            return Ended(how, code, progress.planned, progress.done, progress.failed, str(failure))
        try:
            self._session.close(
                how,
                code,
                finished=len(self._finished) + progress.finished - progress.late,
                failed=progress.failed,
                planned=progress.planned,
                ledger=self._ledger(),
            )
        except StorageFailure as error:
            # The end of a session is a courtesy; what was acknowledged does not depend on it.
            warning = f"The end of the session could not be recorded. {error}"
            code = code if self._interrupt.has_come else error.exit_code
            return Ended(how, code, progress.planned, progress.done, progress.failed, warning)
        return ended

    def _verdict(self, failure: StorageFailure | RunHeld | None) -> tuple[str, int]:
        progress = self.progress
        if failure is not None:
            return "storage" if isinstance(failure, StorageFailure) else "held by another", failure.exit_code
        if self._interrupt.has_come and progress.done < progress.planned:
            return "interrupted", self._interrupt.exit_code
        if progress.done < progress.planned or progress.blocked:
            return "finished with failures", 1
        return "completed", 0

    def _ledger(self) -> dict[str, int]:
        counts = self._counts
        return {"made": counts.made, "replayed": counts.replayed, "retries": counts.retries}


class Levels:
    """The limits of an eval, as slots: of the run, its tasks, its stages and its models."""

    def __init__(self, spec: EvalSpec) -> None:
        runner = spec.runner
        self._run = Level("run", runner.concurrency_limit)
        self._stages = _stages("run", runner.concurrency_limits)
        self._tasks = {name: Level(name, task.runner.concurrency_limit) for name, task in spec.tasks.items()}
        self._task_stages = {name: _stages(name, task.runner.concurrency_limits) for name, task in spec.tasks.items()}
        self._models = {name: Level(name, model.concurrency_limit) for name, model in spec.models.items()}
        self._active = {name: Level(name, runner.concurrency_limit) for name in spec.models}
        self.score = {task: self._of(task, "score") for task in spec.tasks if self._limits_scoring(task)}

    def _of(self, task: str, stage: str) -> tuple[Level, ...]:
        levels = (self._task_stages[task][stage], self._stages[stage], self._tasks[task], self._run)
        return tuple(level for level in levels if level.limit is not None)

    def _limits_scoring(self, task: str) -> bool:
        return any(stages["score"].limit is not None for stages in (self._task_stages[task], self._stages))

    def solve_of(self, task: str, model: str) -> tuple[Level, ...]:
        """What a trial takes to begin, narrowest first; a model's limit also bounds the trials that wait for it."""
        own = self._models[model]
        return (*((own,) if own.limit is not None else ()), *self._of(task, "solve"))

    def active_of(self, model: str) -> Level:
        """Bounds the trials of a model that have begun and not ended, whatever they wait for."""
        return self._active[model]


def _stages(owner: str, limits: StageLimits) -> dict[str, Level]:
    return {"solve": Level(f"{owner}.solve", limits.solve), "score": Level(f"{owner}.score", limits.score)}
