"""The tokens of a reply as a server counts them; a count that no reply can have makes the usage unknown."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from holdfast.models.errors import excerpt
from holdfast.models.message import MOST_TOKENS, Usage

TokenCount = Annotated[int, Meta(ge=0, le=MOST_TOKENS)]
_EXCERPT = 200


class InputDetails(msgspec.Struct, gc=False):
    """Parts of the input tokens."""

    cached_tokens: TokenCount | None = None


class OutputDetails(msgspec.Struct, gc=False):
    """Parts of the output tokens."""

    reasoning_tokens: TokenCount | None = None


class ChatUsage(msgspec.Struct, gc=False):
    """Tokens as the server counts them."""

    prompt_tokens: TokenCount | None = None
    completion_tokens: TokenCount | None = None
    prompt_tokens_details: InputDetails | None = None
    completion_tokens_details: OutputDetails | None = None
    prompt_cache_hit_tokens: TokenCount | None = None


def as_usage(usage: ChatUsage | None) -> Usage | None:
    """The usage of a reply; None where the server reports none."""
    if usage is None:
        return None
    cached = usage.prompt_cache_hit_tokens or 0
    if usage.prompt_tokens_details is not None:
        cached = usage.prompt_tokens_details.cached_tokens or cached
    details = usage.completion_tokens_details
    thinking = (details.reasoning_tokens or 0) if details is not None else 0
    return Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0, cached, thinking)


def readable_usage(value: Any) -> tuple[ChatUsage | None, str]:
    """What can be read of a usage of any shape, and what is wrong with it; the reply itself was paid for."""
    try:
        return msgspec.convert(value, ChatUsage | None), ""
    except (msgspec.ValidationError, RecursionError):
        shown = excerpt(_as_json(value), _EXCERPT)
    totals = _totals_in(value)
    if totals is None:
        return None, f"The usage of the reply cannot be read, so its tokens are unknown: {shown}"
    return totals, f"Parts of the usage of the reply cannot be read, and are left out: {shown}"


def _totals_in(value: Any) -> ChatUsage | None:
    """The two sums that a price is for, where both can be read and only their parts cannot."""
    if not isinstance(value, dict):
        return None
    names = ("prompt_tokens", "completion_tokens")
    if any(value.get(name) is None for name in names):
        return None
    try:
        return msgspec.convert({name: value[name] for name in names}, ChatUsage)
    except msgspec.ValidationError:
        return None


def _as_json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (ValueError, TypeError, OverflowError, RecursionError):
        return type(value).__name__
