"""The tally of a session's calls: how many are in flight, the tokens reserved for them, and the tokens spent.

A call is in flight from the moment its first request may be sent until its end is durable: a reply, or why there is
none. Until then its tokens are an estimate and reserved; afterwards the recorded usage is spent.
"""

from __future__ import annotations

from holdfast.models.message import Usage


class ModelTally:
    """The calls of one model."""

    __slots__ = ("in_flight", "reserved", "spent")

    def __init__(self) -> None:
        self.in_flight = 0
        self.reserved = 0.0
        """Tokens that the calls in flight are expected to take."""
        self.spent = Usage()
        """What the calls of this session took, as it is recorded."""


class CallTally:
    """The calls of all models."""

    def __init__(self) -> None:
        self.by_model: dict[str, ModelTally] = {}

    def of(self, model: str) -> ModelTally:
        """The tally of one model."""
        tally = self.by_model.get(model)
        if tally is None:
            tally = self.by_model[model] = ModelTally()
        return tally

    @property
    def in_flight(self) -> int:
        return sum(tally.in_flight for tally in self.by_model.values())

    @property
    def reserved(self) -> float:
        return sum(tally.reserved for tally in self.by_model.values())

    @property
    def spent(self) -> Usage:
        return sum((tally.spent for tally in self.by_model.values()), Usage())


class Flight:
    """One call, from before it is sent until its end is durable."""

    __slots__ = ("_tally", "has_failed", "is_in_flight", "tokens")

    def __init__(self, tally: ModelTally, tokens: float = 0.0) -> None:
        """`tokens` are what it is expected to take."""
        self._tally, self.tokens = tally, tokens
        self.is_in_flight = False
        self.has_failed = False
        """Whether it is known how it ended, and only that is not durable yet."""

    def begin(self) -> None:
        """From now on it counts."""
        self.is_in_flight = True
        self._tally.in_flight += 1
        self._tally.reserved += self.tokens

    def cancel(self) -> None:
        """Nothing of it was sent, so it does not count."""
        self.is_in_flight = False
        self._tally.in_flight -= 1
        self._tally.reserved -= self.tokens

    def end(self, usage: Usage | None) -> None:
        """Its end is durable, with what it took, if that is known."""
        self.cancel()
        if usage is not None:
            self._tally.spent = self._tally.spent + usage
