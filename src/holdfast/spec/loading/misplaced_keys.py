"""Unknown keys of a block: which key was meant, and where it belongs."""

from __future__ import annotations

from holdfast.spec.loading.error_messages import key_path
from holdfast.spec.loading.usual_names import usual_place
from holdfast.spec.schema.drift import Block
from holdfast.spec.schema.eval import EvalSpec
from holdfast.spec.schema.introspect import schema_places
from holdfast.suggestions import nearest_name

_ALIKE = 0.8
_NEAR = 0.6


def meant_key(name: str, block: type[Block], path: str) -> str:
    """The end of a sentence about an unknown key of a block: the key that was probably meant; empty if none is near.

    A key of the same block that is spelled almost alike comes first, then the place where the schema has such a key,
    then a name that other eval files use, and last a key of the block that is only similar.
    """
    known = [place.path for place in schema_places(block) if "." not in place.path]
    alike = "" if usual_place(name) else nearest_name(name, known, cutoff=_ALIKE)
    similar = nearest_name(name, known, cutoff=_NEAR)
    return (
        (f"did you mean {alike}?" if alike else "")
        or _usual_key(name, known, path)
        or _inner_place(name, block, path)
        or ("" if similar else _place_elsewhere(name))
        or (f"did you mean {similar}?" if similar else "")
    )


def _usual_key(name: str, known: list[str], path: str) -> str:
    """The key that a usual name means, in this block or in another."""
    place = usual_place(name)
    parent, _, key = place.rpartition(".")
    same_kind = parent.split(".")[:1] == path.split(".")[:1] or parent.rpartition(".")[2] == path.rpartition(".")[2]
    is_here = key in known and same_kind
    return "" if not place else f"did you mean {key}?" if is_here else f"write {place} instead"


def _inner_place(name: str, block: type[Block], path: str) -> str:
    inside = _first_place(name, block)
    if not inside or "*" in inside:
        return ""
    parent, _, _ = inside.rpartition(".")
    return f"it belongs under {parent}: {key_path(path, parent)}.{name}"


def _place_elsewhere(name: str) -> str:
    elsewhere = _first_place(name, EvalSpec).replace("*", "NAME")
    return f"it belongs to {elsewhere}" if elsewhere else ""


def _first_place(name: str, block: type[Block]) -> str:
    """The path of the first key of this name in a block that is inside another, nearest the top first."""
    paths = [place.path for place in schema_places(block) if place.field.name == name and "[]" not in place.path]
    return min((path for path in paths if "." in path), key=lambda path: path.count("."), default="")
