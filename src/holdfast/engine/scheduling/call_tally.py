"""The tally of a session's calls: how many are in flight, the tokens reserved for them, and the tokens spent.

A call is in flight from the moment its first request may be sent until its end is durable: a reply, or why there is
none. Until then its tokens are an estimate and reserved; afterwards the recorded usage is spent.
"""

from __future__ import annotations

from holdfast.models.message import Usage

TrialGroup = tuple[str, str]
"""A task, and the model under test."""


class ModelTally:
    """The calls of one model."""

    __slots__ = ("in_flight", "paused", "reserved", "reused", "spent")

    def __init__(self) -> None:
        self.in_flight = 0
        self.paused = 0
        """Those of them whose last request has failed, and whose next one is not sent yet."""
        self.reserved = 0.0
        """Tokens that the calls in flight are expected to take."""
        self.spent = Usage()
        """What the calls of this session took, as it is recorded."""
        self.reused = Usage()
        """What the replies of other runs took there that were used instead of calls."""


class GroupTally:
    """The calls that the trials of one task and model make, whichever models they ask: judges too."""

    __slots__ = ("retries", "reused", "tokens")

    def __init__(self) -> None:
        self.retries = 0
        """Requests that failed and were sent again."""
        self.tokens: dict[str, list[int]] = {}
        """Input and output tokens on record, by the model that was asked; added up in place, for every call does it."""
        self.reused: dict[str, Usage] = {}
        """The same of replies of other runs."""

    def add(self, model: str, usage: Usage) -> None:
        """Adds what a call of this model took."""
        tokens = self.tokens.get(model)
        if tokens is None:
            tokens = self.tokens[model] = [0, 0]
        tokens[0] += usage.input_tokens
        tokens[1] += usage.output_tokens


class CallTally:
    """The calls of all models, and those of the trials of each task and model."""

    def __init__(self) -> None:
        self.by_model: dict[str, ModelTally] = {}
        self.by_group: dict[TrialGroup, GroupTally] = {}

    def of(self, model: str) -> ModelTally:
        """The tally of one model."""
        tally = self.by_model.get(model)
        if tally is None:
            tally = self.by_model[model] = ModelTally()
        return tally

    def of_group(self, group: TrialGroup) -> GroupTally:
        """The tally of the trials of one task and model."""
        tally = self.by_group.get(group)
        if tally is None:
            tally = self.by_group[group] = GroupTally()
        return tally

    def add_reused(self, group: TrialGroup, model: str, usage: Usage) -> None:
        """Adds a reply of another run, which is durable here: tokens of the run that cost nothing."""
        tally, of_group = self.of(model), self.of_group(group)
        tally.reused = tally.reused + usage
        of_group.reused[model] = of_group.reused.get(model, Usage()) + usage

    @property
    def in_flight(self) -> int:
        return sum(tally.in_flight for tally in self.by_model.values())

    @property
    def awaited(self) -> int:
        """How many calls in flight have a request out there, or a reply that is not durable yet."""
        return sum(tally.in_flight - tally.paused for tally in self.by_model.values())

    @property
    def reserved(self) -> float:
        return sum(tally.reserved for tally in self.by_model.values())

    @property
    def spent(self) -> Usage:
        return sum((tally.spent for tally in self.by_model.values()), Usage())


class Flight:
    """One call, from before it is sent until its end is durable."""

    __slots__ = (
        "_group",
        "_model",
        "_tally",
        "has_failed",
        "is_alone",
        "is_in_flight",
        "is_paused",
        "requests",
        "tokens",
    )

    def __init__(self, model: str, tally: ModelTally, tokens: float = 0.0, group: GroupTally | None = None) -> None:
        """`tokens` are what it is expected to take; `group` is there where a trial makes the call."""
        self._model, self._tally, self.tokens, self._group = model, tally, tokens, group
        self.is_in_flight = self.is_alone = False
        self.is_paused = False
        """Whether its last request has failed, and the next one is not sent yet."""
        self.requests = 0
        """How many were sent."""
        self.has_failed = False
        """Whether it is known how it ended, and only that is not durable yet."""

    def begin(self) -> None:
        """From now on it counts."""
        self.is_in_flight = True
        self._tally.in_flight += 1
        self._tally.reserved += self.tokens

    def cancel(self) -> None:
        """Nothing of it was sent, so it does not count."""
        self.end_pause()
        self.is_in_flight = False
        self._tally.in_flight -= 1
        self._tally.reserved -= self.tokens

    def end(self, usage: Usage | None) -> None:
        """Its end is durable, with what it took, if that is known."""
        self.cancel()
        if usage is not None:
            self._tally.spent = self._tally.spent + usage
            if self._group is not None:
                self._group.add(self._model, usage)

    def note_retry(self) -> None:
        """A request of it has failed, and is sent again after a pause."""
        self.is_paused = True
        self._tally.paused += 1
        if self._group is not None:
            self._group.retries += 1

    def end_pause(self) -> None:
        """The next request is sent, if the call was pausing."""
        if self.is_paused:
            self.is_paused = False
            self._tally.paused -= 1
