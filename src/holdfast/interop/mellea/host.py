"""The engine's host for a sampling of Mellea's: it asks Mellea's backend, and records nothing."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mellea.core import MelleaLogger
from mellea.plugins import PluginViolationError

from holdfast.event_type import Event
from holdfast.models.message import Message, Reply, Usage
from holdfast.models.role import ModelRole
from holdfast.run.core.records import Failure
from holdfast.sampling.candidate import Candidate, CandidateRecord
from holdfast.sampling.host import SamplingChoice
from holdfast.sampling.place import Place

if TYPE_CHECKING:
    from holdfast.interop.mellea.sampling import MelleaSampling


class MelleaHost:
    """Messages mean nothing here: a lane's next action and context are Mellea's, and the sampling has them."""

    trial = ""
    number = 1
    seed = 0
    model = ""
    is_deterministic = False
    recorded: Sequence[CandidateRecord] = ()
    others: Sequence[CandidateRecord] = ()
    choice: SamplingChoice | None = None

    def __init__(self, sampling: MelleaSampling) -> None:
        self._sampling, self.calls = sampling, 0

    def was_replayed(self, place: Place) -> bool:  # noqa: ARG002 - nothing is on record
        """Whether the candidate of that place has its reply from the record."""
        return False

    def check_model(self, name: str, *, has_price: bool = False) -> None:
        """Strategies of Mellea's name no model: they have backends."""

    async def ask(
        self,
        place: Place,
        messages: tuple[Message, ...],  # noqa: ARG002 - the engine's
        generation: Mapping[str, Any],  # noqa: ARG002 - as above
        *,
        model: str = "",  # noqa: ARG002 - as above
        role: ModelRole = ModelRole.UNDER_TEST,  # noqa: ARG002 - as above
    ) -> Reply:
        """Draws the next candidate of a lane."""
        self.calls += 1
        attempt = await self._sampling.draw(place)
        return Reply(attempt.output.value, "stop")

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Not used: requirements are Mellea's."""
        return function(*args)

    def put(self, candidate: Candidate, *, is_final: bool) -> None:  # noqa: ARG002 - the engine's
        """Shows the progress."""
        if is_final:
            self._sampling.progress.update()

    async def keep(self, choice: SamplingChoice, errors: Sequence[BaseException]) -> None:  # noqa: ARG002 - the engine's
        """Warns of lanes that failed beside others."""
        for note in choice.notes:
            MelleaLogger.get_logger().warning("In the sampling, %s", note)

    def finish(self) -> None:
        """Nothing is recorded."""

    def cost_of(self, model: str, usage: Usage | None) -> float | None:  # noqa: ARG002 - the engine's
        """Mellea has no prices here."""
        return None

    def is_observed(self, kind: type[Event]) -> bool:  # noqa: ARG002 - the engine's
        """Mellea's plugins get hooks instead."""
        return False

    def emit(self, event: Event) -> None:
        """Nobody observes."""

    def failure_of(self, error: BaseException) -> Failure:
        """The error as it is recorded."""
        return Failure(type(error).__name__, str(error), "".join(traceback.format_exception(error)))

    def is_fatal(self, error: BaseException) -> bool:
        """A block by a plugin holds for all lanes."""
        return isinstance(error, PluginViolationError) or not isinstance(error, Exception)

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()
