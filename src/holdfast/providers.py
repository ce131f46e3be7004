"""What the author of a model provider needs; `docs/providers.md` says how to write one.

A package offers a provider through an entry point in the group `holdfast.providers`, which names its opener.
"""

from holdfast.models.content import ImagePart, RawPart, TextPart, ToolCall
from holdfast.models.errors import Blocked, ModelError, PassingError, RateLimited, Rejected, Unavailable
from holdfast.models.message import Message, Reply, Request, Usage
from holdfast.models.provider import Opener, Provider, read_options
from holdfast.models.redaction import read_key, redact
from holdfast.spec import Generation, ModelSpec, Timeouts

__all__ = [
    "Blocked",
    "Generation",
    "ImagePart",
    "Message",
    "ModelError",
    "ModelSpec",
    "Opener",
    "PassingError",
    "Provider",
    "RateLimited",
    "RawPart",
    "Rejected",
    "Reply",
    "Request",
    "TextPart",
    "Timeouts",
    "ToolCall",
    "Unavailable",
    "Usage",
    "read_key",
    "read_options",
    "redact",
]
