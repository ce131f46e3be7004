"""Keeping to a provider's rate: so many requests and so many tokens a minute, over any minute.

Both are spread evenly, with a burst of a second's worth, and requests go out in the order they came. What a reply will
take is not known before it is there: an estimate is booked when its request goes out, made from the length of the
text and from what replies took so far, and put right when the reply is there.
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


class Booking:
    """What was taken from an allowance at a moment."""

    __slots__ = ("amount", "at", "characters", "is_counted")

    def __init__(self, at: float, amount: float, characters: int = _AROUND) -> None:
        self.at, self.amount, self.characters = at, amount, characters
        self.is_counted = True


class Allowance:
    """So much a minute: refilled evenly, and not exceeded in any minute by what is booked."""

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self._limit, self._rate = per_minute, per_minute / _MINUTE
        self._burst = max(self._rate, 1.0)
        self._level, self._at = self._burst, clock.monotonic()
        self._booked: deque[Booking] = deque()
        self._total = 0.0

    def wait_seconds(self, amount: float, now: float) -> float:
        """How long until so much can be booked; 0 if it can now. What is beyond the limit goes alone."""
        self._pass_time(now)
        lacking = min(amount, self._burst) - self._level
        evenly = lacking / self._rate if lacking > _MOMENT else 0.0
        return max(evenly, self._until_room(amount, now))

    def book(self, amount: float, now: float, characters: int = _AROUND) -> Booking:
        self._pass_time(now)
        booking = Booking(now, amount, characters)
        self._booked.append(booking)
        self._total += amount
        self._level -= amount
        return booking

    def correct(self, booking: Booking, amount: float) -> None:
        """What was booked turns out to be so much."""
        difference, booking.amount = amount - booking.amount, amount
        self._level -= difference
        if booking.is_counted:
            self._total += difference

    def _pass_time(self, now: float) -> None:
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
        while self._booked and now - self._booked[0].at >= _MINUTE - _MOMENT:
            gone = self._booked.popleft()
            gone.is_counted = False
            self._total -= gone.amount

    def _until_room(self, amount: float, now: float) -> float:
        excess, wait = self._total + amount - self._limit, 0.0
        for booking in self._booked:
            if excess <= _MOMENT:
                break
            excess -= booking.amount
            wait = booking.at + _MINUTE - now
        return wait


class RateLimiter:
    """The rate limit of one model, shared by all that use it."""

    def __init__(self, limit: RateLimit | None, clock: Clock) -> None:
        self._clock = clock
        requests = limit.requests_per_minute if limit else None
        tokens = limit.tokens_per_minute if limit else None
        self._requests = Allowance(requests, clock) if requests else None
        self._tokens = Allowance(tokens, clock) if tokens else None
        self._turn = asyncio.Lock()
        self._per_character, self._output = 0.25, 0.0

    @property
    def is_free(self) -> bool:
        """Whether there is no limit at all."""
        return self._requests is None and self._tokens is None

    async def request(self, request: Request) -> Booking | None:
        """Waits until one more request may be sent; what was booked for its tokens, if they are limited."""
        async with self._turn:
            characters = _AROUND + sum(len(message.content) for message in request.messages)
            tokens = self._estimate(characters, request.generation.max_tokens)
            while wait := self._wait_seconds(tokens):
                await self._clock.sleep(wait)
            now = self._clock.monotonic()
            if self._requests is not None:
                self._requests.book(1, now)
            return self._tokens.book(tokens, now, characters) if self._tokens is not None else None

    def _wait_seconds(self, tokens: float) -> float:
        now = self._clock.monotonic()
        requests = self._requests.wait_seconds(1, now) if self._requests is not None else 0.0
        return max(requests, self._tokens.wait_seconds(tokens, now) if self._tokens is not None else 0.0)

    def _estimate(self, characters: int, max_tokens: int | None) -> float:
        expected = self._output * _MARGIN or max_tokens or _FIRST_GUESS
        return characters * self._per_character + min(expected, max_tokens or expected)

    def settle(self, booking: Booking | None, usage: Usage | None) -> None:
        """Puts a booking right, by what the reply is said to have taken; a failed try took nothing that is known."""
        if booking is None or self._tokens is None:
            return
        self._tokens.correct(booking, usage.input_tokens + usage.output_tokens if usage else 0)
        if usage is not None:
            self._output = max(self._output * _FADING, usage.output_tokens)
            self._per_character = max(self._per_character * _FADING, usage.input_tokens / booking.characters)
