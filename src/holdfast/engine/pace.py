"""Keeping to a provider's rate: so many requests and so many tokens a minute.

Requests are spaced evenly, with a burst of a second's worth. Tokens are known only when a reply is there, so a reply
that overdraws the allowance delays the requests after it.
"""

from __future__ import annotations

from holdfast.engine.clock import Clock
from holdfast.spec import RateLimit

_MINUTE = 60.0


class _Bucket:
    """An allowance that refills evenly; it may be overdrawn, and is then waited for."""

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self._rate = per_minute / _MINUTE
        self._burst = max(self._rate, 1.0)
        self._level = self._burst
        self._clock = clock
        self._at = clock.monotonic()

    def take(self, amount: float) -> None:
        now = self._clock.monotonic()
        self._level = min(self._burst, self._level + (now - self._at) * self._rate) - amount
        self._at = now

    def wait_seconds(self) -> float:
        """How long until the allowance is no longer overdrawn."""
        self.take(0)
        return max(0.0, -self._level / self._rate)


class Pace:
    """The rate limit of one model, shared by all that use it."""

    def __init__(self, limit: RateLimit | None, clock: Clock) -> None:
        self._clock = clock
        requests = limit.requests_per_minute if limit else None
        tokens = limit.tokens_per_minute if limit else None
        self._requests = _Bucket(requests, clock) if requests else None
        self._tokens = _Bucket(tokens, clock) if tokens else None

    @property
    def is_free(self) -> bool:
        """Whether there is no limit at all."""
        return self._requests is None and self._tokens is None

    async def request(self) -> None:
        """Waits until one more request may be sent."""
        if self._requests is not None:
            self._requests.take(1)
            if wait := self._requests.wait_seconds():
                await self._clock.sleep(wait)
        while self._tokens is not None and (wait := self._tokens.wait_seconds()):
            await self._clock.sleep(wait)

    def used(self, tokens: int) -> None:
        """Accounts for the tokens of a reply."""
        if self._tokens is not None:
            self._tokens.take(tokens)
