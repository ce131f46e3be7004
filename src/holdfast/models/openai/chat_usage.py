"""The tokens of a reply as a server counts them; a count that no reply can have makes the usage unknown."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from holdfast.models.http.unreadable_usage import TokenCount, partial_usage, unknown_usage
from holdfast.models.message import Usage

_TOTALS = (("prompt_tokens", "completion_tokens"), ("input_tokens", "output_tokens"))


class InputDetails(msgspec.Struct, gc=False):
    """Parts of the input tokens."""

    cached_tokens: TokenCount | None = None


class OutputDetails(msgspec.Struct, gc=False):
    """Parts of the output tokens."""

    reasoning_tokens: TokenCount | None = None


class ChatUsage(msgspec.Struct, gc=False):
    """Tokens as the server counts them; some servers have other names for the same sums and their parts."""

    prompt_tokens: TokenCount | None = None
    completion_tokens: TokenCount | None = None
    prompt_tokens_details: InputDetails | None = None
    completion_tokens_details: OutputDetails | None = None
    prompt_cache_hit_tokens: TokenCount | None = None
    input_tokens: TokenCount | None = None
    output_tokens: TokenCount | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens_details: OutputDetails | None = None


def as_usage(usage: ChatUsage | None) -> Usage | None:
    """The usage of a reply; None where the server does not report both sums: one that is missing is not 0."""
    if usage is None:
        return None
    taken = usage.prompt_tokens if usage.prompt_tokens is not None else usage.input_tokens
    given = usage.completion_tokens if usage.completion_tokens is not None else usage.output_tokens
    if taken is None or given is None:
        return None
    cached = usage.prompt_cache_hit_tokens or 0
    inputs = usage.prompt_tokens_details or usage.input_tokens_details
    if inputs is not None:
        cached = inputs.cached_tokens or cached
    outputs = usage.completion_tokens_details or usage.output_tokens_details
    return Usage(taken, given, cached, (outputs.reasoning_tokens or 0) if outputs is not None else 0)


def readable_usage(value: Any) -> tuple[ChatUsage | None, str]:
    """What can be read of a usage of any shape, and what is wrong with it; the reply itself was paid for."""
    if value is None:
        return None, ""
    try:
        usage = msgspec.convert(value, ChatUsage)
        if as_usage(usage) is not None:
            return usage, ""
    except (msgspec.ValidationError, RecursionError):
        pass
    totals = _totals_in(value)
    return (None, unknown_usage(value)) if totals is None else (totals, partial_usage(value))


def _totals_in(value: Any) -> ChatUsage | None:
    """The two sums that a price is for, where both can be read and only their parts cannot."""
    if not isinstance(value, dict):
        return None
    for names in _TOTALS:
        with contextlib.suppress(msgspec.ValidationError):
            totals = msgspec.convert({name: value.get(name) for name in names}, ChatUsage)
            if as_usage(totals) is not None:
                return totals
    return None
