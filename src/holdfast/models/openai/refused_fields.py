"""Fields of a request that a server refuses, and the option of the model that leaves them out or renames them."""

from __future__ import annotations

import re

from holdfast.models.errors import THIS_MODEL
from holdfast.models.http.error_responses import Complaint

_HINTED = 500
_TOKEN_LIMITS = re.compile(r"\bmax_(?:completion_)?tokens\b")
_SCHEMAS = re.compile(r"\bresponse_format\b|\bjson_schema\b")
_NOT_KNOWN = ("not supported", "unsupported", "unrecogni", "unknown", "not permitted", "unexpected", "not support")


def advise_fields(complaint: Complaint) -> str:
    """The setting of the model, as `KEY=VALUE`, that would make a request which was refused acceptable; or nothing."""
    words = complaint.words[:_HINTED].lower()
    if not any(refused in words for refused in _NOT_KNOWN):
        return ""
    if (found := _TOKEN_LIMITS.search(words)) is not None:
        other = "max_tokens" if found[0] == "max_completion_tokens" else "max_completion_tokens"
        return f"{THIS_MODEL}.args.max_tokens_field={other}"
    return f"{THIS_MODEL}.args.takes_response_schema=false" if _SCHEMAS.search(words) else ""
