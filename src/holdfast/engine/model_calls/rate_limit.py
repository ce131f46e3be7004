"""Keeping to a provider's rate: so many requests and so many tokens a minute, over any minute.

Both are spread evenly, with a burst of a second's worth, and requests go out in the order they came. What a reply will
take is not known before it is there: an estimate is reserved when its request goes out, made from the length of the
text and from what replies took so far, and corrected when the reply is there.
"""

from __future__ import annotations

import asyncio
from collections import deque

from holdfast.engine.scheduling.clock import Clock
from holdfast.models.message import Request, Usage
from holdfast.spec import RateLimit

_MINUTE = 60.0
# Waiting out the difference of two floats must come to an end.
_MOMENT = 1e-9
_FIRST_GUESS = 500.0
# What a provider puts around the text, in characters: a short text says little about what a character takes.
_AROUND = 200
_MARGIN = 1.25
_FADING = 0.99


class Reservation:
    """What was taken from a quota at a moment."""

    __slots__ = ("amount", "at", "characters", "is_counted")

    def __init__(self, at: float, amount: float, characters: int = _AROUND) -> None:
        self.at, self.amount, self.characters = at, amount, characters
        self.is_counted = True


class MinuteQuota:
    """So much a minute: refilled evenly, and not exceeded in any minute by what is reserved."""

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self._limit, self._rate = per_minute, per_minute / _MINUTE
        self._burst = max(self._rate, 1.0)
        self._available, self._at = self._burst, clock.monotonic()
        self._reserved: deque[Reservation] = deque()
        self._total = 0.0

    def wait_seconds(self, amount: float, now: float) -> float:
        """How long until so much can be reserved; 0 if it can now. An amount beyond the limit goes alone."""
        self._pass_time(now)
        short = min(amount, self._burst) - self._available
        evenly = short / self._rate if short > _MOMENT else 0.0
        return max(evenly, self._until_room(amount, now))

    def reserve(self, amount: float, now: float, characters: int = _AROUND) -> Reservation:
        self._pass_time(now)
        reservation = Reservation(now, amount, characters)
        self._reserved.append(reservation)
        self._total += amount
        self._available -= amount
        return reservation

    def correct(self, reservation: Reservation, amount: float) -> None:
        """A reservation turns out to be of so much."""
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

    def __init__(self, limit: RateLimit | None, clock: Clock) -> None:
        self._clock = clock
        requests = limit.requests_per_minute if limit else None
        tokens = limit.tokens_per_minute if limit else None
        self._requests = MinuteQuota(requests, clock) if requests else None
        self._tokens = MinuteQuota(tokens, clock) if tokens else None
        self._turn = asyncio.Lock()
        self._per_character, self._output = 0.25, 0.0

    @property
    def is_unlimited(self) -> bool:
        """Whether there is no limit at all."""
        return self._requests is None and self._tokens is None

    async def reserve(self, request: Request) -> Reservation | None:
        """Waits until one more request may be sent; what was reserved for its tokens, if they are limited."""
        async with self._turn:
            characters = _AROUND + sum(len(message.content) for message in request.messages)
            tokens = self._estimate(characters, request.generation.max_tokens)
            while wait := self._wait_seconds(tokens):
                await self._clock.sleep(wait)
            now = self._clock.monotonic()
            if self._requests is not None:
                self._requests.reserve(1, now)
            return self._tokens.reserve(tokens, now, characters) if self._tokens is not None else None

    def _wait_seconds(self, tokens: float) -> float:
        now = self._clock.monotonic()
        requests = self._requests.wait_seconds(1, now) if self._requests is not None else 0.0
        return max(requests, self._tokens.wait_seconds(tokens, now) if self._tokens is not None else 0.0)

    def _estimate(self, characters: int, max_tokens: int | None) -> float:
        expected = self._output * _MARGIN or max_tokens or _FIRST_GUESS
        return characters * self._per_character + min(expected, max_tokens or expected)

    def settle(self, reservation: Reservation | None, usage: Usage | None) -> None:
        """Corrects a reservation by what the reply is said to have taken; a failed try took nothing that is known."""
        if reservation is None or self._tokens is None:
            return
        self._tokens.correct(reservation, usage.input_tokens + usage.output_tokens if usage else 0)
        if usage is not None:
            self._output = max(self._output * _FADING, usage.output_tokens)
            self._per_character = max(self._per_character * _FADING, usage.input_tokens / reservation.characters)
