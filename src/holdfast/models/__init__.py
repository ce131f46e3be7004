"""Models: what is asked of them, what they answer, and the providers that carry it."""

from holdfast.models.errors import Blocked, ModelError, RateLimited, Rejected, Unavailable
from holdfast.models.message import Message, Reply, Request, Usage, fingerprint
from holdfast.models.provider import Provider, open_provider
from holdfast.models.readiness import Offer, catalogue

__all__ = [
    "Blocked",
    "Message",
    "ModelError",
    "Offer",
    "Provider",
    "RateLimited",
    "Rejected",
    "Reply",
    "Request",
    "Unavailable",
    "Usage",
    "catalogue",
    "fingerprint",
    "open_provider",
]
