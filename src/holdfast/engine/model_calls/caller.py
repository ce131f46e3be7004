"""Asking a model until it answers: slots, pace, retries, and the gate that an interrupt closes.

A rate limit (429) is waited out and never counts against anything. A passing failure is tried again with growing,
jittered pauses, for as long as the deadline allows: a model that has given nobody a reply for that long is tried once
more by each call that still comes, and no longer waited for. What trying again cannot cure ends the call at once. A
model that refuses the key or is not there is not asked again by others in this session.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.engine.model_calls.rate_limit import Booking, RateLimiter
from holdfast.engine.model_calls.served_model import OtherModel
from holdfast.engine.scheduling.admission import Activity, AdmissionGate
from holdfast.engine.scheduling.clock import Clock
from holdfast.engine.scheduling.scheduler import SlotGrant
from holdfast.engine.scheduling.slots import Limit, SlotPool
from holdfast.errors import RunHeld
from holdfast.models.errors import PassingError, RateLimited, Rejected
from holdfast.models.message import Reply, Request, Usage
from holdfast.models.provider import Provider
from holdfast.spec import ModelSpec

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 60.0
_LONGEST_WISH = 3600.0
_NO_KEY = 401
_HOPELESS = {_NO_KEY, 403, 404}
_TELL_SECONDS = 60.0
_GIVE_A_REPLY = "It has to return a Reply, with its text, as `holdfast.Reply` describes it."


@dataclass
class CallCounts:
    """What was sent in this session."""

    made: int = 0
    replayed: int = 0
    retries: int = 0
    rate_limited: int = 0


class ModelClosed(Rejected):
    """The model refused the key or is not there, and is not asked again in this session."""

    kind = "closed"
    usage: Usage | None = None
    """What a reply took that could not be used."""


@dataclass
class Model:
    """A model of the eval, ready to be asked."""

    name: str
    spec: ModelSpec
    provider: Provider
    pace: RateLimiter
    level: Limit
    """How many calls of it may be under way at once."""
    refusal: str = ""
    """Why this model is not asked again in this session, if it is not."""

    failing_since: float | None = None
    """Since when it has failed whoever asked; None once it has answered anybody."""

    has_replied: bool = False

    told_at: float | None = None
    """When it was last said that it has trouble answering."""

    expected: str = ""
    """Which model the server has to say it is, where it is reached at another address than before."""

    is_other: bool = False

    def fail(self, now: float) -> float:
        """Notes a failure; since when it has failed whoever asked."""
        self.failing_since = now if self.failing_since is None else self.failing_since
        return self.failing_since

    def cost_of(self, usage: Usage | None) -> float:
        price = self.spec.price
        if price is None or usage is None:
            return 0.0
        return (usage.input_tokens * price.input + usage.output_tokens * price.output) / 1e6


class _Patience:
    """How long a call may go on failing, from its first failure; what a rate limit takes is not counted."""

    def __init__(self, seconds: float) -> None:
        self._left, self._has_failed = seconds, False

    def allows(self, pause: float, tried: float) -> bool:
        """Whether there is time for a pause after a try of so many seconds has failed."""
        self._left -= (tried if self._has_failed else 0.0) + pause
        self._has_failed = True
        return self._left >= 0


class Caller:
    """Makes calls for all trials of a session."""

    def __init__(
        self,
        clock: Clock,
        gate: AdmissionGate,
        counts: CallCounts,
        rng: random.Random,
        slots: SlotPool,
        on_refused: Callable[[Model], None] = lambda _: None,
        on_trouble: Callable[[Model, str], None] = lambda _model, _why: None,
    ) -> None:
        self._clock, self._gate, self._counts, self._rng = clock, gate, counts, rng
        self._slots, self._on_refused, self._on_trouble = slots, on_refused, on_trouble

    async def call(
        self,
        model: Model,
        request: Request,
        deadline_seconds: float,
        activity: Activity,
        ticket: SlotGrant,
        sent: Callable[[], None],
    ) -> tuple[Reply, int]:
        """The model's reply and how many tries it took; `sent` is called right before the first request goes out.

        Raises:
            ModelError: no reply could be had.
        """
        patience, tries = _Patience(deadline_seconds), 0
        while True:
            booking = await self._admit(model, request, activity, ticket)
            tries, began = tries + 1, self._clock.monotonic()
            try:
                return await self._send(model, request, booking, activity, sent if tries == 1 else None), tries
            except RateLimited as error:
                model.failing_since = None
                self._counts.rate_limited += 1
                pause = self._pause(error, tries)
                self._tell_trouble(model, error)
            except PassingError as error:
                now, pause = self._clock.monotonic(), self._pause(error, tries)
                is_dead = now + pause - model.fail(now) > deadline_seconds
                if is_dead or not patience.allows(pause, now - began):
                    raise
                self._tell_trouble(model, error)
            except Rejected as error:
                # Where it has replied to others, only a refused key is more than a matter of this one request.
                is_hopeless = error.status in _HOPELESS and (not model.has_replied or error.status == _NO_KEY)
                if not is_hopeless and not isinstance(error, OtherModel):
                    raise
                self._close(model, error)
                raise closed(model, getattr(error, "usage", None)) from None
            finally:
                self._give(model)
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

    async def _admit(self, model: Model, request: Request, activity: Activity, ticket: SlotGrant) -> Booking | None:
        """Returns with the model's slot held, when one more request may be sent."""
        if model.level.limit is None and model.pace.is_free and self._gate.is_open:
            return None
        with activity.parking():
            if model.level.limit is not None and not ticket.hand_over(model.level):
                await self._slots.take((model.level,))
            try:
                booking = None if model.pace.is_free else await model.pace.request(request)
                await self._gate.passes(activity)
            except (asyncio.CancelledError, RunHeld):
                self._give(model)
                raise
            return booking

    def _give(self, model: Model) -> None:
        if model.level.limit is not None:
            self._slots.give((model.level,))

    async def _send(
        self,
        model: Model,
        request: Request,
        booking: Booking | None,
        activity: Activity,
        sent: Callable[[], None] | None,
    ) -> Reply:
        if model.refusal:
            raise closed(model)
        if sent is not None:
            sent()
        self._counts.made += 1
        reply: Reply | None = None
        try:
            with activity.working():
                reply = _checked(model, await model.provider.send(request))
        finally:
            if reply is None or reply.usage is not None:
                model.pace.settle(booking, reply.usage if reply else None)
        self._check_served(model, reply)
        model.failing_since, model.has_replied = None, True
        return reply

    def _check_served(self, model: Model, reply: Reply) -> None:
        """Holds the first reply from a new address against those on record."""
        if not model.expected or not reply.model:
            return
        if reply.model != model.expected:
            model.is_other = True
            raise OtherModel(model.name, model.spec, model.expected, reply)
        model.expected = ""

    def _close(self, model: Model, error: Rejected) -> None:
        if not model.refusal:
            model.refusal = str(error)
            self._on_refused(model)

    def _tell_trouble(self, model: Model, error: PassingError) -> None:
        """Says why a model is asked again, now and then: whoever watches wants to know what is being waited for."""
        now = self._clock.monotonic()
        if model.told_at is None or now - model.told_at >= _TELL_SECONDS:
            model.told_at = now
            self._on_trouble(model, error.message)

    def _pause(self, error: PassingError, tries: int) -> float:
        """What the server wishes, or a pause that doubles; jittered, so that many do not come back at once."""
        if error.retry_after is not None and error.retry_after > 0:
            return min(error.retry_after, _LONGEST_WISH) * self._rng.uniform(1.0, 1.1)
        return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tries - 1, 10)) * self._rng.uniform(0.5, 1.0)


def _checked(model: Model, reply: object) -> Reply:
    """What a provider gave back, which may be anybody's."""
    if not isinstance(reply, Reply):
        raise Rejected(f"The provider of {model.name} returned {type(reply).__name__}.", hint=_GIVE_A_REPLY)
    texts = (reply.text, reply.finish, reply.model, reply.id, reply.reasoning)
    is_text = set(map(type, texts)) == {str} or all(isinstance(text, str) for text in texts)
    if not is_text or not (reply.usage is None or isinstance(reply.usage, Usage)):
        raise Rejected(
            f"The provider of {model.name} returned a reply with a field of a wrong type.", hint=_GIVE_A_REPLY
        )
    return reply


def closed(model: Model, usage: Usage | None = None) -> ModelClosed:
    """The error of everyone who comes to a model that is not asked any more."""
    error = ModelClosed(f"{model.name} is not asked again in this session. {model.refusal}")
    error.usage = usage
    return error
