"""Executing a started session in the foreground: progress on stderr, signals, and an exit code."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable
from typing import Any

from holdfast.cli.session.messages import EndMessage, print_start
from holdfast.cli.session.process_exit import exit_now, exit_soon
from holdfast.cli.ui.progress_display import ProgressDisplay
from holdfast.cli.ui.standard_streams import say
from holdfast.cli.ui.startup_signals import startup_signals
from holdfast.engine.execution import Execution, SessionOutcome
from holdfast.engine.interrupt import INTERRUPTED, TERMINATED
from holdfast.engine.opening.new_run import StartedSession
from holdfast.engine.progress import Progress
from holdfast.errors import HoldfastError


def execute_session(started: StartedSession, *, as_json: bool, resumed: bool) -> int:
    """Runs the trials that remain and prints how the session ended; the exit code."""
    try:
        print_start(started, resumed=resumed)
        return asyncio.run(_execute_and_print(started, EndMessage(started, as_json=as_json)))
    except SystemExit as error:
        raise _sys_exit_error(started, error) from None
    except KeyboardInterrupt:
        say(f"Stopped before the first call. Go on with: holdfast resume {shlex.quote(started.place)}")
        raise


async def _execute_and_print(started: StartedSession, message: EndMessage) -> int:
    def give_up(ended: SessionOutcome) -> None:
        """Ends a program that a task's code holds up; what was acknowledged is durable."""
        message.print(ended)
        exit_now(ended.exit_code)

    ended = await _execute_with_display(started, give_up)
    # Printed before the loop is closed, because closing it waits for threads that a task may have left.
    message.print(ended)
    if ended.exit_code in {INTERRUPTED, TERMINATED}:
        exit_soon(ended.exit_code)
    return ended.exit_code


async def _execute_with_display(started: StartedSession, on_stuck: Callable[[SessionOutcome], None]) -> SessionOutcome:
    execution = Execution(started.session, started.prepared, reuse=started.reuse)
    runner = started.prepared.spec.runner
    asyncio.get_running_loop().set_exception_handler(_unawaited_error_handler(execution.progress))
    display = ProgressDisplay(execution.progress, interval=runner.progress_interval, lines=runner.show_progress)
    async with display.showing():
        return await execution.run(on_stuck=on_stuck, missed_signal=lambda: startup_signals.number)


def _unawaited_error_handler(progress: Progress) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """Shows in one line an error that a task's code never awaited; asyncio would print a traceback."""

    def handle(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        text = f"{type(error).__name__}: {error}" if error is not None else str(context.get("message", ""))
        progress.messages.append(f"nobody awaited what failed in a task's code: {' '.join(text.split())}")

    return handle


def _sys_exit_error(started: StartedSession, error: SystemExit) -> HoldfastError:
    """sys.exit in a task of asyncio's ends the loop, and leaves nothing but its exit code to report."""
    failure = HoldfastError(
        f"A task of the eval called sys.exit({error.code!r}), which ended the session.",
        hint=f"Let it raise an error instead, then go on with: holdfast resume {shlex.quote(started.place)}",
    )
    failure.exit_code = 1
    return failure
