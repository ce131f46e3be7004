"""`sample`: one sampling outside a run, with the same semantics, and nothing written."""

from __future__ import annotations

import inspect
import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.api.model_set import ModelGiven, ModelSet
from holdfast.engine.events import Observer
from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.trials.error_boundary import Outcome
from holdfast.errors import UsageError
from holdfast.event_type import Event
from holdfast.models.message import Message, Reply, Request, Usage
from holdfast.models.role import ModelRole
from holdfast.run.core.records import Failure
from holdfast.sampling.candidate import Candidate, CandidateRecord
from holdfast.sampling.host import SamplingChoice, check_price
from holdfast.sampling.lanes.sampler import run_sampling
from holdfast.sampling.place import Place
from holdfast.sampling.requirements.registry import Given
from holdfast.sampling.result import SamplingResult
from holdfast.sampling.strategies.repair import Rejection
from holdfast.sampling.strategies.strategy import Strategy, check_strategy
from holdfast.tasks.prompt import as_messages
from holdfast.tasks.solver import check_generation, split_schema

_MODEL = "model"
_log = logging.getLogger("holdfast.sampling")


async def sample(
    model: ModelGiven | ModelSet,
    messages: str | Message | Sequence[Message],
    *,
    requirements: Sequence[Given] = (),
    strategy: Strategy | None = None,
    models: Mapping[str, ModelGiven] | None = None,
    validation_context: Any = None,
    seed: int | None = None,
    observers: Iterable[Observer] = (),
    **generation: Any,
) -> SamplingResult:
    """Asks a model until a candidate meets the requirements, as the strategy says; nothing is written.

    `model` is a text like `openai/gpt-4o`, an entry as in an eval file, a provider that is open, or a `ModelSet`, whose
    first model is asked and whose limits all samplings share. `models` are others by name: judges, and those that
    `Escalate` continues with. The requirements apply in addition to the strategy's. `generation` are parameters such as
    `temperature`. Every candidate's own seed is derived from `seed`; without one, from the seed of the model's entry
    or, if that has none, from a new one for every sampling.

    Raises:
        ModelError: every lane has ended with an error, and this is the first lane's; `result_of` has the candidates.
        Blocked: a policy of the provider's refused a candidate.
        ConfigurationError: a model's entry, a generation parameter or a requirement is wrong.
        UsageError: there is no model of the name of a judge, or `models` or `observers` are given beside a `ModelSet`.
        InvalidPrompt: what is to be asked is not a prompt.
        ValueError: a hook or the strategy gave a number out of range, or two requirements have the same id.
        TypeError: the strategy is not one, or a hook, a requirement or a repair returned a wrong type.
    """
    check_generation(generation)
    asked, chosen = as_messages(messages), Rejection() if strategy is None else check_strategy(strategy)
    _check_seed(seed)
    if isinstance(model, ModelSet):
        if models or observers:
            raise UsageError("A ModelSet brings its own models and observers.", hint="Give them to the ModelSet.")
        return await _sample_with(model, asked, chosen, requirements, generation, validation_context, seed)
    if _MODEL in (models or {}):
        raise UsageError(f"No other model can be called {_MODEL!r}.", hint="That is the name of the one that is asked.")
    async with ModelSet({_MODEL: model, **(models or {})}, observers) as opened:
        return await _sample_with(opened, asked, chosen, requirements, generation, validation_context, seed)


def _check_seed(seed: object) -> None:
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise ValueError(f"seed is {seed!r}; it has to be a whole number.")


async def _sample_with(
    models: ModelSet,
    messages: tuple[Message, ...],
    strategy: Strategy,
    requirements: Sequence[Given],
    generation: dict[str, Any],
    context: Any,
    seed: int | None,
) -> SamplingResult:
    host = MemoryHost(models, seed)
    result = await run_sampling(host, strategy, messages, requirements, generation, context)
    for note in result.notes:
        _log.warning("%s", note)
    return result


class MemoryHost:
    """The host of a sampling that is written nowhere."""

    trial, number, is_deterministic = "", 1, False
    recorded: Sequence[CandidateRecord] = ()
    others: Sequence[CandidateRecord] = ()
    choice: SamplingChoice | None = None

    def __init__(self, models: ModelSet, seed: int | None) -> None:
        """To be made in the asyncio task that the sampling runs in."""
        self._models, self.model, self.calls = models, models.first, 0
        own = models.model(self.model).spec.generation.seed if seed is None else seed
        self.seed = random.getrandbits(31) if own is None else own
        self._activity = TrialActivity(lambda _activity: None)
        self.monotonic, self.wall = time.monotonic, time.time
        self.is_observed: Callable[[type[Event]], bool] = models.events.is_observed
        self.emit: Callable[[Event], None] = models.events.emit

    def was_replayed(self, place: Place) -> bool:  # noqa: ARG002 - nothing is on record
        """Whether the candidate of that place has its reply from the record."""
        return False

    def check_model(self, name: str, *, has_price: bool = False) -> None:
        """Raises UsageError if there is no model of that name, ConfigurationError if it has no price."""
        found = self._models.model(name or self.model)
        if has_price:
            check_price(found.name, found.spec)

    async def ask(
        self,
        place: Place,  # noqa: ARG002 - nothing is recorded by it
        messages: tuple[Message, ...],
        generation: Mapping[str, Any],
        *,
        model: str = "",
        role: ModelRole = ModelRole.UNDER_TEST,  # noqa: ARG002 - as above
    ) -> Reply:
        """One call of a model.

        Raises:
            ModelError: the model gave no reply.
            UsageError: there is no such model.
        """
        asked = self._models.model(model or self.model)
        base, (given, schema) = asked.spec.generation, split_schema(generation)
        chosen = msgspec.structs.replace(base, **given) if given else base
        return await self._models.call(asked, Request(messages, chosen, schema), self._activity, self._count)

    def _count(self) -> None:
        self.calls += 1

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls code of the user's: a plain function in a thread, and what can be awaited is awaited."""
        if inspect.iscoroutinefunction(function):
            return await function(*args)
        threads = self._models.threads
        async with threads.place(self._activity):
            found: Any = (await threads.call(function, *args)).result()
        return await found if inspect.isawaitable(found) else found

    def put(self, candidate: Candidate, *, is_final: bool) -> None:
        """It is in the result."""

    async def keep(self, choice: SamplingChoice, errors: Sequence[BaseException]) -> None:
        """It is in the result."""

    def finish(self) -> None:
        """There is nothing on record."""

    def cost_of(self, model: str, usage: Usage | None) -> float | None:
        """What a reply costs by the price of its model."""
        return self._models.model(model or self.model).cost_of(usage)

    def failure_of(self, error: BaseException) -> Failure:
        """An error as it would be recorded."""
        return Outcome(error=error).failure()

    def is_fatal(self, error: BaseException) -> bool:  # noqa: ARG002 - there is no journal that could fail
        """Whether nothing can continue after this error."""
        return False
