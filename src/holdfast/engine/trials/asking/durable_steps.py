"""Steps that are durable: functions of the user's with what they returned or raised, moments, and random numbers.

A step that is recorded is replayed; any other runs, and its outcome is durable before the solver sees it. One with
`on_interrupted="fail"` is recorded before it runs as well, so that after a kill nobody takes it for one that has not.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import sys
from collections.abc import Callable
from functools import partial
from random import Random, SystemRandom
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.engine.trials.asking.step_errors import (
    is_outage,
    record_error,
    remade_error,
    traceback_of,
    with_traceback,
)
from holdfast.engine.trials.asking.trial_account import TrialAccount
from holdfast.engine.trials.asking.trial_recorder import TrialRecorder
from holdfast.engine.trials.asking.user_code import run_user_code
from holdfast.engine.trials.error_boundary import Outcome, guard_call
from holdfast.engine.trials.scopes import Masked, Scope
from holdfast.engine.trials.steps import Steps, arguments_fingerprint, as_recorded, typed_result
from holdfast.engine.trials.trial_environment import TrialEnvironment
from holdfast.errors import StepInterrupted
from holdfast.models.redaction import redact, redact_json
from holdfast.models.role import ModelRole
from holdfast.run.core.records import STARTED, Failure, RaisedError, StepRecord
from holdfast.sampling.place import derive_seed

if TYPE_CHECKING:
    from uuid import UUID

AGAIN, FAIL = "again", "fail"
CHOICES = AGAIN, FAIL
"""What may become of a step that was interrupted half-way."""
_STARTED = Failure(STARTED, "It has started; no outcome is recorded with this.")
_NO_ARGUMENTS = arguments_fingerprint([])


class StepCall(NamedTuple):
    """A function that a step is to call."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    runs_once: bool
    """Whether it must not run again after it was interrupted."""

    def recorded_arguments(self) -> Any:
        """What is in its record and its key: a list, or a map where there are keyword arguments.

        Raises:
            UsageError: they cannot be recorded.
        """
        asked = [*self.args] if not self.kwargs else {"args": [*self.args], "kwargs": self.kwargs}
        return as_recorded(self.name, "arguments", asked)

    def bound(self) -> Callable[..., Any]:
        """The function with its keyword arguments."""
        return partial(self.function, **self.kwargs) if self.kwargs else self.function


def takes_interruption(function: Callable[..., Any]) -> bool:
    """Whether a function has a parameter that is called as the option of a step."""
    if isinstance(function, partial) and "on_interrupted" in function.keywords:
        return False
    found = guard_call(inspect.signature, function).value
    return isinstance(found, inspect.Signature) and "on_interrupted" in found.parameters


class _Before(NamedTuple):
    """What was the case before a function ran."""

    handled: BaseException | None
    """What the solver is handling: no part of what the function does."""
    task: asyncio.Task[Any] | None
    cancelled: int

    @classmethod
    def now(cls) -> _Before:
        task = asyncio.current_task()
        return cls(sys.exception(), task, task.cancelling() if task is not None else 0)

    def is_cancelled_since(self) -> bool:
        """Whether what the function raised may be its answer to being cancelled."""
        return self.task is not None and self.task.cancelling() > self.cancelled


