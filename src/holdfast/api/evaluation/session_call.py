"""A session that is executed inside a Python program: started, shown, interrupted, and opened as a run."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from holdfast.analysis.failure_groups import failure_lines, read_failures
from holdfast.api.evaluation.interrupts import GuestInterrupts
from holdfast.api.evaluation.showing import choose_showing
from holdfast.api.execute import ending_commands, execute_session
from holdfast.api.growth_text import growth_lines
from holdfast.api.run import Run
from holdfast.engine.execution import FINISHED_WITH_FAILURES, SessionOutcome
from holdfast.engine.opening.complete_run import CompleteRun
from holdfast.engine.opening.new_run import StartedSession
from holdfast.errors import ResumeAborted, RunHeld, StorageFailure
from holdfast.run.core.display_text import shell_word
from holdfast.run.fold.reader import RunReader
from holdfast.run.locate import find_run
from holdfast.terminal.stderr import print_note, print_warning
from holdfast.terminal.text import printable

_LOOK_SECONDS = 0.2
_GENTLE_INTERRUPTS = 2


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class SessionCall:
    """One call of `evaluate` or `rescore`: a session that is started and executed in this process."""

    def __init__(
        self, start: Callable[[], StartedSession | CompleteRun], *, progress: bool | None, has_files: bool
    ) -> None:
        """`has_files` says whether all tasks come from files, so that the command line can resume the run too."""
        self._start, self._progress, self._has_files = start, progress, has_files
        self.interrupts = GuestInterrupts()
        self._place = ""
        """The run, once it exists."""
        self._ended: SessionOutcome | None = None

    def run(self) -> Run:
        """Starts and executes the session, also inside a running event loop.

        Raises:
            HoldfastError: as the function that was called says.
        """
        # In a notebook the loop of this thread is taken; the run gets a thread and a loop of its own.
        return self.open_run(self.run_beside() if _is_in_loop() else self.run_here())

    async def run_async(self) -> Run:
        """The same for a coroutine."""
        return self.open_run(await self.execute(self.start()))

    def start(self) -> StartedSession | CompleteRun:
        started = self._start()
        self._place = started.place
        return started

    async def execute(self, started: StartedSession | CompleteRun) -> SessionOutcome:
        """Runs what remains; a cancellation stops it."""
        _print_code_notes(started)
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
        for line in growth_lines(started.growth, rescoring=started.selection.slots is not None):
            print_note(line)
        ended = await execute_session(
            started, showing=choose_showing(started, asked=self._progress), interrupts=self.interrupts
        )
        for error in (StorageFailure, ResumeAborted, RunHeld):
            if ended.code_by_trials == error.exit_code:
                raise error(ended.warning)
        warnings = (ended.warning, *started.warnings, *_sentences(_code_notes(started)), started.not_uploaded_text())
        return replace(ended, warning=" ".join(filter(None, warnings)))

    def _stopped_text(self, created: str) -> str:
        """What Ctrl-C leaves, and how to resume it; `created` is a run that it found in the middle of starting."""
        place = self._place or created
        if not place:
            return "Nothing was started."
        if self._ended is not None and self._ended.counts.is_complete:
            return f"Every trial had finished: {place} is complete."
        again = f"Finished trials are kept. Resume with the same call and run={place!r}"
        return f"{again}, or with: holdfast resume {shell_word(place)}" if self._has_files else f"{again}."


def _trial_errors(place: str, ended: SessionOutcome) -> list[str]:
    """The same lines as in the report: a script may show nothing else of what went wrong."""
    if not ended.counts.remaining:
        return []
    with contextlib.closing(RunReader(find_run(place))) as reader:
        return [printable(line).strip() for line in failure_lines(read_failures(reader))]


def _code_notes(started: StartedSession | CompleteRun) -> Sequence[str]:
    """What the comparison of the code could not see, and what differs without an effect: as a command prints it."""
    if isinstance(started, CompleteRun):
        return started.code_notes
    return started.decision.notes if started.decision else ()


def _print_code_notes(started: StartedSession | CompleteRun) -> None:
    for note in _code_notes(started):
        print_note(f"note: {note}")


def _sentences(notes: Sequence[str]) -> Iterator[str]:
    """Lines as parts of one text."""
    return (f"Note: {note}." for note in notes)


def _no_session(complete: CompleteRun) -> SessionOutcome:
    told = " ".join(_sentences(complete.code_notes))
    if not complete.left:
        return SessionOutcome("completed", complete.exit_code, complete.counts, told)
    how = "Failed trials are run again only with redo='status=failed'."
    warning = " ".join(filter(None, [f"Nothing was run: {complete.counts.remaining_text()}. {how}", told]))
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
