"""Arguments with whole numbers as JSON Schema has them: `2.0` is the integer 2."""

from __future__ import annotations

import functools
import typing
from typing import Any, TypeVar

import msgspec

from holdfast.spec.schema.field_types import INT64_MAX, INT64_MIN
from holdfast.spec.schema.introspect import members, unwrapped

KindT = TypeVar("KindT")


def convert_arguments(arguments: dict[str, Any], kind: type[KindT]) -> KindT:
    """The struct that plain data describes, where `2.0` is accepted for an integer.

    Raises:
        msgspec.ValidationError: the data does not fit.
    """
    return msgspec.convert(with_whole_numbers(arguments, kind), kind)


def with_whole_numbers(value: Any, hint: Any) -> Any:
    """The value, in which a float without a fraction is an integer wherever only integers are allowed."""
    kinds = [unwrapped(kind) for kind in members(hint)]
    if isinstance(value, float):
        is_whole = int in kinds and float not in kinds and value.is_integer() and INT64_MIN <= value <= INT64_MAX
        return int(value) if is_whole else value
    if isinstance(value, dict):
        return _with_whole_entries(value, kinds)
    if isinstance(value, list):
        entry = next((typing.get_args(kind)[0] for kind in kinds if typing.get_origin(kind) is list), Any)
        return [with_whole_numbers(item, entry) for item in value]
    return value


@functools.cache
def _field_types(struct: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.encode_name: field.type for field in msgspec.structs.fields(struct)}


def _with_whole_entries(value: dict[str, Any], kinds: list[Any]) -> dict[str, Any]:
    struct = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, msgspec.Struct)), None)
    if struct is not None:
        hints = _field_types(struct)
        return {name: with_whole_numbers(entry, hints.get(name, Any)) for name, entry in value.items()}
    hint = next((typing.get_args(kind)[1] for kind in kinds if typing.get_origin(kind) is dict), Any)
    return {name: with_whole_numbers(entry, hint) for name, entry in value.items()}
