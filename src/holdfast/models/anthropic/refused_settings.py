"""Settings that a model refuses, and the one that it would take."""

from __future__ import annotations

import re

from holdfast.models.errors import THIS_MODEL
from holdfast.models.http.error_responses import Complaint

_READ = 500
_MOST_TOKENS = re.compile(r"max_tokens: [\d,]+ > ([\d,]+)")
_NO_SAMPLING = re.compile(
    r"\b(temperature|top_p)\W{1,3}(?:is deprecated|is not supported|extra inputs)|temperature and (top_p) cannot both",
    re.IGNORECASE,
)
_NO_SCHEMA = re.compile(r"output_config\.?format|output_format|structured outputs?", re.IGNORECASE)
_NOT_KNOWN = ("not supported", "not support", "unsupported", "not available", "extra inputs are not permitted")


def advise_settings(complaint: Complaint) -> str:
    """The setting of the model, as `KEY=VALUE`, that would make a request which was refused acceptable; or nothing."""
    words = complaint.words[:_READ]
    if (found := _MOST_TOKENS.search(words)) is not None:
        return f"{THIS_MODEL}.generation.max_tokens={found[1].replace(',', '')}"
    if "temperature" in words and "may only be set to 1" in words:
        return f"{THIS_MODEL}.generation.temperature=1"
    if (found := _NO_SAMPLING.search(words)) is not None:
        return f"{THIS_MODEL}.generation.{found[1] or found[2]}=null"
    if _NO_SCHEMA.search(words) and any(refused in words.lower() for refused in _NOT_KNOWN):
        return f"{THIS_MODEL}.args.takes_response_schema=false"
    return ""
