"""Values as JSON can hold them: what a task hands in is recorded, and seen by all as it was recorded.

So whoever gets such a value in a later session gets what the first one got: tuples are lists, structs are maps.

Dotted paths lead into such values: `meta.source.0` names a key of a key, or an element of a list. Only the keys of
objects and the positions of lists are looked at, never an attribute of anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import msgspec

# Python refuses to spell out integers of more than 4,300 digits.
MOST_BITS = 14_000

MISSING: Final = object()
"""What a path leads to where nothing is."""
RECORDABLE = "Give texts, finite numbers, lists, maps or msgspec structs."


class Unrecordable(ValueError):  # noqa: N818 - reads as a sentence where it is raised
    """A value that JSON cannot hold; the message is the end of a sentence that begins with its name."""


def recorded(value: object) -> Any:
    """The value as it is read back: texts, numbers, lists and maps.

    Raises:
        Unrecordable: JSON cannot hold it.
    """
    try:
        encoded = msgspec.json.encode(value)
        # NaN and infinity are encoded as null.
        fault = json_fault(msgspec.to_builtins(value)) if b"null" in encoded else ""
        if not fault:
            return msgspec.json.decode(encoded)
    except UnicodeEncodeError:
        fault = "holds text that is not valid UTF-8"
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        fault = f"cannot be recorded: {str(error).rstrip('.')}"
    raise Unrecordable(fault.removesuffix(" in the field ''"))


def json_text(value: Any) -> str:
    """A JSON value as written in a prompt: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()


def decoded_json(text: str) -> Any:
    """The value that a JSON text holds; None where it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None


def json_fault(row: object) -> str:
    """The first value that JSON or UTF-8 cannot carry, with its field; empty if absent."""
    for path, value in _scalars(row, ""):
        fault = _scalar_fault(value)
        if fault:
            return f"holds {fault} in the field {path!r}"
    return ""


def _scalar_fault(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "an infinite number"
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return "an integer of too many digits"
    if isinstance(value, str) and not _is_utf8(value):
        return "text that is not valid UTF-8"
    return ""


def _is_utf8(text: str) -> bool:
    """Whether UTF-8 can carry a text: it has no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _scalars(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every scalar and every key of a value, with its dotted path; cycles and depth are left to the encoder."""
    waiting = [(path, value)]
    while waiting:
        place, item = waiting.pop()
        if isinstance(item, dict):
            yield from ((place, key) for key in item)
            waiting += [(f"{place}.{key}".lstrip("."), inner) for key, inner in reversed(item.items())]
        elif isinstance(item, list | tuple):
            waiting += [(f"{place}.{index}".lstrip("."), inner) for index, inner in reversed([*enumerate(item)])]
        else:
            yield place, item


# Dotted paths.


def lookup(value: Any, path: str) -> Any:
    """The value at a path, or MISSING; a key that itself contains dots is found before it is split."""
    if isinstance(value, dict):
        if path in value:
            return value[path]
        if "." not in path:
            return MISSING
    head, _, rest = path.partition(".")
    inner = _inner_value(value, head)
    return lookup(inner, rest) if rest and inner is not MISSING else _end(inner, path, head)


def without(value: Any, path: str) -> Any:
    """A copy of the value without that path."""
    if not isinstance(value, dict):
        return value
    if path in value:
        return {key: item for key, item in value.items() if key != path}
    head, _, rest = path.partition(".")
    return {key: without(item, rest) if key == head and rest else item for key, item in value.items()}


def none_if_missing(value: Any) -> Any:
    """What was looked up, or None where nothing is there."""
    return None if value is MISSING else value


def _inner_value(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name, MISSING)
    if isinstance(value, list) and name.isascii() and name.isdigit() and len(name) < 10 and int(name) < len(value):
        return value[int(name)]
    return MISSING


def _end(inner: Any, path: str, head: str) -> Any:
    return inner if path == head else MISSING
