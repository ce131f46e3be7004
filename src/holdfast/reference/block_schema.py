"""Blocks of an eval file as JSON Schema: the same types, bounds and short forms that loading accepts.

Loading drops a `null` before it looks at a value, so every field that may be left out may also be `null`.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from typing import Any, Literal

from holdfast.spec.loading.durations import DURATION_PATTERN, LONGEST_DURATION
from holdfast.spec.loading.validate import inlined_fields
from holdfast.spec.loading.yaml_document import read_document
from holdfast.spec.schema.descriptions import FieldText, field_texts
from holdfast.spec.schema.drift import Block
from holdfast.spec.schema.field_types import is_duration
from holdfast.spec.schema.introspect import Field, blocks_in, is_block, is_optional, members, schema_fields, unwrapped

JsonSchema = dict[str, Any]

_TYPES: dict[Any, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_NULL: JsonSchema = {"type": "null"}


class BlockSchemas:
    """The definitions of all blocks that have been asked for, and of those inside them."""

    def __init__(self) -> None:
        self.definitions: dict[str, JsonSchema] = {}

    def reference(self, block: type[Block]) -> JsonSchema:
        """A reference to the definition of a block."""
        if block.__name__ not in self.definitions:
            self.definitions[block.__name__] = {}
            self.definitions[block.__name__] |= self._definition(block)
        return {"$ref": f"#/$defs/{block.__name__}"}

    def _definition(self, block: type[Block]) -> JsonSchema:
        fields = schema_fields(block)
        properties = {name: self._property(field, block) for name, field in fields.items()}
        if block.inlined:
            inner = blocks_in(fields[block.inlined].type)[0]
            properties |= {name: self._property(field, inner) for name, field in inlined_fields(block).items()}
        found: JsonSchema = {
            "description": paragraph(block),
            "type": "object",
            "properties": properties,
            "required": [name for name, field in fields.items() if field.required],
            "additionalProperties": False,
        }
        return found | (exactly_one(block.exactly_one) if block.exactly_one else {})

    def _property(self, field: Field, block: type[Block]) -> JsonSchema:
        """A field, with the words about it. One that may be left out may be null."""
        text = field_texts(block).get(field.attribute, FieldText())
        value = self._value(field.type)
        if not field.required:
            value = nullable(value)
        counted = field.name in block.exactly_one
        for inner in blocks_in(field.type):
            # An optional block with nothing in it is the same as none, also where it has keys that it needs.
            if is_optional(field.type) and inner.may_be_empty and not counted and _needs_keys(inner):
                value = {"anyOf": [*value["anyOf"], nothing_in(inner)]}
        has_default = not field.required and not isinstance(field.default, Block)
        return described(value, text, field.default if has_default else None)

    def _value(self, hint: Any) -> JsonSchema:
        kinds = [self._kind(kind) for kind in members(hint)]
        return kinds[0] if len(kinds) == 1 else alternatives(kinds)

    def _kind(self, kind: Any) -> JsonSchema:
        plain = unwrapped(kind)
        origin, arguments = typing.get_origin(plain), typing.get_args(plain)
        if kind is Any:
            return {}
        if is_block(plain):
            return self._short_or_whole(plain)
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin is list:
            return self._list(arguments[0])
        if origin is dict:
            return self._map(*arguments)
        return _scalar(kind)

    def _short_or_whole(self, block: type[Block]) -> JsonSchema:
        whole = self.reference(block)
        if not block.shorthand:
            return whole
        parts = ["[^/]+"] * (len(block.shorthand) - 1) + [r"[\s\S]+"]
        short = {"type": "string", "pattern": f"^{'/'.join(parts)}$", "description": "/".join(block.shorthand)}
        return alternatives([short, whole])

    def _list(self, kind: Any) -> JsonSchema:
        """A list; a single text is accepted for a list of texts."""
        listed = {"type": "array", "items": self._value(kind)}
        texts = [self._kind(member) for member in members(kind) if unwrapped(member) is str]
        return alternatives([*texts, listed]) if texts else listed

    def _map(self, key: Any, entry: Any) -> JsonSchema:
        # In a map of plain texts, an entry that is null is the same as none.
        value = nullable(self._value(entry)) if entry is str else self._value(entry)
        names = self._value(key)
        return {"type": "object", "additionalProperties": value} | (
            {} if names == {"type": "string"} else {"propertyNames": names}
        )


def nullable(schema: JsonSchema) -> JsonSchema:
    """The same, or null."""
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    return alternatives([schema, _NULL]) if schema else schema


def alternatives(schemas: Sequence[JsonSchema]) -> JsonSchema:
    """One of several; those that are choices themselves are joined, and none is listed twice."""
    found: list[JsonSchema] = []
    for schema in schemas:
        forms = schema["anyOf"] if set(schema) == {"anyOf"} else [schema]
        found += [form for form in forms if form not in found]
    return {"anyOf": found}


def exactly_one(names: tuple[str, ...]) -> JsonSchema:
    """The rule that exactly one of these keys is given; null does not count."""
    return {"oneOf": [{"required": [name], "properties": {name: {"not": _NULL}}} for name in names]}


def described(schema: JsonSchema, text: FieldText, default: Any = None) -> JsonSchema:
    """A schema with the words about a field, its example, and its default unless that is empty."""
    words = f"{text.meaning} Default: {text.default}." if text.default else text.meaning
    found = {"description": words, **schema} if words else schema
    if default not in (None, "", [], {}):
        found = {**found, "default": default}
    return {**found, "examples": [read_document(text.example, "an example")]} if text.example else found


def paragraph(kind: type) -> str:
    """The first paragraph of the docstring of a class, as one line."""
    return " ".join((kind.__doc__ or "").partition("\n\n")[0].split())


def _scalar(kind: Any) -> JsonSchema:
    plain = unwrapped(kind)
    found: JsonSchema = {"type": _TYPES[plain]}
    for meta in getattr(kind, "__metadata__", ()):
        found |= {name: getattr(meta, bound) for bound, name in _BOUNDS.items() if getattr(meta, bound) is not None}
        if meta.min_length is not None:
            found["minLength"] = meta.min_length
        if meta.pattern is not None:
            found["pattern"] = meta.pattern.replace(r"\Z", "$")
    if is_duration(kind):
        return alternatives([found, _duration(found)])
    return found


def _duration(number: JsonSchema) -> JsonSchema:
    """A duration as text. Only its upper bound cannot be expressed; zero has no digit above 0."""
    text: JsonSchema = {"type": "string", "pattern": DURATION_PATTERN, "maxLength": LONGEST_DURATION}
    return {**text, "not": {"pattern": "^[^1-9]*$"}} if number.get("exclusiveMinimum") == 0 else text


def _needs_keys(block: type[Block]) -> bool:
    return any(field.required for field in schema_fields(block).values())


def nothing_in(block: type[Block]) -> JsonSchema:
    """A block in which nothing is said: every key of it may be null."""
    return {"type": "object", "properties": dict.fromkeys(schema_fields(block), _NULL), "additionalProperties": False}
