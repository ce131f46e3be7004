"""Models: what is asked of them, what they answer, and the providers that carry it."""

from holdfast.models.catalogue import ProviderStatus, list_providers, open_provider
from holdfast.models.errors import Blocked, ModelError, RateLimited, Rejected, Unavailable
from holdfast.models.message import Message, Reply, Request, Usage, fingerprint
from holdfast.models.provider import Provider

__all__ = [
    "Blocked",
    "Message",
    "ModelError",
    "Provider",
    "ProviderStatus",
    "RateLimited",
    "Rejected",
    "Reply",
    "Request",
    "Unavailable",
    "Usage",
    "fingerprint",
    "list_providers",
    "open_provider",
]
