"""The signs of our own messages in ASCII, for streams whose encoding has none of them."""

from __future__ import annotations

import codecs
import io

_NAME = "holdfast.plain_signs"
_PLAIN = {"·": "-", "…": "...", "→": "->", "\N{MULTIPLICATION SIGN}": "x", "─": "-", "≥": ">=", "≤": "<="}


def use_plain_signs(stream: object) -> None:
    """Lets a stream of messages write these signs, and any other character that it does not know as an escape."""
    if isinstance(stream, io.TextIOWrapper):
        codecs.register_error(_NAME, _replacement)
        stream.reconfigure(errors=_NAME)


def _replacement(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_PLAIN.get(sign) or _as_escape(sign) for sign in text), error.end


def _as_escape(sign: str) -> str:
    return sign.encode("ascii", "backslashreplace").decode()
