"""What a local model takes in `args`: the weights, and how they are run."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

SmallCount = Annotated[int, Meta(ge=1, le=1024)]


class LocalOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A GGUF file, run on this machine by llama.cpp in a process of its own."""

    path: str | None = None
    """The GGUF file with the weights; a relative path starts at the eval file. It may change on resume if the bytes are
    the same. Default: for local/smollm2, the installed one. Example: `/models/small.gguf`
    """

    slots: SmallCount = 1
    """How many requests are computed at once. A request with temperature 0 or a seed is always computed alone, so that
    its reply is reproducible.
    Example: `4`
    """

    context: Annotated[int, Meta(ge=64, le=2**22)] = 4096
    """Tokens of prompt and reply together, per slot. Example: `8192`"""

    threads: SmallCount = 1
    """How many processor threads are used. Example: `8`"""

    start_seconds: Annotated[float, Meta(gt=0, le=3600)] = 120.0
    """How many seconds the model may take to load. Example: `300`"""
