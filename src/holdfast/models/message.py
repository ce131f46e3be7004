"""What goes to a model and what comes back: plain values, equal when their content is equal.

A `Request` carries its whole generation: a provider sends what stands there and merges nothing into it.
The fingerprint of a request depends on its content only, so it is the same in every session.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.digests import packed_digest
from holdfast.spec import Generation

_ENCODER = msgspec.json.Encoder(order="deterministic")


class Message(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One message of a conversation."""

    role: str
    content: str
    name: str | None = None


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Tokens of one reply, or of several added up; cached and reasoning tokens are parts of the other two."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


class Request(msgspec.Struct, frozen=True):
    """One question to a model, complete with its generation parameters."""

    messages: tuple[Message, ...]
    generation: Generation = Generation()


class Reply(msgspec.Struct, frozen=True):
    """One whole answer of a model; `usage` is None where the server reported none."""

    text: str
    finish: str
    usage: Usage | None = None
    model: str = ""
    id: str = ""
    logprobs: Any = None
    reasoning: str = ""


def fingerprint(request: Request) -> bytes:
    """Sixteen bytes that two requests share if and only if they ask the same in the same way."""
    try:
        encoded = _ENCODER.encode(request)
    except UnicodeEncodeError:
        encoded = _ENCODER.encode(encodable(msgspec.to_builtins(request)))
    return packed_digest(encoded)


def encodable(value: Any) -> Any:
    """The same JSON-like value with every lone surrogate, which UTF-8 cannot carry, replaced by U+FFFD."""
    if isinstance(value, str):
        return _encodable_text(value)
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encodable(item) for item in value]
    return value


def _encodable_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        # Through UTF-16 the two halves of a pair that were escaped apart become one character again.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
