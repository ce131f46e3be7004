"""From plain data to a typed eval: every problem is named by its path, its value and what is allowed.

The walk follows the types of the schema, so that a new field is checked without a line here. What it returns
is the same data, normalised: no `null`, no empty optional block, the runner's keys in `runner`.
"""

from __future__ import annotations

import math
import typing
from typing import Any, Literal

import msgspec

from holdfast.spec.loading.durations import parse_duration
from holdfast.spec.loading.error_messages import describe_value, item_path, key_path
from holdfast.spec.loading.misplaced_keys import meant_key
from holdfast.spec.schema.drift import Block
from holdfast.spec.schema.field_types import INT64_MAX, INT64_MIN, is_duration
from holdfast.spec.schema.introspect import Field, blocks_in, is_block, is_optional, members, schema_fields, unwrapped
from holdfast.suggestions import first_of, nearest_or_known

_WORDS: dict[Any, str] = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}
_EXAMPLES = {
    "": " with models, datasets and tasks; `holdfast init` writes an eval file to start from",
    "models": ", such as models: {small: {provider: openai, model: gpt-4o-mini}}",
    "datasets": ", such as datasets: {questions: {path: questions.csv}}",
    "tasks": ', such as tasks: {qa: {dataset: questions, prompt: "{question}", target: "{answer}", scorers: [exact]}}',
}
"""The main maps of an eval, of which newcomers write lists."""


