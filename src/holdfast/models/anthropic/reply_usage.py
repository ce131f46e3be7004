"""The tokens of a reply as the Messages API counts them: what a cache was read or written for is apart there."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.models.http.unreadable_usage import TokenCount, partial_usage, unknown_usage
from holdfast.models.message import UNKNOWN_USAGE, USAGE_PARTS, Usage

CACHE_WRITTEN = "cache_creation_input_tokens"


class ThinkingDetails(msgspec.Struct, gc=False):
    """Parts of the output tokens."""

    thinking_tokens: TokenCount | None = None


class MessagesUsage(msgspec.Struct, gc=False):
    """The counts of the API; the three of the input add up to what was sent."""

    input_tokens: TokenCount
    output_tokens: TokenCount
    cache_creation_input_tokens: TokenCount | None = None
    cache_read_input_tokens: TokenCount | None = None
    output_tokens_details: ThinkingDetails | None = None


class ReadUsage(msgspec.Struct, frozen=True):
    """What could be read of a usage."""

    usage: Usage | None
    cache_written: int = 0
    warnings: dict[str, str] = {}


def read_usage(value: Any) -> ReadUsage:
    """The usage of a reply; unknown where the server reports none, or none that can be read."""
    if value is None:
        return ReadUsage(None)
    try:
        return _as_usage(msgspec.convert(value, MessagesUsage))
    except (msgspec.ValidationError, RecursionError):
        pass
    try:
        sums = {name: value[name] for name in ("input_tokens", "output_tokens")}
        # Without the parts, the input would be only what no cache was used for.
        if any(value.get(name) for name in (CACHE_WRITTEN, "cache_read_input_tokens")):
            return ReadUsage(None, 0, {UNKNOWN_USAGE: unknown_usage(value)})
        usage = _as_usage(msgspec.convert(sums, MessagesUsage)).usage
    except (msgspec.ValidationError, RecursionError, KeyError, TypeError, AttributeError):
        return ReadUsage(None, 0, {UNKNOWN_USAGE: unknown_usage(value)})
    return ReadUsage(usage, 0, {USAGE_PARTS: partial_usage(value)})


def _as_usage(counted: MessagesUsage) -> ReadUsage:
    written, read = counted.cache_creation_input_tokens or 0, counted.cache_read_input_tokens or 0
    details = counted.output_tokens_details
    thinking = (details.thinking_tokens or 0) if details is not None else 0
    return ReadUsage(Usage(counted.input_tokens + written + read, counted.output_tokens, read, thinking), written)
