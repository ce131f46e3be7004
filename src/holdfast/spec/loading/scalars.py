"""One value against one type: whether it fits, its usual form, and what is allowed there, in words."""

from __future__ import annotations

import math
import typing
from typing import Any, Literal

import msgspec

from holdfast.spec.schema.introspect import is_block, members, unwrapped

_WORDS: dict[Any, str] = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}


def convert_scalar(value: Any, kind: Any) -> Any:
    """The value as its type has it (2.0 is 2 where a whole number stands); ValidationError if it does not fit."""
    if isinstance(value, float) and not math.isfinite(value):
        raise msgspec.ValidationError("not a finite number")
    if unwrapped(kind) is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    return msgspec.convert(value, kind)


def allowed_values(hint: Any) -> str:
    """What may stand where the type is asked for."""
    return " or ".join(_allowed_member(member) for member in members(hint))


def _allowed_member(kind: Any) -> str:
    plain = unwrapped(kind)
    origin = typing.get_origin(plain)
    if origin is Literal:
        return f"one of {', '.join(typing.get_args(plain))}"
    if origin is list:
        return "a list"
    if origin is dict or is_block(plain):
        return "a map"
    return _WORDS[plain] + _bounds(kind)


def _bounds(kind: Any) -> str:
    meta = next(iter(getattr(kind, "__metadata__", ())), None)
    if meta is None:
        return ""
    if meta.description:
        return f" ({meta.description})"
    low = f" from {meta.ge}" if meta.ge is not None else f" above {meta.gt}" if meta.gt is not None else ""
    high = f" up to {meta.le}" if meta.le is not None else ""
    return f"{low}{high}"
