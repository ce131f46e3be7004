"""Asking a model until it answers: slots, pace, retries, and the gate that an interrupt closes.

A rate limit (429) is waited out and never counts against anything. A passing failure is tried again with growing,
jittered pauses, for as long as the deadline allows: a model that has given nobody a reply for that long is tried once
more by each call that still comes, and no longer waited for. What trying again cannot cure ends the call at once. A
model that refuses the key or is not there is not asked again by others in this session.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from holdfast.engine.clock import Clock
from holdfast.engine.pace import Pace
from holdfast.errors import RunHeld
from holdfast.models.errors import ModelError, PassingError, RateLimited, Rejected
from holdfast.models.message import Reply, Request
from holdfast.models.provider import Provider
from holdfast.spec import ModelSpec

_FIRST_PAUSE = 0.5
_LEASE_SECONDS = 0.2
_LONGEST_PAUSE = 60.0
_LONGEST_WISH = 3600.0
_NO_KEY = 401
_HOPELESS = {_NO_KEY, 403, 404}


@dataclass
class CallCounts:
    """What was sent in this session."""

    made: int = 0
    replayed: int = 0
    retries: int = 0
    rate_limited: int = 0


class TimeLimit:
    """The seconds that a trial may take, of which waiting for slots, for a pace or in a pause takes none."""

    def __init__(self, timeout: asyncio.Timeout, seconds: float) -> None:
        self._timeout, self._left = timeout, seconds
        self._running_since: float | None = None
        self.let_run(on=True)

    def let_run(self, *, on: bool) -> None:
        """Lets time pass, or stops it."""
        now = asyncio.get_running_loop().time()
        if on and self._running_since is None:
            self._running_since = now
            self._timeout.reschedule(now + self._left)
        elif not on and self._running_since is not None:
            self._left -= now - self._running_since
            self._running_since = None
            self._timeout.reschedule(None)


class Activity:
    """What one trial is doing: it is idle when nothing of it is worth waiting for, once the session is to end.

    A trial that was running code of the task's own when a signal came is disturbed: the signal may have ended a command
    of that code, so nothing that the code comes to counts any more.
    """

    __slots__ = ("acting", "busy", "is_disturbed", "on_idle", "parked", "time_limit")

    def __init__(self, on_idle: Callable[[], None]) -> None:
        self.acting = self.busy = self.parked = 0
        self.is_disturbed = False
        self.on_idle = on_idle
        self.time_limit: TimeLimit | None = None

    @property
    def is_idle(self) -> bool:
        return self.busy == 0 and (self.parked > 0 or self.is_disturbed)

    def disturb(self) -> None:
        """A signal has come."""
        if self.acting or not (self.busy or self.parked):
            self.is_disturbed = True

    @contextlib.contextmanager
    def foreign(self) -> Iterator[None]:
        """While a step or a scorer of the task's own runs."""
        self.acting += 1
        self._keep_time()
        try:
            yield
        finally:
            self.acting -= 1
            self._keep_time()

    def _keep_time(self) -> None:
        """Time counts while the trial does anything; not while it only waits for leave to go on."""
        if self.time_limit is not None:
            self.time_limit.let_run(on=not self.parked or bool(self.busy or self.acting))

    @contextlib.contextmanager
    def parking(self) -> Iterator[None]:
        """While the trial waits for a slot, for its turn, or for a pause to end."""
        self.parked += 1
        self._keep_time()
        if self.is_idle:
            self.on_idle()
        try:
            yield
        finally:
            self.parked -= 1
            self._keep_time()

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """While a call is under way, or a record is being made durable."""
        self.busy += 1
        self._keep_time()
        try:
            yield
        finally:
            self.busy -= 1
            self._keep_time()
            if self.is_idle:
                self.on_idle()


class Gate:
    """Open while the session works; once closed, nobody who comes to it goes on."""

    def __init__(self, is_held: Callable[[], bool] = lambda: True) -> None:
        self.is_closed = False
        self._is_held = is_held

    def close(self) -> None:
        self.is_closed = True

    @property
    def is_open(self) -> bool:
        """Whether work may begin now: the session works, and holds the run."""
        return not self.is_closed and self._is_held()

    async def passes(self, activity: Activity) -> None:
        """Returns at once while the gate is open; never once it is closed: the session is about to end.

        While the run's lease is not held, it waits for the lease to be renewed.

        Raises:
            RunHeld: the lease is lost.
        """
        while not self.is_open:
            if self.is_closed:
                await self.stays(activity)
            with activity.parking():
                await asyncio.sleep(_LEASE_SECONDS)

    async def stays(self, activity: Activity) -> NoReturn:
        """Never returns: whoever waits here is owed, and ends with the session."""
        with activity.parking():
            while True:
                await asyncio.get_running_loop().create_future()


