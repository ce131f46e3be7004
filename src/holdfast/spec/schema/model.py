"""A model under test or a judge: who serves it, how it is asked, and how hard it may be pressed.

The name of the key's variable is part of the configuration; the key itself never is.
"""

from typing import Annotated, Any, ClassVar

import msgspec

from holdfast.spec.schema.drift import Block, Drift
from holdfast.spec.schema.field_types import (
    Count,
    LargeCount,
    Penalty,
    PricePerMillion,
    Probability,
    Ranks,
    Seconds,
    Seed,
    Temperature,
    Words,
)

CONNECT_SECONDS = 10.0
READ_SECONDS = 600.0
TOTAL_SECONDS = 3600.0


class RateLimit(Block, frozen=True):
    """What the provider allows; an absent one is learnt from its answers."""

    requests_per_minute: Annotated[LargeCount | None, Drift.THROUGHPUT] = None
    tokens_per_minute: Annotated[LargeCount | None, Drift.THROUGHPUT] = None


class Price(Block, frozen=True):
    """Per million tokens, in the eval's `currency`."""

    input: Annotated[PricePerMillion, Drift.DERIVED]
    output: Annotated[PricePerMillion, Drift.DERIVED]


class Timeouts(Block, frozen=True):
    """Seconds for one try: to connect, without a byte, and in all; resolving fills in the defaults above."""

    connect: Annotated[Seconds | None, Drift.LOCATION] = None
    read: Annotated[Seconds | None, Drift.LOCATION] = None
    total: Annotated[Seconds | None, Drift.LOCATION] = None


class Generation(Block, frozen=True):
    """How a reply is drawn; an absent field is left to the provider."""

    temperature: Annotated[Temperature | None, Drift.IDENTITY] = None
    top_p: Annotated[Probability | None, Drift.IDENTITY] = None
    max_tokens: Annotated[LargeCount | None, Drift.IDENTITY] = None
    stop: Annotated[list[Words] | None, Drift.IDENTITY] = None
    seed: Annotated[Seed | None, Drift.IDENTITY] = None
    logprobs: Annotated[bool | None, Drift.IDENTITY] = None
    top_logprobs: Annotated[Ranks | None, Drift.IDENTITY] = None
    presence_penalty: Annotated[Penalty | None, Drift.IDENTITY] = None
    frequency_penalty: Annotated[Penalty | None, Drift.IDENTITY] = None
    extra_body: Annotated[dict[str, Any], Drift.IDENTITY] = msgspec.field(default_factory=dict)
    """Sent as it stands, for what a provider takes beyond the fields above."""


class ModelSpec(Block, frozen=True):
    """One entry of `models`; resolving fills in what `base` gives, and then `base` is gone."""

    shorthand: ClassVar[tuple[str, ...]] = ("provider", "model")

    provider: Annotated[str, Drift.IDENTITY] = ""
    model: Annotated[str, Drift.IDENTITY] = ""
    base: Annotated[Words | None, Drift.UNMATCHED] = None
    base_url: Annotated[Words | None, Drift.LOCATION] = None
    api_key_env: Annotated[Words | None, Drift.LOCATION] = None
    concurrency_limit: Annotated[Count | None, Drift.THROUGHPUT] = None
    rate_limit: Annotated[RateLimit | None, Drift.THROUGHPUT] = None
    generation: Annotated[Generation, Drift.IDENTITY] = Generation()
    price: Annotated[Price | None, Drift.DERIVED] = None
    timeouts: Annotated[Timeouts, Drift.LOCATION] = Timeouts()
    proxy: Annotated[Words | None, Drift.LOCATION] = None
    headers: Annotated[dict[str, str], Drift.IDENTITY] = msgspec.field(default_factory=dict)
    args: Annotated[dict[str, Any], Drift.IDENTITY] = msgspec.field(default_factory=dict)
    """The provider's own options: the replies of `scripted`, the weights of `local`."""
