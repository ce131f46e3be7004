"""Arguments of scorers and requirements, and options of providers, as JSON Schema.

Each of them is a struct that msgspec fills, so msgspec says what it accepts; the words come from the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.models.scripted.script import ERROR_KINDS
from holdfast.reference.block_schema import JsonSchema, alternatives, described, exactly_one
from holdfast.sampling.requirements.built_in import BuiltInRequirement
from holdfast.sampling.requirements.registry import BUILT_IN as REQUIREMENTS
from holdfast.spec.schema.descriptions import FieldText, field_texts
from holdfast.spec.schema.field_types import INT64_MAX, INT64_MIN
from holdfast.tasks.scorers.base import BuiltIn
from holdfast.tasks.scorers.registry import BUILT_IN as SCORERS

Named = type[BuiltIn] | type[BuiltInRequirement]

REFERENCE_PATTERN = "^.+:[^:]+$"
"""Code of the user's: `file.py:name` or `package.module:name`."""
_NOT_BLANK: JsonSchema = {"type": "string", "pattern": r"\S"}
_PROPERTIES: dict[str, dict[str, JsonSchema]] = {
    "FunctionRequirement": {"function": {"type": "string", "pattern": REFERENCE_PATTERN}},
    "IncludesRequirement": {"text": alternatives([_NOT_BLANK, {"type": "array", "items": _NOT_BLANK, "minItems": 1}])},
    "JudgeRequirement": {"model": _NOT_BLANK, "criterion": _NOT_BLANK},
}
"""What a struct checks of single values beyond their types."""
_RULES: dict[str, JsonSchema] = {
    "ErrorRule": exactly_one(ERROR_KINDS),
    "ModelGraded": exactly_one(("model", "models")),
    "LengthRequirement": alternatives(
        [{"required": [name], "properties": {name: {"type": "integer"}}} for name in ("min", "max")]
    ),
    "ScriptLine": alternatives(
        [
            {"required": ["text"], "properties": {"text": {"type": "string"}}},
            {"required": ["refusal"], "properties": {"refusal": {"minLength": 1}}},
            {"required": ["tool_calls"], "properties": {"tool_calls": {"minItems": 1}}},
        ]
    ),
}
"""What a struct checks of its values together."""


def argument_definitions(structs: Iterable[type[msgspec.Struct]]) -> dict[str, JsonSchema]:
    """The definitions of structs, and of those inside them, with the words about their fields."""
    structs = list(structs)
    _, found = msgspec.json.schema_components(structs, ref_template="#/$defs/{name}")
    by_name = {struct.__name__: struct for struct in structs}
    return {name: _with_words(_in_64_bits(schema), by_name.get(name)) for name, schema in found.items()}


def scorer_schema() -> JsonSchema:
    """One entry of `scorers`: a name, a name with its arguments, or code of the user's."""
    return _named_schema(SCORERS, patterns={REFERENCE_PATTERN: {"type": ["object", "null"]}})


def requirement_schema() -> JsonSchema:
    """One entry of `requirements`: a name, or a name with its arguments."""
    return _named_schema(REQUIREMENTS)


def _named_schema(kinds: Mapping[str, Named], patterns: Mapping[str, JsonSchema] | None = None) -> JsonSchema:
    bare = [name for name, kind in kinds.items() if not _needs_arguments(kind)]
    forms: list[JsonSchema] = [{"enum": bare}]
    forms += [{"type": "string", "pattern": pattern} for pattern in patterns or ()]
    with_arguments: JsonSchema = {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "properties": {name: _arguments(kind) for name, kind in kinds.items()},
        "patternProperties": dict(patterns or {}),
        "additionalProperties": False,
    }
    return alternatives([*forms, with_arguments])


def _arguments(kind: Named) -> JsonSchema:
    """The arguments of a kind: a map, nothing where it needs none, or its short form."""
    forms: list[JsonSchema] = [{"$ref": f"#/$defs/{kind.__name__}"}]
    if not _needs_arguments(kind):
        forms.append({"type": "null"})
    if issubclass(kind, BuiltInRequirement) and kind.short_argument:
        forms.append({"$ref": f"#/$defs/{kind.__name__}/properties/{kind.short_argument}"})
    return forms[0] if len(forms) == 1 else alternatives(forms)


def _needs_arguments(kind: Named) -> bool:
    try:
        kind.build({}, kind.kind)
    except ConfigurationError:
        return True
    return False


def _in_64_bits(schema: Any) -> Any:
    """The schema, in which an integer without bounds has those of 64 bits: 1e300 is an integer in JSON Schema."""
    if isinstance(schema, list):
        return [_in_64_bits(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: _in_64_bits(value) for key, value in schema.items()}
    return {"minimum": INT64_MIN, "maximum": INT64_MAX, **inner} if inner.get("type") == "integer" else inner


def _with_words(schema: JsonSchema, struct: type[msgspec.Struct] | None) -> JsonSchema:
    texts = field_texts(struct) if struct else {}
    name = struct.__name__ if struct else ""
    properties: dict[str, Any] = {
        field: described({**own, **_PROPERTIES.get(name, {}).get(field, {})}, texts.get(field, FieldText()))
        for field, own in schema["properties"].items()
    }
    kept = {key: value for key, value in schema.items() if key != "title"}
    return {**kept, "properties": properties, **_RULES.get(name, {})}
