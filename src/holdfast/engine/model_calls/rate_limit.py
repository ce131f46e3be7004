"""The rate limit of a model: requests and tokens per minute, over any minute.

Both are spread evenly, with a burst of one second's worth, and requests are sent in the order they came. The tokens of
a reply are unknown beforehand: an estimate is reserved when the request is sent, and corrected when the reply arrives.
The limit can be changed at any moment.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

from holdfast.engine.model_calls.token_estimate import TokenEstimate
from holdfast.engine.scheduling.clock import Clock
from holdfast.models.message import Request, Usage
from holdfast.spec import RateLimit

_MINUTE = 60.0
# Rounding errors of floats must not cause endless tiny waits.
_MOMENT = 1e-9


class Reservation:
    """What was taken from a quota at a moment."""

    __slots__ = ("amount", "at", "is_counted")

    def __init__(self, at: float, amount: float) -> None:
        self.at, self.amount = at, amount
        self.is_counted = True


class MinuteQuota:
    """An amount per minute: refilled evenly, and not exceeded in any minute by what is reserved."""

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self._set(per_minute)
        self._available, self._at = self._burst, clock.monotonic()
        self._reserved: deque[Reservation] = deque()
        self._total = 0.0

    def _set(self, per_minute: int) -> None:
        self._limit, self._rate = per_minute, per_minute / _MINUTE
        self._burst = max(self._rate, 1.0)

    def change(self, per_minute: int, now: float) -> None:
        """Changes the amount per minute; reservations stay."""
        self._pass_time(now)
        self._set(per_minute)
        self._available = min(self._available, self._burst)

    def wait_seconds(self, amount: float, now: float) -> float:
        """How long until an amount can be reserved; 0 if it can be now. An amount beyond the limit is sent alone."""
        self._pass_time(now)
        short = min(amount, self._burst) - self._available
        evenly = short / self._rate if short > _MOMENT else 0.0
        return max(evenly, self._until_room(amount, now))

    def reserve(self, amount: float, now: float) -> Reservation:
        self._pass_time(now)
        reservation = Reservation(now, amount)
        self._reserved.append(reservation)
        self._total += amount
        self._available -= amount
        return reservation

    def correct(self, reservation: Reservation, amount: float) -> None:
        """Corrects a reservation to the actual amount."""
        difference, reservation.amount = amount - reservation.amount, amount
        self._available -= difference
        if reservation.is_counted:
            self._total += difference

    def _pass_time(self, now: float) -> None:
        self._available = min(self._burst, self._available + (now - self._at) * self._rate)
        self._at = now
        while self._reserved and now - self._reserved[0].at >= _MINUTE - _MOMENT:
            gone = self._reserved.popleft()
            gone.is_counted = False
            self._total -= gone.amount

    def _until_room(self, amount: float, now: float) -> float:
        excess, wait = self._total + amount - self._limit, 0.0
        for reservation in self._reserved:
            if excess <= _MOMENT:
                break
            excess -= reservation.amount
            wait = reservation.at + _MINUTE - now
        return wait


class RateLimiter:
    """Keeps the requests to one model within its rate limit; shared by all that use the model."""

    def __init__(self, limit: RateLimit | None, clock: Clock, estimate: TokenEstimate) -> None:
        self._clock, self._estimate = clock, estimate
        self._requests: MinuteQuota | None = None
        self._tokens: MinuteQuota | None = None
        self._turn, self._changed = asyncio.Lock(), asyncio.Event()
        self.set_limit(limit)

    def set_limit(self, limit: RateLimit | None) -> None:
        """Changes the limit; whoever waits for the one before waits for this one now."""
        self._requests = self._changed_quota(self._requests, limit.requests_per_minute if limit else None)
        self._tokens = self._changed_quota(self._tokens, limit.tokens_per_minute if limit else None)
        self._changed.set()

    def _changed_quota(self, quota: MinuteQuota | None, per_minute: int | None) -> MinuteQuota | None:
        if per_minute is None:
            return None
        if quota is None:
            return MinuteQuota(per_minute, self._clock)
        quota.change(per_minute, self._clock.monotonic())
        return quota

    @property
    def is_unlimited(self) -> bool:
        """Whether there is no limit at all."""
        return self._requests is None and self._tokens is None

    async def reserve(self, request: Request) -> Reservation | None:
        """Waits until one more request may be sent; what was reserved for its tokens, if they are limited."""
        async with self._turn:
            # Estimated as late as possible: more replies have improved the estimate by then.
            tokens = self._estimate.tokens_of(request)
            while wait := self._wait_seconds(tokens):
                await self._sleep(wait)
            now = self._clock.monotonic()
            if self._requests is not None:
                self._requests.reserve(1, now)
            return self._tokens.reserve(tokens, now) if self._tokens is not None else None

    async def _sleep(self, seconds: float) -> None:
        """Waits for this time, or until the limit is changed."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def _wait_seconds(self, tokens: float) -> float:
        now = self._clock.monotonic()
        requests = self._requests.wait_seconds(1, now) if self._requests is not None else 0.0
        return max(requests, self._tokens.wait_seconds(tokens, now) if self._tokens is not None else 0.0)

    def settle(self, reservation: Reservation | None, usage: Usage | None) -> None:
        """Corrects a reservation with the usage of the reply; the usage of a failed try is unknown."""
        if reservation is not None and self._tokens is not None:
            self._tokens.correct(reservation, usage.input_tokens + usage.output_tokens if usage else 0)
