"""`evaluate` and `evaluate_async`: run tasks on models in this process, and get the run."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.analysis.failure_groups import failure_lines, read_failures
from holdfast.api.evaluation.interrupts import GuestInterrupts
from holdfast.api.evaluation.request import (
    EvaluationArguments,
    ModelsGiven,
    ObserversGiven,
    RunsGiven,
    TasksGiven,
)
from holdfast.api.evaluation.showing import choose_showing
from holdfast.api.execute import ending_commands, execute_session
from holdfast.api.growth_text import growth_lines
from holdfast.api.run import Run
from holdfast.api.start import RunRequest, start_session
from holdfast.engine.execution import FINISHED_WITH_FAILURES, SessionOutcome
from holdfast.engine.opening.complete_run import CompleteRun
from holdfast.engine.opening.new_run import StartedSession
from holdfast.errors import HoldfastError, ResumeAborted, RunHeld, StorageFailure
from holdfast.run.core.display_text import shell_word
from holdfast.run.fold.reader import RunReader
from holdfast.run.locate import find_run
from holdfast.terminal.stderr import print_note, print_warning
from holdfast.terminal.text import printable

_LOOK_SECONDS = 0.2
_GENTLE_INTERRUPTS = 2


def evaluate(  # noqa: PLR0913 - each is a keyword with a default
    tasks: TasksGiven,
    models: ModelsGiven,
    *,
    run: str | Path | None = None,
    name: str = "",
    epochs: int | None = None,
    limit: int | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - as `--set` of the command line
    reuse: RunsGiven = (),
    redo: str | None = None,
    observers: ObserversGiven = (),
    progress: bool | None = None,
    **settings: Any,
) -> Run:
    """Runs tasks on models and returns the run.

    `run` is its directory, or its URL in an object store: a new run is created there, and one that exists is resumed,
    through the gate. `epochs` and `limit` apply to every task. `set` changes single keys by their paths, as `--set`
    does: `{"models.small.generation.temperature": 0}`. `reuse` names runs whose replies to identical requests are used
    again. `redo` runs trials of a run that exists once more, as `--redo` does: `redo="status=failed"` is the only thing
    that runs failed trials again. `observers` are functions that get the events of the session (`holdfast.events`).
    `settings` are further keys of an eval file, such as `seed` or `concurrency_limit`. Variables in a file `.env` of
    the current directory are used where the environment does not have them.

    Progress is shown in a terminal and in a notebook; `progress` is False for none, and True to print it elsewhere
    too. Works inside a running event loop. Failed and remaining trials are not raised: see `Run.ended` and the report.

    Raises:
        UsageError: an argument is wrong, `run` holds something else, or is a URL of an unknown kind.
        ConfigurationError: a task, model or setting is wrong, or a run to reuse does not exist.
        ResumeAborted: the run at `run` cannot resume with this.
        RunHeld: another session is executing it.
        StorageFailure: the disk or the store failed; what was acknowledged is intact.
        KeyboardInterrupt: Ctrl-C; calls in flight were waited for, what is finished is kept, and the message says how
            to resume. A second Ctrl-C stops at once.
    """
    given = EvaluationArguments(
        tasks=tasks,
        models=models,
        run=run,
        name=name,
        epochs=epochs,
        limit=limit,
        changes=set,
        reuse=reuse,
        redo=redo,
        observers=observers,
        settings=settings,
    )
    evaluation = _Evaluation(given.request(), progress=progress)
    try:
        # In a notebook the loop of this thread is taken; the run gets a thread and a loop of its own.
        return evaluation.open_run(evaluation.run_beside() if _is_in_loop() else evaluation.run_here())
    except HoldfastError as error:
        # Its way through the engine and two event loops says nothing about the mistake.
        raise error.with_traceback(None) from error.__cause__


async def evaluate_async(  # noqa: PLR0913 - as above
    tasks: TasksGiven,
    models: ModelsGiven,
    *,
    run: str | Path | None = None,
    name: str = "",
    epochs: int | None = None,
    limit: int | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - as `--set` of the command line
    reuse: RunsGiven = (),
    redo: str | None = None,
    observers: ObserversGiven = (),
    progress: bool | None = None,
    **settings: Any,
) -> Run:
    """As `evaluate`, for a coroutine.

    Raises:
        UsageError: an argument is wrong, `run` holds something else, or is a URL of an unknown kind.
        ConfigurationError: a task, model or setting is wrong, or a run to reuse does not exist.
        ResumeAborted: the run at `run` cannot resume with this.
        RunHeld: another session is executing it.
        StorageFailure: the disk or the store failed; what was acknowledged is intact.
    """
    given = EvaluationArguments(
        tasks=tasks,
        models=models,
        run=run,
        name=name,
        epochs=epochs,
        limit=limit,
        changes=set,
        reuse=reuse,
        redo=redo,
        observers=observers,
        settings=settings,
    )
    evaluation = _Evaluation(given.request(), progress=progress)
    return evaluation.open_run(await evaluation.execute(evaluation.start()))


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Evaluation:
    """One call of `evaluate`."""

    def __init__(self, request: RunRequest, *, progress: bool | None) -> None:
        self._request, self._progress = request, progress
        self.interrupts = GuestInterrupts()
        self._place = ""
        """The run, once it exists."""
        self._ended: SessionOutcome | None = None

    def start(self) -> StartedSession | CompleteRun:
        started = start_session(self._request)
        self._place = started.place
        return started

    async def execute(self, started: StartedSession | CompleteRun) -> SessionOutcome:
        """Runs what remains; a cancellation stops it."""
        self._ended = _no_session(started) if isinstance(started, CompleteRun) else await self._outcome(started)
        return self._ended

    def run_here(self) -> SessionOutcome:
        """Starts and executes the session in this thread, where no event loop runs."""
        with self.interrupts.noted(), self._saying_how_to_resume():
            started = self.start()
            with self.interrupts.executing():
                return asyncio.run(self._execute_interruptibly(started))

    def run_beside(self) -> SessionOutcome:
        """The same in a thread with a loop of its own."""
        with self._saying_how_to_resume(), self.interrupts.executing():
            return _EvaluationThread(self._start_and_execute, self.interrupts).wait()

    async def _start_and_execute(self) -> SessionOutcome:
        return await self._execute_interruptibly(self.start())

    @contextlib.contextmanager
    def _saying_how_to_resume(self) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(self._stopped_text(getattr(error, "place", ""))) from None

    async def _execute_interruptibly(self, started: StartedSession | CompleteRun) -> SessionOutcome:
        """As `execute`; Ctrl-C also ends the commands of its tasks."""
        with ending_commands(self.interrupts):
            return await self.execute(started)

    def open_run(self, ended: SessionOutcome) -> Run:
        """The run, with how its session ended."""
        return Run.open(self._place, ended=replace(ended, errors=_trial_errors(self._place, ended)))

    async def _outcome(self, started: StartedSession) -> SessionOutcome:
        """Executes the session; what ended it early is raised, and what is amiss with the store is its warning."""
        for warning in started.warnings:
            # Before the first call: money may be saved by it.
            print_warning(warning)
        for line in growth_lines(started.growth):
            print_note(line)
        ended = await execute_session(
            started, showing=choose_showing(started, asked=self._progress), interrupts=self.interrupts
        )
        for error in (StorageFailure, ResumeAborted, RunHeld):
            if ended.exit_code == error.exit_code:
                raise error(ended.warning)
        warnings = (ended.warning, *started.warnings, started.not_uploaded_text())
        return replace(ended, warning=" ".join(filter(None, warnings)))

    def _stopped_text(self, created: str) -> str:
        """What Ctrl-C leaves, and how to resume it; `created` is a run that it found in the middle of starting."""
        place = self._place or created
        if not place:
            return "Nothing was started."
        if self._ended is not None and self._ended.counts.is_complete:
            return f"Every trial had finished: {place} is complete."
        again = f"Finished trials are kept. Resume with the same call and run={place!r}"
        has_files = all(task.use for task in (self._request.tasks or {}).values())
        return f"{again}, or with: holdfast resume {shell_word(place)}" if has_files else f"{again}."


def _trial_errors(place: str, ended: SessionOutcome) -> list[str]:
    """The same lines as in the report: a script may show nothing else of what went wrong."""
    if not ended.counts.remaining:
        return []
    with contextlib.closing(RunReader(find_run(place))) as reader:
        return [printable(line).strip() for line in failure_lines(read_failures(reader))]


def _no_session(complete: CompleteRun) -> SessionOutcome:
    if not complete.left:
        return SessionOutcome("completed", complete.exit_code, complete.counts)
    how = "Failed trials are run again only with redo='status=failed'."
    warning = f"Nothing was run: {complete.counts.remaining_text()}. {how}"
    return SessionOutcome(FINISHED_WITH_FAILURES, complete.exit_code, complete.counts, warning)


class _EvaluationThread:
    """Runs an evaluation in a thread with an event loop of its own; waiting for it can be interrupted."""

    def __init__(
        self, evaluate: Callable[[], Coroutine[Any, Any, SessionOutcome]], interrupts: GuestInterrupts
    ) -> None:
        self._start, self._interrupts = evaluate, interrupts
        self._is_running = threading.Event()
        self._caller = asyncio.current_task()
        self._cancellations = self._caller.cancelling() if self._caller is not None else 0

    def wait(self) -> SessionOutcome:
        with ThreadPoolExecutor(1, thread_name_prefix="holdfast-evaluate") as thread:
            running = thread.submit(asyncio.run, self._evaluate())
            while not running.done():
                try:
                    self._wait_for(running)
                except KeyboardInterrupt:
                    self._interrupt()
            try:
                return running.result()
            except FutureCancelled:
                raise KeyboardInterrupt from None

    def _interrupt(self) -> None:
        """The session treats the first two as on the command line; where that does not end it, it is cancelled."""
        self._interrupts.ask()
        if self._interrupts.count > _GENTLE_INTERRUPTS:
            self._is_running.wait()
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._task.cancel)

    def _wait_for(self, running: Future[SessionOutcome]) -> None:
        """Waits as long as the task that called is not cancelled: under asyncio.run that is all that Ctrl-C does."""
        while not wait([running], _LOOK_SECONDS).done:
            if self._caller is not None and self._caller.cancelling() > self._cancellations:
                self._cancellations = self._caller.cancelling()
                raise KeyboardInterrupt

    async def _evaluate(self) -> SessionOutcome:
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._start())
        self._is_running.set()
        return await self._task
