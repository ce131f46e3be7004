"""Models: what is asked of them, what they answer, and the providers that carry it."""

from typing import TYPE_CHECKING

from holdfast.lazy_names import load_lazily

if TYPE_CHECKING:
    from holdfast.models.catalogue import ProviderStatus, list_providers, open_provider
    from holdfast.models.errors import Blocked, ModelError, RateLimited, Rejected, Unavailable
    from holdfast.models.fingerprints import fingerprint
    from holdfast.models.message import Message, Reply, Request, Usage
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

_HOMES = {
    "holdfast.models.catalogue": ("ProviderStatus", "list_providers", "open_provider"),
    "holdfast.models.errors": ("Blocked", "ModelError", "RateLimited", "Rejected", "Unavailable"),
    "holdfast.models.fingerprints": ("fingerprint",),
    "holdfast.models.message": ("Message", "Reply", "Request", "Usage"),
    "holdfast.models.provider": ("Provider",),
}
__getattr__ = load_lazily(__name__, _HOMES)
