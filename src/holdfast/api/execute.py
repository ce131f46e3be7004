"""Executing a started session to its end: the same for a program in the foreground and for `evaluate`.

A program has its process for itself: it listens to signals, and gives up where a task's code holds it up. `evaluate`
works in a process that belongs to someone else, perhaps in a thread: it listens to Ctrl-C at most, or is cancelled.
Neither leaves commands of tasks behind when it is interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from holdfast.api.evaluation.interrupts import GuestInterrupts
from holdfast.api.event_text import EventText, note_text
from holdfast.api.progress.file import ProgressFile, keeping_progress_file
from holdfast.engine.events import Interrupted, Note
from holdfast.engine.execution import Execution, SessionOutcome
from holdfast.engine.opening.new_run import StartedSession
from holdfast.storage.operating_system import child_processes


@dataclass(frozen=True)
class ForegroundProgram:
    """A program that does nothing but execute this session."""

    showing: Callable[[Execution], AbstractAsyncContextManager[None]]
    """Shows the progress of the session, and what happens in it, while its block runs."""
    missed_signal: Callable[[], int]
    """The number of a signal that came before the session listened, or 0."""
    on_stuck: Callable[[SessionOutcome], None]
    """Ends the process, from another thread: a task's code holds up the end that signals have asked for."""


async def execute_session(
    started: StartedSession,
    program: ForegroundProgram | None = None,
    showing: Callable[[Execution], AbstractAsyncContextManager[None]] | None = None,
    interrupts: GuestInterrupts | None = None,
) -> SessionOutcome:
    """Runs the trials that remain, and ends the session; without a program and interrupts only a cancellation stops it.

    `showing` shows the progress where there is no program, which would show it itself.
    """
    execution = Execution(
        started.session,
        started.prepared,
        reuse=started.reuse,
        selection=started.selection,
        observers=started.observers,
        held=started.held,
    )
    async with keeping_progress_file(started, execution) as file:
        if program is None:
            async with showing(execution) if showing is not None else contextlib.nullcontext():
                return await _run_as_guest(execution, interrupts, is_shown=showing is not None)
        async with program.showing(execution):
            on_stuck = _on_stuck(program, file)
            return await execution.run(on_stuck=on_stuck, missed_signal=program.missed_signal)


def _on_stuck(program: ForegroundProgram, file: ProgressFile | None) -> Callable[[SessionOutcome], None]:
    def give_up(ended: SessionOutcome) -> None:
        if file is not None:
            file.write_end(ended.how, ended.exit_code, ended.counts)
        program.on_stuck(ended)

    return give_up


async def _run_as_guest(execution: Execution, interrupts: GuestInterrupts | None, *, is_shown: bool) -> SessionOutcome:
    """In somebody else's process; what a person should know is a warning of the outcome."""
    notes: list[Note] = []
    execution.observe(notes.append, Note)
    if not is_shown:
        # Ctrl-C needs an answer, also where no progress is shown.
        execution.observe(_print_interrupt, Interrupted)
    ended = await (execution.run(signals=False) if interrupts is None else interrupts.run(execution))
    return replace(ended, warning=" ".join(filter(None, [ended.warning, *map(note_text, notes)])))


def _print_interrupt(event: Interrupted) -> None:
    text = EventText().text(event)
    if text and sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


@contextlib.contextmanager
def ending_commands(interrupts: GuestInterrupts) -> Iterator[None]:
    """Ends the commands that were started in the block, and not waited for, if the block is cancelled or interrupted.

    A thread that waits for such a command would hold up the end of its event loop.
    """
    before = child_processes()
    try:
        yield
    except (asyncio.CancelledError, KeyboardInterrupt):
        end_child_processes(before)
        raise
    if interrupts.count:
        end_child_processes(before)


def end_child_processes(spared: Collection[int] = ()) -> None:
    """Ends the commands that tasks have started and not waited for; `spared` are processes that are none of them."""
    for child in child_processes().difference(spared):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)
