"""Usage that a server reports in a form that cannot be read, in words; the reply itself was paid for."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from holdfast.models.errors import excerpt
from holdfast.models.message import MOST_TOKENS

TokenCount = Annotated[int, Meta(ge=0, le=MOST_TOKENS)]
_EXCERPT = 200


def unknown_usage(value: Any) -> str:
    """Nothing of it can be read."""
    return f"The usage of the reply cannot be read, so its tokens are unknown: {_shown(value)}"


def partial_usage(value: Any) -> str:
    """Its sums can be read, and their parts cannot."""
    return f"Parts of the usage of the reply cannot be read, and are left out: {_shown(value)}"


def _shown(value: Any) -> str:
    try:
        return excerpt(msgspec.json.encode(value).decode(), _EXCERPT)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return type(value).__name__
