"""How `evaluate` shows progress: in a terminal as the command line does, in a notebook in place, and nowhere else.

A program that calls `evaluate` in a test or a pipe gets nothing printed unless it asks for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from holdfast.api.evaluation.notebook import NotebookDisplay, is_notebook
from holdfast.api.event_text import EventText
from holdfast.engine.execution import Execution
from holdfast.engine.opening.new_run import StartedSession
from holdfast.event_type import Event

Showing = Callable[[Execution], AbstractAsyncContextManager[None]]
"""Shows the progress of a session, and what happens in it, while the block runs."""


class Display(Protocol):
    """Whatever shows progress, and messages beside it."""

    def tell(self, message: str) -> None:
        """Shows a message in a moment."""

    def showing(self) -> AbstractAsyncContextManager[None]:
        """Shows progress while the block runs."""


def choose_showing(started: StartedSession, *, asked: bool | None) -> Showing | None:
    """How the progress of a session is shown; `asked` decides if given, else the eval and where this runs."""
    wanted = started.prepared.spec.runner.show_progress if asked is None else asked
    if not wanted:
        return None
    in_notebook = is_notebook()
    if not (asked or in_notebook or (sys.stderr is not None and sys.stderr.isatty())):
        return None
    return lambda execution: _showing(execution, started, in_notebook=in_notebook)


def _showing(execution: Execution, started: StartedSession, *, in_notebook: bool) -> AbstractAsyncContextManager[None]:
    display = _make_display(execution, started, in_notebook=in_notebook)
    sentences = EventText()

    def observe(event: Event) -> None:
        if text := sentences.text(event):
            display.tell(text)

    execution.observe(observe, *sentences.kinds)
    return display.showing()


def _make_display(execution: Execution, started: StartedSession, *, in_notebook: bool) -> Display:
    runner = started.prepared.spec.runner
    interval = runner.progress_interval
    if in_notebook:
        return NotebookDisplay(execution.progress, started.place, interval=interval)
    # Needed in a terminal only.
    from holdfast.api.progress.display import ProgressDisplay  # noqa: PLC0415

    display = ProgressDisplay(execution.progress, interval=interval, log_interval=runner.log_interval)
    display.tell(f"Run {started.place}")
    return display
