"""Requests to bytes. A setting that the API does not have is refused; only the seed is left out."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.models.anthropic.options import AnthropicOptions
from holdfast.models.anthropic.request_blocks import as_conversation
from holdfast.models.anthropic.request_tools import rewrite_tools
from holdfast.models.message import Request, encodable
from holdfast.spec import Generation

RESERVED = ("max_tokens", "messages", "model", "stop_sequences", "stream", "system")
UNSUPPORTED = ("logprobs", "top_logprobs", "presence_penalty", "frequency_penalty")
_ENCODER = msgspec.json.Encoder()


def check_generation_settings(name: str, generation: Generation) -> None:
    """Raises ConfigurationError if the API has no place for one of the settings."""
    for setting in UNSUPPORTED:
        if getattr(generation, setting) not in (None, False):
            raise ConfigurationError(
                f"{name}: the Messages API has no {setting}.", hint=f"Remove generation.{setting} of this model."
            )
    for field in RESERVED:
        if field in generation.extra_body:
            raise ConfigurationError(
                f"generation.extra_body sets {field!r}, which holdfast sets itself.",
                hint="Use the field of generation, or a message with the role system.",
            )


class MessagesEncoder:
    """Encodes requests to one model."""

    def __init__(self, name: str, model: str, options: AnthropicOptions) -> None:
        self._name, self._model, self._options = name, model, options

    def encode(self, request: Request) -> bytes:
        """The body of the one HTTP request for this question."""
        body = self._body(request)
        try:
            return _ENCODER.encode(body)
        except UnicodeEncodeError:
            return _ENCODER.encode(encodable(body))

    def _body(self, request: Request) -> dict[str, Any]:
        generation, conversation = request.generation, as_conversation(request.messages)
        check_generation_settings(self._name, generation)
        body = {
            "model": self._model,
            "max_tokens": self._max_tokens(generation),
            "system": conversation.system,
            "messages": conversation.messages,
            "temperature": generation.temperature,
            "top_p": generation.top_p,
            "stop_sequences": generation.stop,
        }
        extra = rewrite_tools(generation.extra_body)
        return {name: value for name, value in body.items() if value is not None} | self._with_format(extra, request)

    def _max_tokens(self, generation: Generation) -> int:
        if generation.max_tokens is not None:
            return generation.max_tokens
        thinking = generation.extra_body.get("thinking")
        budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
        return self._options.default_max_tokens + (budget if isinstance(budget, int) else 0)

    def _with_format(self, extra: dict[str, Any], request: Request) -> dict[str, Any]:
        """The further members of the body with the schema of the reply, beside what else configures its output."""
        if request.response_schema is None or not self._options.takes_response_schema:
            return extra
        config = extra.get("output_config")
        others = config if isinstance(config, dict) else {}
        if "format" in others or "output_format" in extra:
            raise ConfigurationError(
                "generation.extra_body sets the format of the output, and the call has a response_schema.",
                hint="Remove one of them.",
            )
        return {
            **extra,
            "output_config": {**others, "format": {"type": "json_schema", "schema": request.response_schema}},
        }
