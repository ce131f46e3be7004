"""Dotted access into JSON values: `meta.source.0` names a key of a key, or an element of a list.

Only the keys of objects and the positions of lists are looked at, never an attribute of anything.
"""

from __future__ import annotations

from typing import Any, Final

MISSING: Final = object()


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
