"""The models of an eval, open: each with its provider, its rate limit, and a limit on concurrent calls."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.engine.model_calls.rate_limit import RateLimiter
from holdfast.engine.model_calls.token_estimate import TokenEstimate
from holdfast.engine.planning.prepared_eval import PreparedEval
from holdfast.engine.scheduling.clock import Clock
from holdfast.engine.scheduling.concurrency_limits import EvalLimits, Limit
from holdfast.errors import ConfigurationError
from holdfast.models.errors import PassingError, Rejected
from holdfast.models.message import Reply, Request, Usage
from holdfast.models.provider import Provider
from holdfast.spec import ModelSpec


@dataclass
class OpenModel:
    """A model of the eval that can be called, and how its calls have gone in this session."""

    name: str
    spec: ModelSpec
    provider: Provider
    rate_limiter: RateLimiter
    limit: Limit
    """How many of its calls may be sent and not answered at once."""

    estimate: TokenEstimate
    """The estimate of how many tokens a call will use."""

    weights: str = ""
    """The digest of its weights, if they are a file on this machine."""

    names: frozenset[str] = frozenset()
    """The model names that its server may report, by earlier sessions; empty where any is accepted."""

    awaits_reply: bool = False
    """Whether it is not known yet who replies in this session: until then its calls go one by one."""

    last_name: str | None = None
    """The name in its last reply that was accepted."""

    outages: int = 0
    """How often it was given up while nobody had replied yet; those who wait for that are not sent either."""

    is_other_model: bool = False
    """Whether the server has said that it is another one."""

    refusal: str = ""
    """Why this model is disabled for this session, if it is."""

    setting: str = ""
    """The key of the eval that would mend that, if one would."""

    failing_since: float | None = None
    """Since when every call has failed; None once one has been answered."""

    has_replied: bool = False

    last_error: PassingError | None = None
    """The last one after which a call was retried."""

    def apply(self, spec: ModelSpec) -> None:
        """Sets its limits as the eval has them now."""
        # A model in this machine's memory knows best how many requests it can work on.
        self.limit.maximum = spec.concurrency_limit or getattr(self.provider, "concurrency_limit", None)
        self.rate_limiter.set_limit(spec.rate_limit)

    @property
    def takes_schema(self) -> bool:
        """Whether its provider sends the schema that a reply has to fit."""
        return bool(getattr(self.provider, "takes_response_schema", False))

    @property
    def has_effects(self) -> bool:
        """Whether its calls do more than reply, so that a reply of another run cannot replace one."""
        return bool(getattr(self.provider, "has_effects", False))

    @property
    def wait_until(self) -> float:
        """Until when no call of it may be sent, in seconds since 1970; 0 where its provider names no time."""
        return float(getattr(self.provider, "wait_until", 0.0))

    def note_failure(self, now: float) -> float:
        """Takes note of a failed call; since when every call has failed."""
        self.failing_since = now if self.failing_since is None else self.failing_since
        return self.failing_since

    def cost_of(self, usage: Usage | None) -> float:
        """What a reply costs by the price that is set now, for limits; what a run cost is computed when reading."""
        price = self.spec.price
        if price is None or usage is None:
            return 0.0
        return (usage.input_tokens * price.input + usage.output_tokens * price.output) / 1e6


def open_models(prepared: PreparedEval, clock: Clock, limits: EvalLimits) -> dict[str, OpenModel]:
    """The models by name; their providers are opened if they are not open yet."""
    prepared.open_providers()
    return {name: open_model(name, prepared, clock, limits) for name in prepared.providers}


def open_model(name: str, prepared: PreparedEval, clock: Clock, limits: EvalLimits) -> OpenModel:
    """One model of the eval.

    Raises:
        ConfigurationError: its provider cannot be opened.
    """
    opened = _with_provider(name, prepared.provider(name), prepared, clock, limits)
    opened.weights = prepared.weights.get(name, "")
    return opened


def open_or_disable(name: str, prepared: PreparedEval, clock: Clock, limits: EvalLimits) -> OpenModel:
    """The same; a model whose provider cannot be opened is one that is disabled for this session."""
    try:
        return open_model(name, prepared, clock, limits)
    except ConfigurationError as error:
        disabled = _with_provider(name, _NoProvider(), prepared, clock, limits)
        disabled.refusal = str(error)
        return disabled


def uncallable_model(name: str, prepared: PreparedEval, clock: Clock, limits: EvalLimits) -> OpenModel:
    """A model that is only known by its entry in the eval: no provider is opened, and no key is needed."""
    return _with_provider(name, _NoProvider(), prepared, clock, limits)


def _with_provider(
    name: str, provider: Provider, prepared: PreparedEval, clock: Clock, limits: EvalLimits
) -> OpenModel:
    spec, estimate = prepared.spec.models[name], TokenEstimate()
    rate_limiter, limit = RateLimiter(None, clock, estimate), limits.add_model(name, None)
    opened = OpenModel(name, spec, provider, rate_limiter, limit, estimate)
    opened.apply(spec)
    return opened


class _NoProvider:
    """The provider of a model that is disabled from the start."""

    async def send(self, request: Request) -> Reply:  # noqa: ARG002 - as every provider
        """Never called: calls of a disabled model are refused earlier."""
        raise Rejected("The provider could not be opened.")

    async def close(self) -> None:
        """There is nothing to release."""
