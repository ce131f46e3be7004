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
LOCAL = "local"
"""The provider whose models are files: `args.path` says where they are."""


class RateLimit(Block, frozen=True):
    """How much the provider allows."""

    requests_per_minute: Annotated[LargeCount | None, Drift.THROUGHPUT] = None
    """At most this many requests are sent per minute. Default: no limit. Example: `600`"""

    tokens_per_minute: Annotated[LargeCount | None, Drift.THROUGHPUT] = None
    """At most this many tokens are used per minute. Default: no limit. Example: `200000`"""


class Price(Block, frozen=True):
    """What a million tokens cost, in the `currency` of the eval."""

    input: Annotated[PricePerMillion, Drift.DERIVED]
    """The price of a million input tokens. Example: `0.15`"""

    output: Annotated[PricePerMillion, Drift.DERIVED]
    """The price of a million output tokens. Example: `0.60`"""


class Timeouts(Block, frozen=True):
    """How long one request may take.

    Resolving fills in the defaults above.
    """

    connect: Annotated[Seconds | None, Drift.LOCATION] = None
    """Seconds to establish a connection. Default: 10. Example: `5`"""

    read: Annotated[Seconds | None, Drift.LOCATION] = None
    """The most seconds between two received bytes. Default: 600. Example: `2m`"""

    total: Annotated[Seconds | None, Drift.LOCATION] = None
    """Seconds for the whole request. Default: 3600. Example: `30m`"""


class Generation(Block, frozen=True):
    """How replies are generated. The provider decides about keys that are left out."""

    temperature: Annotated[Temperature | None, Drift.IDENTITY] = None
    """How random a reply is; 0 makes it as reproducible as the provider allows. Example: `0.7`"""

    top_p: Annotated[Probability | None, Drift.IDENTITY] = None
    """Draw tokens only from the most likely ones that together have this probability. Example: `0.95`"""

    max_tokens: Annotated[LargeCount | None, Drift.IDENTITY] = None
    """The longest reply, in tokens. Example: `256`"""

    stop: Annotated[list[Words] | None, Drift.IDENTITY] = None
    """Texts that end the reply where they occur; one text needs no list. Example: `['\\n\\n']`"""

    seed: Annotated[Seed | None, Drift.IDENTITY] = None
    """The seed of the reply, for providers that take one. Example: `7`"""

    logprobs: Annotated[bool | None, Drift.IDENTITY] = None
    """Whether the reply includes the log probabilities of its tokens. Example: `true`"""

    top_logprobs: Annotated[Ranks | None, Drift.IDENTITY] = None
    """For how many alternatives per token the log probability is included. Example: `5`"""

    presence_penalty: Annotated[Penalty | None, Drift.IDENTITY] = None
    """Makes tokens that have occurred less likely (above 0) or more likely (below 0). Example: `0.5`"""

    frequency_penalty: Annotated[Penalty | None, Drift.IDENTITY] = None
    """As `presence_penalty`, in proportion to how often a token has occurred. Example: `0.5`"""

    extra_body: Annotated[dict[str, Any], Drift.IDENTITY] = msgspec.field(default_factory=dict)
    """Further keys of the request, sent unchanged, for options that have no field here.
    Example: `{reasoning_effort: low}`
    """


class ModelSpec(Block, frozen=True):
    """One model, under test or a judge. It needs `provider` and `model`, or a `base` that has them.

    Resolving fills in what `base` gives, and then `base` is gone.
    """

    shorthand: ClassVar[tuple[str, ...]] = ("provider", "model")

    provider: Annotated[str, Drift.IDENTITY] = ""
    """Who serves the model: `openai` (with `base_url` any compatible server), another name that `holdfast list models`
    lists, or an installed plug-in. Default: the part of `model` before its first `/`.
    Example: `openai`
    """

    model: Annotated[str, Drift.IDENTITY] = ""
    """The name of the model at its provider. `provider/name` names both. Example: `gpt-4o-mini`"""

    base: Annotated[Words | None, Drift.UNMATCHED] = None
    """Another model of this eval that this one is derived from: every field that is not given here is taken from it.
    Example: `small`
    """

    base_url: Annotated[Words | None, Drift.LOCATION] = None
    """The address of the server, for a server of your own or a proxy. Default: that of the provider.
    Example: `http://127.0.0.1:8000/v1`
    """

    api_key_env: Annotated[Words | None, Drift.LOCATION] = None
    """The name of the environment variable that holds the key. The key itself is refused in an eval file. With a
    `base_url` of another server, no key is sent unless this names one; `azure`, which has no address of its own, sends
    that of AZURE_OPENAI_API_KEY. Default: that of the provider at its own address, such as OPENAI_API_KEY.
    Example: `OPENAI_API_KEY`
    """

    concurrency_limit: Annotated[Count | None, Drift.THROUGHPUT] = None
    """How many calls of this model may be in flight at once. Default: only the other limits. Example: `64`"""

    rate_limit: Annotated[RateLimit | None, Drift.THROUGHPUT] = None
    """What the provider allows per minute. Default: no limit; a wait that the provider asks for is always respected.
    Example: `{requests_per_minute: 600}`
    """

    generation: Annotated[Generation, Drift.IDENTITY] = Generation()
    """How replies are generated. The provider decides about keys that are left out.
    Example: `{temperature: 0.0, max_tokens: 64}`
    """

    price: Annotated[Price | None, Drift.DERIVED] = None
    """What tokens cost. Costs are computed from recorded tokens, so a price may be added or corrected later. Default:
    unknown.
    Example: `{input: 0.15, output: 0.60}`
    """

    timeouts: Annotated[Timeouts, Drift.LOCATION] = Timeouts()
    """How long one request may take. Example: `{connect: 5, total: 10m}`"""

    proxy: Annotated[Words | None, Drift.LOCATION] = None
    """The HTTP proxy for this model. Default: the environment's HTTP_PROXY, HTTPS_PROXY and NO_PROXY.
    Example: `http://127.0.0.1:3128`
    """

    headers: Annotated[dict[str, str], Drift.IDENTITY] = msgspec.field(default_factory=dict)
    """Further HTTP headers of every request. Headers that hold a key are refused. Example: `{X-Team: evals}`"""

    args: Annotated[dict[str, Any], Drift.IDENTITY] = msgspec.field(default_factory=dict)
    """Options of the provider itself; see Providers. Example: `{max_tokens_field: max_tokens}`"""
