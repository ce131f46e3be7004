"""A session in the foreground: its messages and progress on stderr, its result on stdout, and an exit code."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from holdfast.analysis.fail_under import ScoreBound
from holdfast.api.event_text import EventText
from holdfast.api.execute import ForegroundProgram, execute_session
from holdfast.api.progress.display import ProgressDisplay
from holdfast.api.progress.file import correct_exit_code
from holdfast.api.start import StartInterrupted
from holdfast.cli.session.messages import EndMessage, print_complete, print_start
from holdfast.cli.session.output_options import SessionOutput
from holdfast.cli.session.process_exit import exit_now, exit_soon
from holdfast.cli.ui.standard_streams import silencing_messages
from holdfast.cli.ui.startup_signals import startup_signals
from holdfast.engine.events import UNAWAITED_ERROR, Events, Interrupted, ModelDisabled, Note, TaskStopped
from holdfast.engine.execution import Execution, SessionOutcome
from holdfast.engine.interrupt import EXIT_CODES
from holdfast.engine.opening.complete_run import CompleteRun
from holdfast.engine.opening.new_run import StartedSession
from holdfast.errors import HoldfastError
from holdfast.event_type import Event
from holdfast.run.core.display_text import nearby, shell_word
from holdfast.run.fold.states import StateCounts

DEFAULT_OUTPUT = SessionOutput()
_SAID_ALWAYS = (Interrupted, ModelDisabled, TaskStopped)
"""Also with -q: a signal needs an answer, and a disabled model or a stopped task is an error."""


def run_in_foreground(
    started: StartedSession | CompleteRun,
    *,
    as_json: bool,
    bounds: Sequence[ScoreBound] = (),
    output: SessionOutput = DEFAULT_OUTPUT,
) -> int:
    """Runs the trials that remain and prints the scores and how the session ended, or that no trial remains.

    Gives the exit code: 1 instead of 0 where a score is below its bound.
    """
    if isinstance(started, CompleteRun):
        output.note(f"{started.place}: {'nothing to run' if started.left else 'no trial remains'}.")
        return print_complete(started, bounds, as_json=as_json, is_quiet=output.quiet)
    try:
        with startup_signals:
            with silencing_messages(is_quiet=output.quiet):
                print_start(started)
            message = EndMessage(started, bounds, as_json=as_json, is_quiet=output.quiet)
            return asyncio.run(_execute_and_print(started, message, output))
    except SystemExit as error:
        raise _sys_exit_error(started, error) from None
    except KeyboardInterrupt:
        raise StartInterrupted(nearby(started.place)) from None


async def _execute_and_print(started: StartedSession, message: EndMessage, output: SessionOutput) -> int:
    def print_end(ended: SessionOutcome, *, with_scores: bool = True) -> int:
        output.note(f"Session ended: {ended.how}. {_counts_text(ended.counts)}")
        return message.print(ended, with_scores=with_scores)

    def give_up(ended: SessionOutcome) -> None:
        """Ends a program that a task's code holds up; what was acknowledged is durable."""
        print_end(ended, with_scores=False)
        exit_now(ended.exit_code)

    def showing(execution: Execution) -> AbstractAsyncContextManager[None]:
        return _showing(execution, started, output)

    program = ForegroundProgram(showing, lambda: startup_signals.number, give_up)
    ended = await execute_session(started, program)
    # Printed before the loop is closed, because closing it waits for threads that a task may have left.
    code = print_end(ended)
    if code != ended.exit_code:
        correct_exit_code(started, code)
    if ended.exit_code in EXIT_CODES.values():
        exit_soon(ended.exit_code)
    return code


def _counts_text(counts: StateCounts) -> str:
    return f"{counts.finished_text()}, {counts.remaining_text()}."


@contextlib.asynccontextmanager
async def _showing(execution: Execution, started: StartedSession, output: SessionOutput) -> AsyncIterator[None]:
    """Shows the progress of a session, and what goes wrong in it, while the block runs."""
    runner = started.prepared.spec.runner
    display = ProgressDisplay(
        execution.progress,
        interval=runner.progress_interval,
        lines=runner.show_progress and not output.quiet,
        log_interval=runner.log_interval,
    )
    sentences = EventText(verbose=output.verbose)

    def observe(event: Event) -> None:
        if text := sentences.text(event):
            output.note(text)
            if not output.quiet or isinstance(event, _SAID_ALWAYS):
                display.tell(text)

    execution.observe(observe, *sentences.kinds)
    asyncio.get_running_loop().set_exception_handler(_unawaited_error_handler(execution.events))
    async with contextlib.AsyncExitStack() as undo:
        if output.log is not None:
            await undo.enter_async_context(output.log.following(execution.progress, runner.log_interval))
        await undo.enter_async_context(display.showing())
        yield


def _unawaited_error_handler(events: Events) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """Notes an error that a task's code never awaited; asyncio would print a traceback."""

    def handle(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        text = f"{type(error).__name__}: {error}" if error is not None else str(context.get("message", ""))
        # It may be the collector, in any thread, that has found out.
        events.emit_from_thread(Note(UNAWAITED_ERROR, "", " ".join(text.split())))

    return handle


def _sys_exit_error(started: StartedSession, error: SystemExit) -> HoldfastError:
    """sys.exit in a task of asyncio's ends the loop, and leaves nothing but its exit code to report."""
    failure = HoldfastError(
        f"A task of the eval called sys.exit({error.code!r}), which ended the session.",
        hint=f"Let it raise an error instead, then resume with: holdfast resume {shell_word(nearby(started.place))}",
    )
    failure.exit_code = 1
    return failure
