"""The host of a sampling: a trial, where everything is durable, or memory.

All calls and records of a sampling go through its host. The code of lanes, requirements and hooks runs where no scope
is set: every call belongs to the place that is given with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.event_type import Event
from holdfast.models.message import Message, Reply, Usage
from holdfast.models.role import ModelRole
from holdfast.run.core.records import Failure
from holdfast.sampling.candidate import Candidate, CandidateRecord
from holdfast.sampling.place import Place
from holdfast.spec import ModelSpec


class SamplingChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which candidate a sampling has chosen, and why it ended; its last record."""

    success: bool
    stop_reason: str
    reason: str = ""
    """Why this one."""
    lane: int = -1
    """-1 where none could be chosen."""
    turn: int = -1
    capped: str = ""
    """The cap that was reached, if one was."""
    votes: dict[str, int] = {}
    notes: tuple[str, ...] = ()


def check_price(name: str, spec: ModelSpec) -> None:
    """Raises ConfigurationError if a model has no price, so that a cap on cost would never be reached."""
    if spec.price is None:
        raise ConfigurationError(
            f"budget.cost needs a price for every model that is called, and {name} has none.",
            hint="Give its price, or cap calls or tokens.",
        )


class SamplingHost(Protocol):
    """A sampling's access to models, records and clocks."""

    trial: str
    """The key of its trial; empty outside a run."""
    number: int
    """Which sampling of its scope it is, from 1."""
    seed: int
    """What the seeds of its places are derived from."""
    model: str
    """The name of the model that is asked where none is named."""
    is_deterministic: bool
    """Whether the choice may depend on no timing, whatever the strategy says."""
    choice: SamplingChoice | None
    """The recorded choice, if the sampling had ended."""

    @property
    def recorded(self) -> Sequence[CandidateRecord]:
        """The recorded candidates that ended valid or invalid, in the order of their records."""

    @property
    def others(self) -> Sequence[CandidateRecord]:
        """The recorded candidates that ended otherwise, in the order of their records."""

    @property
    def calls(self) -> int:
        """How many calls it has taken so far, those recorded included; calls that were never sent do not count."""

    def was_replayed(self, place: Place) -> bool:
        """Whether the candidate of that place has its reply from the record."""

    def check_model(self, name: str, *, has_price: bool = False) -> None:
        """Raises UsageError if there is no model of that name, ConfigurationError if it must have a price and has none.

        An empty name is that of the usual model.
        """

    async def ask(
        self,
        place: Place,
        messages: tuple[Message, ...],
        generation: Mapping[str, Any],
        *,
        model: str = "",
        role: ModelRole = ModelRole.UNDER_TEST,
    ) -> Reply:
        """One call of a model, as a step of that place; replayed where its reply is recorded.

        Raises:
            ModelError: there was no reply.
        """

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls user code: a plain function in a thread, and awaits what it returns if that can be awaited."""

    def put(self, candidate: Candidate, *, is_final: bool) -> None:
        """Queues the record of a candidate; one that is not final is drawn again when the sampling is resumed."""

    async def keep(self, choice: SamplingChoice, errors: Sequence[BaseException]) -> None:
        """Makes the choice durable. `errors` are those of lanes without which it might have been another."""

    def finish(self) -> None:
        """The sampling has ended. What else is recorded of it counts as used."""

    def cost_of(self, model: str, usage: Usage | None) -> float | None:
        """What a reply costs by the price that is set now, for the budget."""

    def is_observed(self, kind: type[Event]) -> bool:
        """Whether anybody wants such events."""

    def emit(self, event: Event) -> None:
        """Delivers an event to those who observe."""

    def failure_of(self, error: BaseException) -> Failure:
        """An error as it is recorded."""

    def is_fatal(self, error: BaseException) -> bool:
        """Whether no lane can continue after this error."""

    def monotonic(self) -> float: ...
    def wall(self) -> float: ...
