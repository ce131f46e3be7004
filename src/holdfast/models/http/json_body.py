"""JSON as servers send it, read as far as it can be: the reply in it has been paid for.

What JSON forbids but a reader can still make out (lone surrogates, raw control characters, NaN) is read anyway, and
bytes that are not text are noted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from holdfast.models.http.body_text import body_text, encodable_json, undecoded_bytes, undecoded_text
from holdfast.models.http.error_responses import unreadable
from holdfast.models.message import ENCODING
from holdfast.models.redaction import redact_json

MOST_LEVELS = 100
"""How deeply a reply may be nested: whatever reads its record later has to get to the bottom of it too."""
_INTEGER_DIGITS = 300
"""Longer integers are not read as such: to make one of text takes time that grows with the square of its length."""


class LooseJson(NamedTuple):
    """A JSON value in which all texts can be encoded, and what it was before."""

    value: Any
    received: Any
    bad_bytes: int
    """How many bytes of the body are not text."""

    def undecoded(self, said_in: Callable[[Any], str]) -> str:
        """The bytes of what the reply says in base64, if they are not all text; keys that are known are left out."""
        return undecoded_text(said_in(redact_json(self.received))) if self.bad_bytes else ""

    def encoding_warning(self, undecoded: str) -> dict[str, str]:
        """What was replaced in it, as a warning; none where nothing was."""
        if self.value == self.received:
            return {}
        if not self.bad_bytes:
            return {ENCODING: "The answer has half of a character (a lone surrogate), replaced by U+FFFD."}
        where = "the reply is not scored" if undecoded else "none of them in its text"
        return {ENCODING: f"{self.bad_bytes} bytes of the answer are not valid UTF-8; {where}."}


def read_loosely(name: str, status: int, body: bytes, charset: str) -> LooseJson:
    """The JSON in the body of an answer; an Unavailable where there is no JSON in it."""
    text = body_text(body, charset)
    try:
        data = json.loads(text, strict=False, parse_int=_integer)
        return LooseJson(encodable_json(data), data, undecoded_bytes(text))
    except RecursionError:
        reason = "JSON that is nested too deeply"
    except ValueError:
        reason = _describe_text(text)
    raise unreadable(name, status, body, reason)


def _describe_text(text: str) -> str:
    if text.lstrip().startswith(("data:", "event:")):
        return "a stream of events instead of one JSON object"
    return "something that is not JSON, or not all of it"


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _INTEGER_DIGITS else float("inf")


def text_of(value: Any) -> str:
    """A text as it is, nothing for null, and anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


def is_nested_too_deeply(value: Any) -> bool:
    """Whether there are more levels in a JSON value than a record may have."""
    level = [value]
    for _ in range(MOST_LEVELS):
        level = [inner for item in level for inner in _inner_values(item)]
        if not level:
            return False
    return True


def _inner_values(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
