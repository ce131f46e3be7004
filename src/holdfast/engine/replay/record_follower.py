"""Following a record: what a solver asks for that is not recorded is compared, and never done.

A branch that asks for such a thing waits there for good, and the others continue. So a branch that the solver gives up,
as it did before, does not count; and where a trial was killed, every branch comes to the end of its own record.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, NoReturn

from holdfast.engine.replay.request_diff import request_lines, value_lines
from holdfast.engine.trials.history import AttemptState
from holdfast.models.errors import Blocked, ModelError, RateLimited, Rejected, Unavailable
from holdfast.models.message import Request
from holdfast.run.core.records import Failure

_CANCELLED = "cancelled"
_MODEL_ERRORS: dict[str, type[ModelError]] = {
    error.kind: error for error in (ModelError, RateLimited, Unavailable, Rejected, Blocked)
}


class MissingRecord(NamedTuple):
    """Something that the solver asked for and that is not recorded."""

    key: str
    is_call: bool
    lines: list[str]
    """What was asked, for people."""
    task: asyncio.Task[Any] | None
    """Who asked."""


class RecordFollower:
    """Takes what a solver asks for and its record does not have."""

    def __init__(self, state: AttemptState) -> None:
        self._failures = {step.step: step.error for step in state.steps if step.error and not step.has_only_started}
        self.missing: list[MissingRecord] = []

    async def miss_call(self, key: str, request: Request) -> NoReturn:
        """A call of a model: one that failed fails again, and any other is not made.

        Raises:
            ModelError: it failed, by the record.
        """
        failure = self._failures.get(key)
        if failure is not None and failure.kind != _CANCELLED:
            raise _model_error(failure)
        if failure is None:
            self._note(key, request_lines(request), is_call=True)
        await _wait_for_good()

    async def miss_step(self, key: str, name: str, arguments: Any) -> NoReturn:  # noqa: ARG002 - the key has the name
        """A step: its function is not run."""
        self._note(key, value_lines(arguments), is_call=False)
        await _wait_for_good()

    def _note(self, key: str, lines: list[str], *, is_call: bool) -> None:
        self.missing.append(MissingRecord(key, is_call, lines, asyncio.current_task()))


def _model_error(failure: Failure) -> ModelError:
    return _MODEL_ERRORS.get(failure.kind, ModelError)(failure.message)


async def _wait_for_good() -> NoReturn:
    while True:
        await asyncio.get_running_loop().create_future()
