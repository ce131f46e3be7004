"""Answers that are not as they should be: what a provider must survive with a reply or a ModelError."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.testing.wire_server import WireAnswer

_PAGE = b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
_WRONG: tuple[Any, ...] = (None, 5, -1.5, True, "x", [], [None], {}, {"a": [1]})


def no_replies(body: bytes) -> Iterator[tuple[str, WireAnswer]]:
    """Answers without a reply, each with its name; `body` is one with a reply."""
    yield "an empty body", WireAnswer(b"")
    yield "a page of HTML with status 200", WireAnswer(_PAGE, content_type="text/html")
    yield "a page of HTML with status 502", WireAnswer(_PAGE, 502, content_type="text/html")
    yield "half of the JSON", WireAnswer(body[: len(body) // 2])
    yield "JSON and then more", WireAnswer(body + body)
    yield "null bytes", WireAnswer(b"\x00" * 64)
    yield "a list", WireAnswer(b"[]")
    yield "JSON of five thousand levels", WireAnswer(b"[" * 5000 + b"]" * 5000)


def wrong_types(body: bytes) -> Iterator[tuple[str, bytes]]:
    """The same JSON with one value replaced by another type, for every value and every type; each with its place."""
    data = msgspec.json.decode(body)
    for path in _places(data):
        for wrong in _WRONG:
            yield f"{'.'.join(map(str, path))} = {wrong!r}", msgspec.json.encode(_replaced(data, path, wrong))


def _places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _places(inner, (*path, key))


def _replaced(value: Any, path: tuple[str | int, ...], wrong: Any) -> Any:
    if not path:
        return wrong
    copy = value.copy()
    copy[path[0]] = _replaced(value[path[0]], path[1:], wrong)
    return copy
