"""The one place where every exception of the user's code is caught: of solvers, scorers, steps and observers.

An exception becomes a value, with a traceback that begins in the user's own file, and its kind decides: after an error
of the task the attempt has failed; after an error of the infrastructure the trial stays unfinished.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from holdfast.errors import ReplyWithoutText, RunHeld, StepInterrupted, StorageFailure
from holdfast.models.errors import Blocked, ModelError
from holdfast.models.message import encodable
from holdfast.models.redaction import redact_error
from holdfast.run.core.records import Failure
from holdfast.tasks.answer import InvalidAnswer

T = TypeVar("T")
_MESSAGE_CHARACTERS = 2000
_TRACEBACK_CHARACTERS = 8000
_ENGINE = ("holdfast.engine.", "holdfast.sampling.", "holdfast.tasks.tools.")


class LimitReached(Exception):  # noqa: N818 - reads as a sentence where it is raised
    """A limit of the trial was reached: its time, tokens, cost or iterations, or one that its solver sets."""

    def __init__(self, limit: str) -> None:
        super().__init__(f"the trial reached its limit of {limit}")
        self.limit = limit


class Outcome:
    """How the user's code ended: with a value, or with an error of a kind."""

    __slots__ = ("error", "value")

    def __init__(self, value: object = None, error: BaseException | None = None) -> None:
        self.value, self.error = value, error

    def result(self) -> object:
        """The value, or the error, raised; a call of sys.exit is an error of the task like any other."""
        if isinstance(self.error, SystemExit | StopIteration | GeneratorExit):
            # Neither gets through a coroutine as it is.
            raise RuntimeError(f"the task raised {self.error!r}") from None  # noqa: TRY004 - no type error
        if self.error is not None:
            raise self.error
        return self.value

    @property
    def is_infrastructure(self) -> bool:
        return isinstance(_innermost(self.error), ModelError) and not self.is_blocked

    @property
    def is_blocked(self) -> bool:
        return isinstance(_innermost(self.error), Blocked)

    @property
    def is_worth_a_retry(self) -> bool:
        """Whether another attempt may follow. A reply of tool calls or a wrong type would only cost again; a step that
        may not run twice would run twice.
        """
        return not isinstance(_innermost(self.error), ReplyWithoutText | InvalidAnswer | StepInterrupted)

    def failure(self) -> Failure:
        """The error as it is recorded."""
        error = _innermost(self.error) or RuntimeError("unknown")
        if isinstance(error, ModelError | LimitReached):
            setting = getattr(error, "setting", "")
            return Failure(kind=getattr(error, "kind", "limit"), message=error_text(error), setting=setting)
        return Failure(
            kind=type(error).__name__,
            message=error_text(error),
            traceback=redacted_traceback(error),
        )


def _innermost(error: BaseException | None) -> BaseException | None:
    """The error itself, or, of a group, the one that decides: the first that is not the task's own."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [_innermost(item) for item in error.exceptions]
    return next((leaf for leaf in leaves if isinstance(leaf, ModelError | LimitReached)), leaves[0])


def error_text(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception as broken:  # noqa: BLE001 - an exception of the task's own may fail even at this
        text = f"its message cannot be read: {type(broken).__name__}"
    shown = _redacted(text or type(error).__name__)
    return shown if len(shown) <= _MESSAGE_CHARACTERS else f"{shown[:_MESSAGE_CHARACTERS]}…"


def _own_traceback(error: BaseException) -> str:
    """The traceback from where the task's own code begins; all of it, where none of that is in it."""
    first = error.__traceback__
    while first is not None and str(first.tb_frame.f_globals.get("__name__")).startswith(_ENGINE):
        first = first.tb_next
    return "".join(traceback.format_exception(type(error), error, first or error.__traceback__))


def redacted_traceback(error: BaseException) -> str:
    """The end of its traceback, as it is recorded."""
    return _redacted(_own_traceback(error))[-_TRACEBACK_CHARACTERS:]


def _redacted(text: str) -> str:
    text_without_keys: str = encodable(redact_error(text))
    return text_without_keys


async def guard(work: Awaitable[T]) -> Outcome:
    """Awaits the user's code; its exceptions come back as a value. Cancellation and the end of the journal pass
    through.

    Raises:
        StorageFailure: nothing more can be recorded.
        RunHeld: nothing more may be recorded.
    """
    task = asyncio.current_task()
    try:
        return Outcome(value=await work)
    except (StorageFailure, RunHeld, KeyboardInterrupt):
        raise
    except GeneratorExit as error:
        # Whoever closes a coroutine that was abandoned does so from outside of its task; what is raised in it is ours.
        if not _is_running(task):
            raise
        return Outcome(error=error)
    except asyncio.CancelledError as error:
        # A task may cancel its own parts and let that escape; only a cancelled session is ours to pass on.
        if task is None or task.cancelling():
            raise
        return Outcome(error=error)
    except BaseException as error:  # noqa: BLE001 - the boundary
        return Outcome(error=error)


def _is_running(task: asyncio.Task[Any] | None) -> bool:
    try:
        return task is not None and asyncio.current_task() is task
    except RuntimeError:
        return False  # no loop is running


def guard_call(function: Callable[..., object], *args: object) -> Outcome:
    """Calls the user's code, whatever it raises comes back as a value: nothing that it does ends the session."""
    try:
        return Outcome(value=function(*args))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the boundary
        return Outcome(error=error)


def guard_in_thread(function: Callable[..., object], *args: object) -> Outcome:
    """As `guard_call`, in a thread that is not the loop's: nothing passes through, for nobody else would notice."""
    try:
        return Outcome(value=function(*args))
    except BaseException as error:  # noqa: BLE001 - the boundary
        return Outcome(error=error)
