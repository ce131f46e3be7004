"""What `run` and `resume` share: showing a session at work, and telling how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from holdfast.cli.main import print_json
from holdfast.cli.ui.early_signals import early
from holdfast.cli.ui.printable import many
from holdfast.cli.ui.progress_display import Display
from holdfast.cli.ui.streams import mute_if_broken, say
from holdfast.engine.execution import Execution, SessionOutcome
from holdfast.engine.interrupt import INTERRUPTED, STUCK_SECONDS, TERMINATED, Interrupt
from holdfast.engine.opening.start import StartedSession
from holdfast.engine.progress import Progress
from holdfast.errors import HoldfastError
from holdfast.run.core.display_text import change_text
from holdfast.run.fold.inconsistencies import describe_inconsistencies
from holdfast.run.fold.remaining_trials import count_remaining, reasons_text, remaining_reasons
from holdfast.spec.compare import Difference


def announce(started: StartedSession, *, resumed: bool) -> None:
    """Says which run it is, what is finished, and what is owed and why, before the first call."""
    session = started.session.record
    counts = count_remaining(started.session.reader, started.prepared.planned)
    if not resumed:
        say(f"Run {started.place}: {many(counts['owed'], 'trial')} to do.")
        return
    changed = "the configuration saved in the run"
    if started.decision is not None and started.decision.changes:
        changed += f" and {many(len(started.decision.changes), 'change')}"
    say(f"Resuming {started.place} (session {session.number}), with {changed}.")
    _tell_changes(started)
    finished = f"{counts['finished']} of {started.prepared.planned} trials are finished"
    say(f"{finished}, {counts['owed']} are owed{reasons_text(remaining_reasons(counts))}.")
    for note in describe_inconsistencies(started.session.reader):
        say(f"note: {note}")


def _tell_changes(started: StartedSession) -> None:
    for warning in started.warnings:
        say(f"warning: {warning}")
    changes = started.decision.changes if started.decision else []
    for change in changes:
        say(f"  {change.path}: {change_text(change.old, change.new)}")
    tell_kept(started.decision.kept if started.decision else [], started.note)


def tell_kept(kept: list[Difference], note: str) -> None:
    """Says where less is offered than the run has, and what was found about its config.yaml."""
    for item in kept:
        say(f"  {item.path}: {change_text(item.old, item.new)}; the run keeps what it has")
    if note:
        say(f"note: {note}")


def carry_out(started: StartedSession, *, as_json: bool, resumed: bool) -> int:
    """Executes what is owed; the exit code."""
    told = False

    def tell(ended: SessionOutcome) -> None:
        nonlocal told
        if not told:
            told = True
            try:
                _tell(started, ended, as_json=as_json)
            except OSError as error:
                # How the run ended is so whether it can be printed or not.
                mute_if_broken(sys.stdout)
                say(f"holdfast: how the run ended could not be printed: {error.strerror}. It was: {ended.how}.")

    def give_up(ended: SessionOutcome) -> None:
        """Ends a program that a task's code holds up; what was acknowledged is safe."""
        tell(ended)
        _leave(ended.exit_code)

    async def execute() -> int:
        ended = await _execute(started, give_up)
        # Told before the loop is closed, for closing it waits for threads that a task may have left.
        tell(ended)
        if ended.exit_code in {INTERRUPTED, TERMINATED}:
            _leave_soon(ended.exit_code)
        return ended.exit_code

    try:
        announce(started, resumed=resumed)
        return asyncio.run(execute())
    except SystemExit as error:
        raise _exit_of_a_task(started, error) from None
    except KeyboardInterrupt:
        say(f"Stopped before the first call. Go on with: holdfast resume {shlex.quote(started.place)}")
        raise


def _exit_of_a_task(started: StartedSession, error: SystemExit) -> HoldfastError:
    """sys.exit in a task of asyncio's ends the loop, and only its exit code would be left to tell."""
    told = HoldfastError(
        f"A task of the eval called sys.exit({error.code!r}), which ended the session.",
        hint=f"Let it raise an error instead, then go on with: holdfast resume {shlex.quote(started.place)}",
    )
    told.exit_code = 1
    return told


async def _execute(started: StartedSession, on_stuck: Callable[[SessionOutcome], None]) -> SessionOutcome:
    execution = Execution(started.session, started.prepared, reuse=started.reuse)
    runner = started.prepared.spec.runner
    asyncio.get_running_loop().set_exception_handler(_stray_handler(execution.progress))
    display = Display(execution.progress, interval=runner.progress_interval, lines=runner.show_progress)
    async with display.shown():
        return await execution.run(on_stuck=on_stuck, missed_signal=lambda: early.number)


def _stray_handler(progress: Progress) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """Tells in a line of errors that a task's code has left to nobody; asyncio would print a traceback."""

    def handle(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        told = f"{type(error).__name__}: {error}" if error is not None else str(context.get("message", ""))
        progress.messages.append(f"nobody awaited what failed in a task's code: {' '.join(told.split())}")

    return handle


def _leave_soon(code: int) -> None:
    """After an interrupt nobody waits for commands and threads that a task has left behind."""
    Interrupt.ignore()
    end_children()
    watch = threading.Timer(STUCK_SECONDS, _leave, [code])
    watch.daemon = True
    watch.start()


def _leave(code: int) -> None:
    end_children()
    mute_if_broken(sys.stdout)
    mute_if_broken(sys.stderr)
    os._exit(code)


def end_children() -> None:
    """Ends the commands that tasks have started and not waited for."""
    for thread in Path("/proc/self/task").glob("*/children"):
        for child in thread.read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGTERM)


def _tell(started: StartedSession, ended: SessionOutcome, *, as_json: bool) -> None:
    if started.reuse is not None:
        say(f"{started.reuse.taken} replies were taken from other runs.")
    if ended.warning:
        say(f"holdfast: {ended.warning}")
    for failure in ended.failures:
        say(f"note: {failure}")
    if left := _left(started):
        say(f"holdfast: {left}")
    if as_json:
        print_json(_ended_json(started, ended))
    else:
        _tell_end(started, ended)


def _left(started: StartedSession) -> str:
    uploader = started.session.uploader
    return uploader.left_text() if uploader is not None else ""


def _tell_end(started: StartedSession, ended: SessionOutcome) -> None:
    if ended.exit_code == 0:
        click.echo(f"Complete: {ended.finished} of {ended.planned} trials.")
        click.echo(f"See: holdfast report {shlex.quote(started.place)}")
        return
    failed = f", {ended.failed} failed" if ended.failed else ""
    failed += f", {ended.unfinished} got no reply" if ended.unfinished else ""
    click.echo(
        f"Stopped ({ended.how}): {ended.finished} of {ended.planned} trials finished, {ended.owed} owed{failed}."
    )
    click.echo(f"Go on with: holdfast resume {shlex.quote(started.place)}")


def _ended_json(started: StartedSession, ended: SessionOutcome) -> dict[str, Any]:
    return {
        "run": started.place,
        "state": "complete" if ended.owed == 0 else "incomplete",
        "how": ended.how,
        "exit_code": ended.exit_code,
        "planned": ended.planned,
        "finished": ended.finished,
        "failed": ended.failed,
        "unfinished": ended.unfinished,
        "owed": ended.owed,
        "warning": ended.warning,
        "failures": ended.failures,
        "not_uploaded": _left(started),
    }
