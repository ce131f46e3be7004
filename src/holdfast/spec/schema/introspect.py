"""The schema as data: every field with its type, default and class, and every place where it may appear.

Loading, saving, the table in the documentation and the tests that try every field all read the schema here,
so that none of them can forget one.
"""

import functools
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from holdfast.spec.schema.drift import Block, Drift, drift_of, without_drift


class Field(msgspec.Struct, frozen=True):
    """One field of a block, under the name it has in a file."""

    name: str
    attribute: str
    type: Any
    drift: Drift
    default: Any
    required: bool


class FieldPlace(msgspec.Struct, frozen=True):
    """A field where it may appear: `tasks.*.few_shot[].input` (`*` is any name, `[]` any item)."""

    path: str
    block: type[Block]
    field: Field

    @property
    def drift(self) -> Drift:
        return self.field.drift

    @property
    def is_leaf(self) -> bool:
        """Whether a value is here, and not a block whose fields are places of their own."""
        return block_within(self.field.type) is None


@functools.cache
def schema_fields(block: type[Block]) -> dict[str, Field]:
    """The fields of a block by the name they have in a file, in the order of the schema."""
    return {info.encode_name: _field(info) for info in msgspec.structs.fields(block)}


def schema_places(block: type[Block], prefix: str = "") -> Iterator[FieldPlace]:
    """Every place in a block, blocks inside it included, each inlined key also where it is inlined to."""
    for field in schema_fields(block).values():
        yield from _places_of(block, field, prefix)
    if block.inlined:
        inner = blocks_in(schema_fields(block)[block.inlined].type)[0]
        for field in schema_fields(inner).values():
            yield from _places_of(inner, field, prefix)


def unwrapped(hint: Any) -> Any:
    """A type without its constraints."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint


def members(hint: Any) -> list[Any]:
    """The types a value may have, `None` left out: one, or those of a union."""
    plain = unwrapped(hint)
    if typing.get_origin(plain) not in (typing.Union, types.UnionType):
        return [hint]
    return [member for member in typing.get_args(plain) if member is not types.NoneType]


def is_optional(hint: Any) -> bool:
    """Whether `None` is among the types of a value."""
    return types.NoneType in typing.get_args(unwrapped(hint))


def is_block(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Block)


def blocks_in(hint: Any) -> list[type[Block]]:
    """The blocks among the types of a value."""
    return [member for member in members(hint) if is_block(member)]


def block_within(hint: Any) -> tuple[type[Block], str] | None:
    """The block that a field holds (itself, by name or in a list) and the path that leads to it."""
    for member in members(hint):
        origin, arguments = typing.get_origin(member), typing.get_args(member)
        if is_block(member):
            return member, ""
        if origin is dict and is_block(arguments[1]):
            return arguments[1], ".*"
        if origin is dict and (named := _blocks_by_name(arguments[1])):
            return named, ".*.*"
        if origin is list and is_block(arguments[0]):
            return arguments[0], "[]"
    return None


def _blocks_by_name(hint: Any) -> type[Block] | None:
    """The block of a map of blocks, where that is one of the types of a value."""
    for member in members(hint):
        arguments = typing.get_args(member)
        if typing.get_origin(member) is dict and is_block(arguments[1]):
            return typing.cast("type[Block]", arguments[1])
    return None


def _places_of(block: type[Block], field: Field, prefix: str) -> Iterator[FieldPlace]:
    path = f"{prefix}{field.name}"
    yield FieldPlace(path, block, field)
    within = block_within(field.type)
    if within:
        yield from schema_places(within[0], f"{path}{within[1]}.")


def _field(info: msgspec.structs.FieldInfo) -> Field:
    default = info.default
    if info.default_factory is not msgspec.NODEFAULT:
        default = info.default_factory()
    return Field(
        name=info.encode_name,
        attribute=info.name,
        type=without_drift(info.type),
        drift=drift_of(info.type),
        default=default,
        required=default is msgspec.NODEFAULT,
    )
