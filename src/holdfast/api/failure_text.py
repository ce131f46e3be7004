"""A failure in one line: what was raised, its message, and the line of the task's own code that it comes from."""

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
    own = [frame for frame in _FRAME.findall(failure.traceback) if is_local(frame[0])]
    return f"{said} ({Path(own[-1][0]).name}:{own[-1][1]})" if own else said
