"""The options of OpenAI-compatible providers, and the endpoint that they and a preset come to."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from holdfast.models.http.endpoint import REPLY_BYTES, Endpoint, resolve_address, resolve_endpoint
from holdfast.models.openai.presets import Preset
from holdfast.spec import ModelSpec


class OpenAIOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The `args` of every OpenAI-compatible provider."""

    max_reply_bytes: int = REPLY_BYTES
    """The longest reply that is read, in bytes. Example: `1048576`"""

    max_tokens_field: str | None = None
    """The field of the request that carries `generation.max_tokens`. Default: that of the service, see the table;
    max_tokens where another address is set.
    Example: `max_completion_tokens`
    """

    reasoning_field: str | None = None
    """The field of a message in which the reasoning before a tool call is sent back. Default: it is not sent back.
    Example: `reasoning_content`
    """

    takes_response_schema: bool = True
    """Whether the JSON Schema that a call gives for its reply is sent, as `response_format`. Set it to false for a
    server that refuses it: the reply is then any text.
    Example: `false`
    """

    api_version: str | None = None
    """The value of `api-version` in the address, as some Azure deployments need it. Default: none.
    Example: `'2024-10-21'`
    """


class Dialect(msgspec.Struct, frozen=True):
    """How one server wants the chat protocol to be spoken."""

    max_tokens_field: str = "max_tokens"
    reasoning_field: str | None = None
    takes_response_schema: bool = True


def resolve_chat(
    spec: ModelSpec, preset: Preset, options: OpenAIOptions, environment: Mapping[str, str] = os.environ
) -> tuple[Endpoint, Dialect]:
    """The endpoint of a model and its dialect; a ConfigurationError names what is missing and how to supply it."""
    query = f"api-version={options.api_version}" if options.api_version else ""
    address = resolve_address(spec, preset, query, environment)
    endpoint = resolve_endpoint(spec, preset, address, options.max_reply_bytes, environment)
    usual_field = preset.max_tokens_field if address.is_home else "max_tokens"
    dialect = Dialect(
        max_tokens_field=options.max_tokens_field or usual_field,
        reasoning_field=options.reasoning_field,
        takes_response_schema=options.takes_response_schema,
    )
    return endpoint, dialect