class DurableSteps:
    """The steps of one attempt at a trial, or of one attempt of a score slot."""

    __slots__ = ("_account", "_environment", "_recorder", "_role", "_steps")

    def __init__(
        self,
        environment: TrialEnvironment,
        recorder: TrialRecorder,
        account: TrialAccount,
        steps: Steps,
        role: ModelRole,
    ) -> None:
        self._environment, self._recorder, self._account = environment, recorder, account
        self._steps, self._role = steps, role

    # Functions.

    async def run(self, scope: Scope, call: StepCall) -> Any:
        """What the function returned, now or before; what it raised is raised."""
        step, trace = await self.outcome(scope, call)
        if step.raised is not None:
            # Without the exceptions behind it: they are not on record, and so a solver must not see them now.
            raise with_traceback(remade_error(call.name, step.raised), trace) from None
        return typed_result(step.result, call.function)

    async def outcome(self, scope: Scope, call: StepCall) -> tuple[StepRecord, TracebackType | None]:
        """The record of what the function returned or raised, now or before, and the traceback if it raised now."""
        # The function gets what it is given; its key and its record have no keys of the environment in them.
        asked = redact_json(call.recorded_arguments())
        call = call._replace(name=redact(call.name))
        key = scope.key(f"step/{call.name}", arguments_fingerprint(asked))
        step, trace = self._replayed(scope, key), None
        if step is None:
            if call.runs_once and self._steps.has_started(scope, key):
                error = StepInterrupted(call.name)
                self._account.note_interrupted(error)
                raise error
            step, trace = await self._run_function(key, call, asked)
        return step, trace

    async def _run_function(self, key: str, call: StepCall, asked: Any) -> tuple[StepRecord, TracebackType | None]:
        """The record of the step, which is durable, and the traceback of what it raised."""
        environment, clock, before = self._environment, self._environment.clock, _Before.now()
        if environment.record_only is not None:
            await environment.record_only.miss_step(key, call.name, asked)
        at, began = clock.wall(), clock.monotonic()

        async def on_start() -> None:
            await self._recorder.keep(self._record(key, call.name, request=asked, at=at, error=_STARTED))

        masked, start = Masked(f"the step {call.name!r}"), on_start if call.runs_once else None
        outcome = await run_user_code(environment, self._recorder.activity, call.bound(), call.args, masked, start)
        result, error = self._checked(call.name, outcome, before)
        raised = None if error is None else record_error(error, environment.modules)
        seconds = clock.monotonic() - began
        step = self._record(key, call.name, request=asked, result=result, raised=raised, at=at, seconds=seconds)
        await self._recorder.keep(step)
        return step, None if error is None else traceback_of(error)

    def _checked(self, name: str, outcome: Outcome, before: _Before) -> tuple[Any, BaseException | None]:
        """The result as it is recorded, or the exception that is; an outage is raised, and not recorded."""
        if outcome.error is not None and (before.is_cancelled_since() or is_outage(outcome.error, before.handled)):
            outcome.result()
        # What no coroutine can raise has become another error; a result that cannot be recorded is one as well.
        checked = guard_call(lambda: redact_json(as_recorded(name, "result", outcome.result())))
        return checked.value, checked.error

    def _replayed(self, scope: Scope, key: str) -> StepRecord | None:
        step = self._steps.replay(scope, key)
        if step is None:
            return None
        self._account.replayed += 1
        if step.step != key:
            loan = msgspec.structs.replace(step, step=key, lender=step.step, about=self._recorder.about())
            self._environment.sink.put(loan)
        self._recorder.report(step, replayed=True)
        return step

    def _record(
        self,
        key: str,
        name: str,
        *,
        request: Any = None,
        result: Any = None,
        raised: RaisedError | None = None,
        error: Failure | None = None,
        at: float,
        seconds: float = 0.0,
    ) -> StepRecord:
        return StepRecord(
            trial=self._recorder.key,
            attempt=self._recorder.attempt,
            step=key,
            name=name,
            role=self._role,
            request=request,
            result=result,
            at=at,
            seconds=seconds,
            error=error,
            raised=raised,
            about=self._recorder.about(),
        )

    # Time and chance.

    async def now(self, scope: Scope) -> dt.datetime:
        """The time, in UTC."""
        clock = self._environment.clock
        drawn = await self._draw(scope, "now", lambda _: dt.datetime.fromtimestamp(clock.wall(), dt.UTC).isoformat())
        return dt.datetime.fromisoformat(drawn)

    async def random(self, scope: Scope) -> float:
        """A random number from 0 up to 1."""
        return float(await self._draw(scope, "random", lambda key: self._source(key).random()))

    async def uuid(self, scope: Scope) -> UUID:
        """A random UUID."""
        from uuid import UUID  # noqa: PLC0415 - most solvers draw none

        def make(key: str) -> str:
            return str(UUID(int=self._source(key).getrandbits(128), version=4))

        return UUID(await self._draw(scope, "uuid", make))

    async def _draw(self, scope: Scope, name: str, make: Callable[[str], Any]) -> Any:
        """A value that is durable before anybody sees it: it may be sent somewhere that has no record of it."""
        key = scope.key(name, _NO_ARGUMENTS)
        step = self._replayed(scope, key)
        if step is None:
            if self._environment.record_only is not None:
                await self._environment.record_only.miss_step(key, name, [])
            step = self._record(key, name, result=make(key), at=self._environment.clock.wall())
            await self._recorder.keep(step)
        return step.result

    def _source(self, key: str) -> Random:
        """Where chance comes from: of a deterministic eval, from the place in the trial."""
        if not self._environment.deterministic:
            return SystemRandom()
        recorder = self._recorder
        return Random(derive_seed(recorder.seed, recorder.attempt, key))  # noqa: S311 - to be repeatable
