"""A failure in one line, and which failures are equal: by the line of the task's own code that they come from."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.run.core.records import Failure
from holdfast.tasks.source.origin import is_local

_FRAME = re.compile(r'^  File "(.+)", line (\d+)', re.MULTILINE)


def failure_line(failure: Failure) -> str:
    """What a person needs to find the mistake; what a model or a limit did has no place in the code."""
    if not failure.traceback:
        return failure.message
    said = failure.message if failure.message == failure.kind else f"{failure.kind}: {failure.message}"
    own = _own_frame(failure.traceback)
    return f"{said} ({Path(own[0]).name}:{own[1]})" if own else said


def error_identity(failure: Failure) -> str:
    """What equal errors have in common: type and own line or, for those of models and agents, kind and message.

    Messages of a task's own errors often name the sample, so they are left out.
    """
    own = _own_frame(failure.traceback) if failure.traceback else None
    return f"{failure.kind} {own[0]}:{own[1]}" if own else f"{failure.kind}: {failure.message}"


def _own_frame(traceback: str) -> tuple[str, str] | None:
    """The file and the number of the last line of the person's own code."""
    own = [frame for frame in _FRAME.findall(traceback) if is_local(frame[0])]
    return own[-1] if own else None
