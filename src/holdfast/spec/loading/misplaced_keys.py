"""A key that stands in the wrong place: where in the schema it belongs."""

from __future__ import annotations

from holdfast.spec.loading.error_messages import key_path
from holdfast.spec.schema.drift import Block
from holdfast.spec.schema.eval import EvalSpec
from holdfast.spec.schema.introspect import schema_places
from holdfast.suggestions import nearest_name

_NEAR = 0.6


def place_of_key(name: str, block: type[Block], path: str) -> str:
    """The end of a sentence about an unknown key of a block: the block inside it, or elsewhere, that has such a key.

    Empty where no block has it, or where a key that is spelled alike was more likely meant.
    """
    inside = _first_place(name, block)
    if inside and "*" not in inside:
        parent, _, _ = inside.rpartition(".")
        return f"it belongs under {parent}: {key_path(path, parent)}.{name}"
    if nearest_name(name, [place.path for place in schema_places(block) if "." not in place.path], cutoff=_NEAR):
        return ""
    elsewhere = _first_place(name, EvalSpec).replace("*", "NAME")
    return f"it belongs to {elsewhere}" if elsewhere else ""


def _first_place(name: str, block: type[Block]) -> str:
    """The path of the first key of this name in a block that is inside another, nearest the top first."""
    paths = [place.path for place in schema_places(block) if place.field.name == name and "[]" not in place.path]
    return min((path for path in paths if "." in path), key=lambda path: path.count("."), default="")