@dataclass
class Model:
    """A model of the eval, ready to be asked."""

    name: str
    spec: ModelSpec
    provider: Provider
    pace: Pace
    slots: asyncio.Semaphore | None
    refusal: ModelError | None = None
    """Why this model is not asked again in this session, if it is not."""

    failing_since: float | None = None
    """Since when it has failed whoever asked; None once it has answered anybody."""

    has_replied: bool = False

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        price = self.spec.price
        if price is None:
            return 0.0
        return (input_tokens * price.input + output_tokens * price.output) / 1e6


class Caller:
    """Makes calls for all trials of a session."""

    def __init__(self, clock: Clock, gate: Gate, counts: CallCounts, rng: random.Random) -> None:
        self._clock, self._gate, self._counts, self._rng = clock, gate, counts, rng

    async def call(
        self, model: Model, request: Request, deadline_seconds: float, activity: Activity, sent: Callable[[], None]
    ) -> tuple[Reply, int]:
        """The model's reply and how many tries it took; `sent` is called right before the first request goes out.

        Raises:
            ModelError: no reply could be had.
        """
        failing_since: float | None = None
        tries = 0
        while True:
            await self._admit(model, activity)
            try:
                tries += 1
                return await self._send(model, request, activity, sent if tries == 1 else None), tries
            except RateLimited as error:
                failing_since = model.failing_since = None
                self._counts.rate_limited += 1
                pause = self._pause(error, tries)
            except PassingError as error:
                now = self._clock.monotonic()
                failing_since = now if failing_since is None else failing_since
                model.failing_since = now if model.failing_since is None else model.failing_since
                pause = self._pause(error, tries)
                if now + pause - min(failing_since, model.failing_since) > deadline_seconds:
                    raise
            except Rejected as error:
                # Where it has replied to others, only a refused key is more than a matter of this one request.
                if error.status in _HOPELESS and (error.status == _NO_KEY or not model.has_replied):
                    model.refusal = error
                raise
            finally:
                if model.slots is not None:
                    model.slots.release()
            self._counts.retries += 1
            with activity.parking():
                await self._clock.sleep(pause)

    @property
    def is_ending(self) -> bool:
        """Whether the session is about to end."""
        return self._gate.is_closed

    async def pass_gate(self, activity: Activity) -> None:
        """Returns while new work may begin; never once the session is about to end."""
        await self._gate.passes(activity)

    async def stay_if_disturbed(self, activity: Activity) -> None:
        """Returns unless a signal came while code of the task's own was running, whose outcome then counts nothing."""
        if activity.is_disturbed:
            await self._gate.stays(activity)

    async def _admit(self, model: Model, activity: Activity) -> None:
        """Returns with the model's slot held, when one more request may be sent."""
        if model.slots is None and model.pace.is_free and self._gate.is_open:
            return
        with activity.parking():
            if model.slots is not None:
                await model.slots.acquire()
            try:
                await model.pace.request()
                await self._gate.passes(activity)
            except (asyncio.CancelledError, RunHeld):
                if model.slots is not None:
                    model.slots.release()
                raise

    async def _send(self, model: Model, request: Request, activity: Activity, sent: Callable[[], None] | None) -> Reply:
        if model.refusal is not None:
            # Without its traceback, which would grow with everyone that it is raised to.
            raise model.refusal.with_traceback(None)
        if sent is not None:
            sent()
        self._counts.made += 1
        with activity.working():
            reply = await model.provider.send(request)
        model.failing_since, model.has_replied = None, True
        if reply.usage is not None:
            model.pace.used(reply.usage.input_tokens + reply.usage.output_tokens)
        return reply

    def _pause(self, error: PassingError, tries: int) -> float:
        """What the server wishes, or a pause that doubles; jittered, so that many do not come back at once."""
        if error.retry_after is not None:
            return min(error.retry_after, _LONGEST_WISH) * self._rng.uniform(1.0, 1.1)
        return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tries - 1, 10)) * self._rng.uniform(0.5, 1.0)