class SchemaChecker:
    """Collects problems on its way; a value with a problem is returned as it came."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def value(self, value: Any, hint: Any, path: str) -> Any:
        """The value, normalised, when it fits the type."""
        kind = _member_for(value, hint)
        if _is_unquoted_template(value, hint):
            return self._unquoted(value, path)
        if kind is Any:
            return self._free(value, path)
        if is_block(kind):
            return self._block(value, kind, path)
        origin = typing.get_origin(kind)
        if origin is dict and isinstance(value, dict):
            key_kind, entry_kind = typing.get_args(kind)
            return self._map(value, key_kind, entry_kind, path)
        if origin is list and _is_list_for(value, kind):
            return self._list(value, typing.get_args(kind)[0], path)
        return self._scalar(value, kind, hint, path)

    def _block(self, value: Any, block: type[Block], path: str) -> Any:
        given = _spelled_out(value, block)
        if not isinstance(given, dict):
            short = f', or "{"/".join(block.shorthand)}"' if block.shorthand else ""
            return self._not_allowed(value, f"a map{short or _EXAMPLES.get(path, '')}", path)
        own = self._fields(given, schema_fields(block), block, path)
        if inlined := self._fields(given, inlined_fields(block), block, path):
            own[block.inlined] = self._joined(own.get(block.inlined, {}), inlined, key_path(path, block.inlined), path)
        self._check_names(given, block, path)
        self._check_required(given, block, path)
        self._check_exactly_one(own, block, path)
        return own

    def _fields(self, given: dict[Any, Any], known: dict[str, Field], block: type[Block], path: str) -> dict[str, Any]:
        return {
            name: self.value(given[name], field.type, key_path(path, name))
            for name, field in known.items()
            if not _is_absent(given.get(name), field, counted=name in block.exactly_one)
        }

    def _joined(self, inner: Any, outer: dict[str, Any], inner_path: str, outer_path: str) -> Any:
        """The keys of a block from both places where they may appear; different values are a problem."""
        if not isinstance(inner, dict):
            return inner
        joined = dict(inner)
        for name, value in outer.items():
            here, there = key_path(outer_path, name), key_path(inner_path, name)
            if isinstance(value, dict) and name in inner:
                joined[name] = self._joined(inner[name], value, there, here)
            elif name in inner and inner[name] != value:
                self._add(
                    f"{here} is {describe_value(value)} and {there} is {describe_value(inner[name])}; keep one of them"
                )
            else:
                joined[name] = value
        return joined

    def _check_names(self, given: dict[Any, Any], block: type[Block], path: str) -> None:
        known = [*schema_fields(block), *inlined_fields(block)]
        unplaced = []
        for name in given:
            if name not in known:
                if way_out := meant_key(str(name), block, path):
                    self._add(f"{key_path(path, name)} is not a known key; {way_out}")
                else:
                    unplaced.append(key_path(path, name))
        if unplaced:
            # The list of known keys is long: it is printed once for all of them.
            are = "is not a known key" if len(unplaced) == 1 else "are not known keys"
            self._add(f"{first_of(unplaced)} {are}; known here: {', '.join(known)}")

    def _check_required(self, given: dict[Any, Any], block: type[Block], path: str) -> None:
        for name, field in schema_fields(block).items():
            if field.required and given.get(name) is None:
                self._add(f"{key_path(path, name)} is missing; allowed: {allowed_values(field.type)}")

    def _check_exactly_one(self, present: dict[str, Any], block: type[Block], path: str) -> None:
        given = [name for name in block.exactly_one if name in present]
        if block.exactly_one and len(given) != 1:
            has = " and ".join(given) or "none"
            self._add(f"{path} must have exactly one of {', '.join(block.exactly_one)}; it has {has}")

    def _map(self, value: dict[Any, Any], key_kind: Any, kind: Any, path: str) -> dict[str, Any]:
        checked = {}
        for name, entry in value.items():
            place = key_path(path, name)
            if not isinstance(name, str):
                self._add(f"{path} has the key {describe_value(name)}, which is not text; put it in quotes")
            elif kind is not str or entry is not None:
                checked[self._name(name, key_kind, place)] = self.value(entry, kind, place)
        return checked

    def _name(self, name: str, kind: Any, place: str) -> str:
        try:
            return str(_convert_scalar(name, kind))
        except msgspec.ValidationError:
            if typing.get_origin(kind) is Literal:
                self._add(f"{place} is not a known key; {nearest_or_known(name, typing.get_args(kind))}")
            else:
                self._add(f"{place} is not a usable name; allowed: {allowed_values(kind)}")
            return name

    def _list(self, value: Any, kind: Any, path: str) -> list[Any]:
        items = [value] if isinstance(value, str) else value
        return [self.value(entry, kind, item_path(path, index)) for index, entry in enumerate(items)]

    def _scalar(self, value: Any, kind: Any, hint: Any, path: str) -> Any:
        if path in _EXAMPLES:
            return self._not_allowed(value, f"a map{_EXAMPLES[path]}", path)
        try:
            return _convert_scalar(value, kind)
        except (msgspec.ValidationError, OverflowError):
            quotes = isinstance(value, int | float) and allowed_values(hint).startswith("text")
            return self._not_allowed(value, allowed_values(hint) + ("; put it in quotes" if quotes else ""), path)

    def _unquoted(self, value: dict[Any, Any], path: str) -> Any:
        """A template without quotes, which YAML reads as a map."""
        ((field, _),) = value.items()
        key = path.rpartition(".")[2]
        meant = f'"{{{field}}}"' if "[" in key else f'{key}: "{{{field}}}"'
        return self._not_allowed(value, f"text. In YAML, braces must be quoted: {meant}", path)

    def _free(self, value: Any, path: str) -> Any:
        """A value whose meaning is not ours to know: whatever can be written down and read back the same."""
        if isinstance(value, dict):
            return self._map(value, str, Any, path)
        if isinstance(value, list | tuple):
            return [self._free(entry, item_path(path, index)) for index, entry in enumerate(value)]
        if not _is_json_scalar(value):
            return self._not_allowed(value, "text, true, false, null, a finite number, a list or a map", path)
        return value

    def _not_allowed(self, value: Any, what: str, path: str) -> Any:
        self._add(f"{path or 'the eval'} is {describe_value(value)}; allowed: {what}")
        return value

    def _add(self, problem: str) -> None:
        self.problems.append(problem)


def inlined_fields(block: type[Block]) -> dict[str, Field]:
    """The fields that may be written in a block although they belong to one inside it."""
    return schema_fields(blocks_in(schema_fields(block)[block.inlined].type)[0]) if block.inlined else {}


def _spelled_out(value: Any, block: type[Block]) -> Any:
    """A block given as nothing, or as one string (`openai/gpt-4o`), as the map it stands for."""
    if value is None:
        return {}
    if isinstance(value, str) and block.shorthand:
        parts = value.split("/", len(block.shorthand) - 1)
        if len(parts) == len(block.shorthand) and all(parts):
            return dict(zip(block.shorthand, parts, strict=True))
    return value


def _is_absent(value: Any, field: Field, *, counted: bool) -> bool:
    """Whether nothing is said: no key, `null`, or an optional block with nothing in it.

    Where keys are counted (exactly one operation), an empty block is still the key that was chosen. An empty `sampling`
    was meant to have an effect.
    """
    blocks = blocks_in(field.type)
    if isinstance(value, dict) and blocks and blocks[0].may_be_empty and is_optional(field.type) and not counted:
        return all(entry is None and name in schema_fields(blocks[0]) for name, entry in value.items())
    return value is None


def _is_unquoted_template(value: Any, hint: Any) -> bool:
    """Whether `{field}` is written without quotes where a text is expected, and not a scorer as in `{exact: null}`."""
    kinds = [unwrapped(kind) for kind in members(hint)]
    free = any(typing.get_origin(kind) is dict and typing.get_args(kind)[1] is Any for kind in kinds)
    is_template = isinstance(value, dict) and len(value) == 1 and list(value.values()) == [None]
    return is_template and str in kinds and not free


def _member_for(value: Any, hint: Any) -> Any:
    """The type of a union that the value is meant for; the first one if no type fits."""
    kinds = members(hint)
    for kind in kinds:
        plain = typing.get_origin(unwrapped(kind)) or unwrapped(kind)
        if plain is type(value) or (isinstance(value, dict) and is_block(plain)):
            return kind
    return kinds[0]


def _is_list_for(value: Any, kind: Any) -> bool:
    """A list, or a single text where a list of texts is asked for."""
    if isinstance(value, str):
        return str in [unwrapped(each) for each in members(typing.get_args(kind)[0])]
    return isinstance(value, list | tuple)


def _is_json_scalar(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return INT64_MIN <= value <= INT64_MAX
    return value is None or isinstance(value, str)


def _convert_scalar(value: Any, kind: Any) -> Any:
    """The value as its type has it: 2.0 is the integer 2, "2m" is 120 seconds; ValidationError if it does not fit."""
    if isinstance(value, float) and not math.isfinite(value):
        raise msgspec.ValidationError("not a finite number")
    if unwrapped(kind) is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and is_duration(kind):
        value = parse_duration(value)
    return msgspec.convert(value, kind)


def allowed_values(hint: Any) -> str:
    """The words for what is allowed where a value of this type is expected."""
    return " or ".join(_allowed_member(member) for member in members(hint))


def _allowed_member(kind: Any) -> str:
    plain = unwrapped(kind)
    origin = typing.get_origin(plain)
    if origin is Literal:
        return f"one of {', '.join(_option_text(value) for value in typing.get_args(plain))}"
    if origin is list:
        return "a list"
    if origin is tuple:
        return f"a list of {allowed_values(typing.get_args(plain)[0])}"
    if origin is dict or is_block(plain):
        return "a map"
    if is_duration(kind):
        return f'a number{_bounds(kind)} (seconds), or text such as "90s", "2m" or "1h30m"'
    return _WORDS[plain] + _bounds(kind)


def _option_text(value: str) -> str:
    """A word as it is; a sign such as "," in quotes."""
    return value if value.isidentifier() else describe_value(value)


def _bounds(kind: Any) -> str:
    meta = next(iter(getattr(kind, "__metadata__", ())), None)
    if meta is None:
        return ""
    if meta.description:
        return f" ({meta.description})"
    low = f" from {meta.ge}" if meta.ge is not None else f" above {meta.gt}" if meta.gt is not None else ""
    high = f" up to {meta.le}" if meta.le is not None else ""
    return f"{low}{high}"
