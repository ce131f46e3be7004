"""Admission: the one place that every call passes before it is sent, and other work of a trial before it starts.

It knows the limits, the reasons for which nothing new may start (holds), the calls in flight with their tokens, and
the mark. An interrupt closes it for good; a lease in doubt is a hold until the lease is renewed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import NoReturn

from holdfast.engine.events import ADMISSION, LimitChanged
from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.scheduling.admission_mark import AdmissionMark
from holdfast.engine.scheduling.call_tally import CallTally, Flight, TrialGroup
from holdfast.engine.scheduling.capacity import CapacityGrant, CapacityPool
from holdfast.engine.scheduling.concurrency_limits import EvalLimits, Limit
from holdfast.engine.scheduling.holds import ALL_MODELS, Hold, Holds
from holdfast.errors import HoldfastError
from holdfast.models.message import Usage
from holdfast.spec import EvalSpec

DRAIN, LEASE, FIRST_REPLY = "drain", "lease", "first reply"
"""Why nothing new starts: the session is about to end; its lease is in doubt; a model's first call is out alone."""
_LEASE_SECONDS = 0.2


class Admission:
    """Who may start what, and when."""

    def __init__(
        self,
        limits: EvalLimits,
        capacity: CapacityPool,
        holds: Holds,
        mark: AdmissionMark,
        is_held: Callable[[], bool] = lambda: True,
        on_change: Callable[[LimitChanged], None] = lambda _event: None,
        lease_text: Callable[[], str] = str,
    ) -> None:
        """`is_held` says whether the lease is held, and raises once it is lost; `lease_text` why it is not, for people;
        `on_change` hears of limits and holds.

        The closing of admission is reported by the code that closes it.
        """
        self._limits, self._capacity, self._holds, self._mark = limits, capacity, holds, mark
        self._is_held, self._on_change, self._lease_text = is_held, on_change, lease_text
        self.is_closed = False
        self.tally = CallTally()

    # Limits.

    def set_limit(self, name: str, maximum: int | None) -> None:
        """Changes a limit while it is in use; a higher one lets in who waits at once.

        Raises:
            UsageError: there is no limit of that name, or the maximum is not a whole number from 1 up.
        """
        self._limits.set_maximum(name, maximum)
        self._capacity.serve()
        self._on_change(LimitChanged(name, maximum, "set"))

    def apply(self, spec: EvalSpec) -> None:
        """Sets the limits of the run and its tasks as the eval has them now."""
        self._limits.apply(spec)
        self._capacity.serve()

    # Holds.

    def hold(self, reason: str, model: str = ALL_MODELS) -> None:
        """Nothing new starts until `release` with the same reason: no call of this model, or nothing at all."""
        self._place(reason, model)

    def _place(self, reason: str, model: str = ALL_MODELS) -> bool:
        """Places a hold; whether it is new."""
        is_new = self._holds.place(reason, model)
        if is_new:
            detail = self._lease_text() if reason == LEASE else ""
            self._on_change(LimitChanged(ADMISSION, 0, reason, model, detail=detail))
        return is_new

    def release(self, reason: str, model: str = ALL_MODELS) -> None:
        """Ends a hold. What an interrupt closed stays closed."""
        if reason != DRAIN and self._holds.release(reason, model):
            value = 0 if self._holds.stop(model) else None
            self._on_change(LimitChanged(ADMISSION, value, reason, model, lifted=True))

    def holds(self) -> list[Hold]:
        """Why nothing new starts now, and since when; empty while it does."""
        return self._holds.in_force()

    def close(self) -> None:
        """Nothing new starts any more: the session is about to end. May be called by the handler of a signal."""
        self.is_closed = True
        # Without an event: this may run inside a signal handler, between two bytecodes of any code.
        self._holds.place(DRAIN)

    def is_open(self, model: str = ALL_MODELS) -> bool:
        """Whether work may start now that calls this model, or none.

        Raises:
            RunHeld: the lease is lost.
        """
        if self._holds.stop(model):
            return False
        if self._is_held():
            return True
        self.note_lease(is_held=False)
        return False

    def note_lease(self, *, is_held: bool) -> None:
        """The lease is in doubt, and nothing starts until it is renewed; or it is renewed."""
        if is_held:
            self.release(LEASE)
        elif self._place(LEASE):
            self._check_lease_later()

    def _check_lease_later(self) -> None:
        asyncio.get_running_loop().call_later(_LEASE_SECONDS, self._check_lease)

    def _check_lease(self) -> None:
        """Ends the hold once the lease is renewed; also when it is lost, which whoever waits finds out then."""
        with contextlib.suppress(HoldfastError):
            if self._is_held():
                self.release(LEASE)
            elif not self.is_closed:
                self._check_lease_later()
                return
        self._holds.release(LEASE)

    async def wait_until_open(self, activity: TrialActivity, model: str = ALL_MODELS) -> None:
        """Returns at once while it is open, or when the last hold ends; never once it is closed.

        Raises:
            RunHeld: the lease is lost.
        """
        if self.is_open(model):
            return
        with activity.waiting():
            while not self.is_open(model):
                await self._holds.changed()

    async def block_if_interrupted(self, activity: TrialActivity) -> None:
        """Returns unless a signal came while the task's own code was running, whose outcome then does not count."""
        if activity.code_was_interrupted:
            await self.block_forever(activity)

    async def block_forever(self, activity: TrialActivity) -> NoReturn:
        """Never returns: the trial that waits here stays unfinished, and ends with the session."""
        with activity.waiting():
            while True:
                await asyncio.get_running_loop().create_future()

    # Calls.

    def go_alone(self, flight: Flight, model: str) -> None:
        """Lets no other call of the model be sent until `end_alone`.

        Called when the call is admitted: one that still had to wait for capacity could wait for those that wait for it.
        """
        flight.is_alone = True
        self.hold(FIRST_REPLY, model)

    def end_alone(self, flight: Flight, model: str) -> None:
        """The request that went alone has ended, or was never sent."""
        flight.is_alone = False
        self.release(FIRST_REPLY, model)

    def flight(self, model: str, tokens: float, group: TrialGroup | None = None) -> Flight:
        """A call that is about to be made, how many tokens it is expected to take, and whose trial makes it."""
        tally = self.tally
        return Flight(model, tally.of(model), tokens, None if group is None else tally.of_group(group))

    def begin_nowait(self, flight: Flight, model: str, limit: Limit, grant: CapacityGrant) -> bool:
        """Lets one request of a call be sent, with capacity of the model's limit, if nothing prevents it."""
        if limit.is_exceeded or not self.is_open(model) or not (flight.is_in_flight or self._mark.enter_nowait()):
            return False
        is_admitted = grant.hand_over(limit) or self._capacity.acquire_nowait((limit,))
        if not is_admitted and not flight.is_in_flight:
            self._mark.leave()
        elif not flight.is_in_flight:
            flight.begin()
        return is_admitted

    async def begin(self, flight: Flight, model: str, limit: Limit) -> bool:
        """Counts a call as in flight, once the mark allows that; whether its request may go out now.

        It may not if the limit whose capacity it holds was lowered while it waited.
        """
        is_new = not flight.is_in_flight
        if is_new:
            if not self._mark.enter_nowait():
                await self._mark.enter()
            flight.begin()
        is_admitted = False
        try:
            # Checked again: a hold or a lower limit may have come while this call waited for the mark.
            is_admitted = self.is_open(model) and not limit.is_exceeded
        finally:
            if is_new and not is_admitted:
                self.cancel(flight)
        return is_admitted

    def cancel(self, flight: Flight) -> None:
        """Nothing of the call was sent."""
        flight.cancel()
        self._mark.leave()

    def end(self, flight: Flight, usage: Usage | None = None) -> None:
        """The end of a call is durable, or none of the session will be: it is no longer in flight."""
        if flight.is_in_flight:
            flight.end(usage)
            self._mark.leave()
