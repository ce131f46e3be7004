"""What each field means, in the words under it in the source: the one place where a field is described.

Under `temperature`, for example: "How random a reply is. Default: that of the provider. Example: `0.7`". `Default:` is
for what the code cannot show, such as a default that depends on other fields. The example is YAML.
The source is read when a reference is made, and at no other time: starting a command costs nothing for it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import re
import sys
from collections.abc import Iterator

import msgspec

_PARTS = re.compile(r"(?P<meaning>.*?)(?:\s+Default: (?P<default>.*?)\.)?(?:\s+Example: `(?P<example>.*)`)?")


class FieldText(msgspec.Struct, frozen=True):
    """The words about one field; an example is a value as an eval file has it."""

    meaning: str = ""
    default: str = ""
    example: str = ""


def field_texts(struct: type) -> dict[str, FieldText]:
    """The words about the fields of a struct; a field that is repeated without words keeps those of the base."""
    found: dict[str, FieldText] = {}
    for kind in reversed(struct.__mro__):
        found |= _texts_in_module(kind.__module__).get(kind.__name__, {})
    return found


@functools.cache
def _texts_in_module(name: str) -> dict[str, dict[str, FieldText]]:
    if not name.startswith("holdfast."):
        return {}
    try:
        tree = ast.parse(inspect.getsource(sys.modules[name]))
    except OSError:  # installed without its source: everything works, without these words
        return {}
    return {node.name: dict(_described_fields(node)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _described_fields(node: ast.ClassDef) -> Iterator[tuple[str, FieldText]]:
    """The fields in the body of a class that have a text under them."""
    for field, below in itertools.pairwise(node.body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            yield field.target.id, _field_text(below.value.value)


def _field_text(text: str) -> FieldText:
    parts = _PARTS.fullmatch(" ".join(text.split()))
    return FieldText(**{name: part or "" for name, part in parts.groupdict().items()}) if parts else FieldText(text)
