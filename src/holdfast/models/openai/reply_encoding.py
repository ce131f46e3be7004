"""The text of a body: in UTF-8, in another encoding that it names or shows, or with the bytes that are neither noted.

A byte that is not text stays in the text as a lone surrogate (U+DC80 to U+DCFF) until the reply is read out of it.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from holdfast.models.content import joined_text
from holdfast.models.message import encodable
from holdfast.models.openai.chat_messages import read_chat_message
from holdfast.models.redaction import redact_json

_UNDECODED_BYTE = re.compile("[\udc80-\udcff]")
_OTHER_SURROGATE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
_REPLACEMENT = "\ufffd"


def body_text(body: bytes, charset: str) -> str:
    """The body as text; `charset` is the encoding that its header names, which counts only if it is not UTF-8."""
    shown = json.detect_encoding(body)
    # Zeros or a mark at its beginning show UTF-16 and UTF-32, which read as UTF-8 may be valid and are not JSON.
    for encoding in (shown if shown.startswith(("utf-16", "utf-32")) else "", "utf-8-sig", charset):
        if encoding and (text := _decoded(body, encoding)) is not None:
            return text
    return body.decode("utf-8-sig", "surrogateescape")


def _decoded(body: bytes, encoding: str) -> str | None:
    try:
        return body.decode(encoding)
    except (LookupError, ValueError):
        return None


def undecoded_bytes(text: str) -> int:
    """How many bytes of a body are not text."""
    return len(_UNDECODED_BYTE.findall(text))


def undecoded_text(message: Any) -> str:
    """The bytes of what a message says, in base64, if some of them are not text; keys that are known are left out."""
    if not isinstance(message, dict) or not isinstance(message.get("content"), str | list | None):
        return ""
    read = read_chat_message(redact_json(message))
    said = joined_text(read.content) or read.refusal
    if not _UNDECODED_BYTE.search(said):
        return ""
    raw = _OTHER_SURROGATE.sub(_REPLACEMENT, said).encode("utf-8", "surrogateescape")
    return base64.b64encode(raw).decode()


def encodable_json(value: Any) -> Any:
    """The same JSON value with U+FFFD in place of each byte that is not text, and of each lone surrogate."""
    return encodable(_without_bytes(value))


def _without_bytes(value: Any) -> Any:
    # Before halves of pairs are joined: a byte must not become half of a character.
    if isinstance(value, str):
        return value if value.isascii() else _UNDECODED_BYTE.sub(_REPLACEMENT, value)
    if isinstance(value, dict):
        return {_without_bytes(key): _without_bytes(item) for key, item in value.items()}
    return [_without_bytes(item) for item in value] if isinstance(value, list) else value
