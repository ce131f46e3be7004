"""Models outside a run: open, with their limits, retries and prices, and nothing written anywhere."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeGuard

import msgspec

from holdfast.engine.events import Events, Observer
from holdfast.engine.model_calls.caller import CallCounts, Caller, ModelClosed, Tries, checked_reply
from holdfast.engine.model_calls.open_model import OpenModel
from holdfast.engine.model_calls.rate_limit import RateLimiter
from holdfast.engine.model_calls.token_estimate import TokenEstimate
from holdfast.engine.observers import GuardedObserver
from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.scheduling.admission import Admission
from holdfast.engine.scheduling.admission_mark import AdmissionMark
from holdfast.engine.scheduling.capacity import CapacityGrant, CapacityPool
from holdfast.engine.scheduling.clock import RealClock
from holdfast.engine.scheduling.concurrency_limits import EvalLimits
from holdfast.engine.scheduling.holds import Holds
from holdfast.engine.trials.error_boundary import guard
from holdfast.engine.trials.step_threads import StepThreads
from holdfast.errors import UsageError
from holdfast.models.catalogue import open_provider
from holdfast.models.errors import ModelError
from holdfast.models.message import Reply, Request
from holdfast.models.provider import Provider
from holdfast.spec import EvalSpec, ModelSpec
from holdfast.spec.derived_models import derive_models
from holdfast.spec.loading.load import typed_eval
from holdfast.suggestions import suggest_or_list

ModelGiven = str | Mapping[str, Any] | Provider
_ANY_NUMBER = 1 << 60


class ModelSet:
    """Models by name, each a text like `openai/gpt-4o`, an entry as in an eval file, or a provider that is open.

    All calls of a model share its limits. Used with `async with`, which closes what it has opened.
    """

    def __init__(self, models: Mapping[str, ModelGiven], observers: Iterable[Observer] = ()) -> None:
        """To be made in the event loop that it is used in.

        Raises:
            ConfigurationError: a model's entry is wrong.
            UsageError: no model is given.
            TypeError: an observer cannot be called.
        """
        if not models:
            raise UsageError("A set of models needs at least one.", hint='As in ModelSet({"small": "openai/gpt-4o"}).')
        self.clock, self._spec = RealClock(), _spec_of(models)
        limits, holds = EvalLimits(self._spec), Holds(self.clock)
        self._capacity = CapacityPool(lambda: None)
        self._grant = CapacityGrant(self._capacity, ())
        self.events = Events()
        for observer in observers:
            if not callable(observer):
                raise TypeError(f"{observer!r} is not an observer; give a function of an event.")
            self.events.subscribe(GuardedObserver(self.events, observer))
        # Nothing is on record that a higher mark would have to be on.
        mark = AdmissionMark(_ANY_NUMBER, _write_nothing, limits.run)
        self._admission = Admission(limits, self._capacity, holds, mark, on_change=self.events.emit)
        self._caller = Caller(
            self.clock,
            self._admission,
            CallCounts(),
            random.Random(),  # noqa: S311 - jitter
            self._capacity,
            self.events,
            lambda _model: None,
        )
        self.threads = StepThreads()
        """Where plain functions of requirements run."""
        self._opened: list[Provider] = []
        self._given, self._limits = dict(models), limits
        self._models: dict[str, OpenModel] = {}

    @property
    def first(self) -> str:
        """The name of the first of them."""
        return next(iter(self._given))

    async def __aenter__(self) -> Self:
        """Opens the models; if one cannot be opened, the others are closed again.

        Raises:
            ConfigurationError: a provider is missing something.
        """
        try:
            self._models = {name: self._open(name, given, self._limits) for name, given in self._given.items()}
        finally:
            if not self._models:
                await self._close()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        self.threads.close()
        for provider in self._opened:
            await guard(provider.close())

    def model(self, name: str) -> OpenModel:
        """The model of that name.

        Raises:
            UsageError: no model has this name.
        """
        if name not in self._models:
            raise UsageError(f"There is no model {name!r}.", hint=suggest_or_list(name, list(self._models)))
        return self._models[name]

    async def call(
        self, model: OpenModel, request: Request, activity: TrialActivity, on_sent: Callable[[], None]
    ) -> Reply:
        """One call: within its limits, and retried after a temporary error; `on_sent` is called when a request is sent.

        Raises:
            ModelError: the model gave no reply.
        """
        if model.limit.maximum is not None or not model.rate_limiter.is_unlimited:
            return await self._call_limited(model, request, activity, on_sent)
        # Nothing limits it, so there is nothing to count while it is in flight.
        tries = Tries(self._spec.runner.retry_deadline)
        on_sent()
        while True:
            if model.refusal:
                raise ModelClosed(model)
            tries.begin(self.clock.monotonic())
            try:
                reply = checked_reply(model, await model.provider.send(request))
            except ModelError as error:
                pause = self._caller.pause_after(error, model, tries)
            else:
                self._caller.note_unsent_schema(model, request)
                model.failing_since, model.has_replied = None, True
                return reply
            await self.clock.sleep(pause)

    async def _call_limited(
        self, model: OpenModel, request: Request, activity: TrialActivity, on_sent: Callable[[], None]
    ) -> Reply:
        flight = self._admission.flight(model.name, 0.0)
        reply: Reply | None = None
        try:
            deadline = self._spec.runner.retry_deadline
            reply, _ = await self._caller.call(model, request, deadline, activity, self._grant, flight, on_sent)
            return reply
        finally:
            self._admission.end(flight, reply.usage if reply is not None else None)

    def _open(self, name: str, given: ModelGiven, limits: EvalLimits) -> OpenModel:
        spec = self._spec.models[name]
        provider = given if _is_provider(given) else self._opened_provider(spec)
        estimate = TokenEstimate()
        opened = OpenModel(
            name, spec, provider, RateLimiter(None, self.clock, estimate), limits.add_model(name, None), estimate
        )
        opened.apply(spec)
        return opened

    def _opened_provider(self, spec: ModelSpec) -> Provider:
        provider = open_provider(spec)
        self._opened.append(provider)
        return provider


def _is_provider(given: object) -> TypeGuard[Provider]:
    return callable(getattr(given, "send", None))


def _spec_of(models: Mapping[str, ModelGiven]) -> EvalSpec:
    entries = {name: "scripted/given" if _is_provider(given) else given for name, given in models.items()}
    spec = typed_eval({"models": entries}, "the models")
    return msgspec.structs.replace(spec, models=derive_models(spec.models, "the models"))


async def _write_nothing(calls: int) -> None:
    """There is nothing to write the mark to."""
