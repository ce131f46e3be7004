"""Markdown tables and their cells: the kinds of a value, its default, an example."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.spec.loading.validate import allowed_values
from holdfast.spec.loading.yaml_document import write_document
from holdfast.spec.schema.descriptions import FieldText
from holdfast.spec.schema.introspect import members

Row = tuple[str, ...]


def markdown_table(header: Row, rows: Iterable[Row]) -> list[str]:
    """The lines of a table."""
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return lines + [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows]


def kind_cell(hint: Any) -> str:
    """The words for what a value may be."""
    return " or ".join(dict.fromkeys(_member_words(member) for member in members(hint)))


def default_cell(default: Any) -> str:
    """A default as a file would have it; nothing where it is empty."""
    if isinstance(default, msgspec.Struct) or default in (None, "", [], {}):
        return ""
    is_word = isinstance(default, str) and default.isidentifier()
    return f"`{default if is_word else msgspec.json.encode(default).decode()}`"


def example_cell(name: str, text: FieldText) -> str:
    """A key with its example, as a line of a file."""
    key = write_document({name: 0}).partition(":")[0]
    return f"`{key}: {text.example}`"


def _member_words(member: Any) -> str:
    if member is Any:
        return "any value"
    if isinstance(member, type) and issubclass(member, msgspec.Struct):
        return "a map"
    return allowed_values(member)
