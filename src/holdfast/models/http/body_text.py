"""The text of a body: in UTF-8, in another encoding that it names or shows, or with the bytes that are neither noted.

A byte that is not text stays in the text as a lone surrogate (U+DC80 to U+DCFF) until the reply is read out of it.
"""

from __future__ import annotations

import base64
import codecs
import json
import re
from typing import Any

from holdfast.models.message import encodable

_UNDECODED_BYTE = re.compile("[\udc80-\udcff]")
_OTHER_SURROGATE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
_REPLACEMENT = "\ufffd"
_FAMILIES = ("iso8859", "cp125", "koi8", "mac", "euc_")
_ENCODINGS = frozenset({"cp437", "cp850", "cp866", "cp874", "cp932", "cp936", "cp949", "cp950", "tis-620"}) | frozenset(
    {"gb2312", "gbk", "gb18030", "big5", "big5hkscs", "shift_jis"}
)


def body_text(body: bytes, charset: str) -> str:
    """The body as text; `charset` is the encoding that its header names, which counts only if it is not UTF-8."""
    shown = json.detect_encoding(body)
    # Zeros or a mark at its beginning show UTF-16 and UTF-32, which read as UTF-8 may be valid and are not JSON.
    if shown.startswith(("utf-16", "utf-32")) and (text := _decoded(body, shown, "surrogatepass")) is not None:
        # Half of a character in there is as little a text as a bad byte in UTF-8, so it is noted as bytes too.
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
    for encoding in ("utf-8-sig", _known_encoding(charset)):
        if encoding and (text := _decoded(body, encoding)) is not None:
            return text
    return body.decode("utf-8-sig", "surrogateescape")


def as_utf_8(body: bytes, charset: str) -> bytes:
    """The body as UTF-8, with its bytes that are not text as they are."""
    return body_text(body, charset).encode("utf-8", "surrogateescape")


def _known_encoding(charset: str) -> str:
    """The encoding if it is one in which ASCII stands for itself: by any other, JSON would be read into other JSON."""
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        return ""
    return name if name.startswith(_FAMILIES) or name in _ENCODINGS else ""


def _decoded(body: bytes, encoding: str, errors: str = "strict") -> str | None:
    try:
        return body.decode(encoding, errors)
    except (LookupError, ValueError):
        return None


def undecoded_bytes(text: str) -> int:
    """How many bytes of a body are not text."""
    return len(_UNDECODED_BYTE.findall(text))


def undecoded_text(said: str) -> str:
    """The bytes of what a reply says, in base64, if some of them are not text."""
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
