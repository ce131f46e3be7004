"""What a model of this provider takes in `args`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from holdfast.models.http.endpoint import REPLY_BYTES

MAX_TOKENS = 8192


class AnthropicOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Claude, and with `base_url` any server that speaks the Messages API."""

    max_reply_bytes: int = REPLY_BYTES
    """The longest reply that is read, in bytes. Example: `1048576`"""

    default_max_tokens: Annotated[int, Meta(ge=1, le=10**9)] = MAX_TOKENS
    """What is sent as `max_tokens` if `generation.max_tokens` is not set, because the API needs one. A `budget_tokens`
    of thinking is added to it.
    Example: `16000`
    """

    takes_response_schema: bool = True
    """Whether the JSON Schema that a call gives for its reply is sent, as `output_config.format`. Set it to false for a
    model that refuses it: the reply is then any text.
    Example: `false`
    """
