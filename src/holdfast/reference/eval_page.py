"""The generated part of docs/eval-file.md: every block with its keys, then scorers, requirements and providers.

`python -m holdfast.reference.eval_page docs/eval-file.md` writes it between its two marks; a test checks that it is up
to date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from holdfast.reference.argument_tables import provider_lines, requirement_lines, scorer_lines
from holdfast.reference.block_schema import paragraph
from holdfast.reference.cells import Row, default_cell, example_cell, kind_cell, markdown_table
from holdfast.spec.schema.descriptions import FieldText, field_texts
from holdfast.spec.schema.docs_table import EXCEPTIONS, between_marks
from holdfast.spec.schema.drift import Block, Drift
from holdfast.spec.schema.eval import EvalSpec
from holdfast.spec.schema.introspect import Field, block_within, schema_fields, schema_places

BEGIN, END = "<!-- reference: begin -->\n", "<!-- reference: end -->\n"
_HEADER = ("key", "meaning", "value", "default", "example", "change on resume")
_ON_CHANGE = {
    Drift.IDENTITY: "refused",
    Drift.RECORDED: "refused",
    Drift.SCORING: "refused",
    Drift.ADDITIVE: "may grow",
    Drift.THROUGHPUT: "allowed",
    Drift.LOCATION: "allowed",
    Drift.DERIVED: "allowed",
    Drift.UNMATCHED: "not compared",
}


def reference_text() -> str:
    """The sections of all blocks, then those of scorers, requirements and providers."""
    places = _block_places()
    lines = [line for block in places for line in _block_lines(block, places)]
    return "\n".join([*lines, *scorer_lines(), *requirement_lines(), *provider_lines()])


def with_reference(text: str) -> str:
    """A document with the current reference between its marks."""
    return between_marks(text, BEGIN, reference_text(), END)


def _block_places() -> dict[type[Block], list[str]]:
    """Every block with the paths under which its keys may be written, in the order of the top-level keys."""
    found: dict[type[Block], list[str]] = {}
    for place in schema_places(EvalSpec):
        path = place.path.removesuffix(place.field.name).removesuffix(".")
        paths = found.setdefault(place.block, [])
        paths += [path] if path not in paths else []
    paths_of = {block: sorted(paths, key=lambda path: path.startswith("tasks.")) for block, paths in found.items()}
    order = ["", *schema_fields(EvalSpec)]
    return dict(sorted(paths_of.items(), key=lambda item: (order.index(item[1][0].partition(".")[0]), item[1][0])))


def _block_lines(block: type[Block], places: dict[type[Block], list[str]]) -> list[str]:
    first, *others = places[block]
    lines = [f"### {f'`{first}`' if first else 'Top level'}", "", paragraph(block), ""]
    if others:
        named = [f"in `{path}`" if path else "at the top level" for path in others]
        lines += [f"The same keys may also be written {', '.join(named)}.", ""]
    if block.exactly_one:
        lines += [f"Exactly one of {', '.join(f'`{name}`' for name in block.exactly_one)} must be given.", ""]
    texts = field_texts(block)
    rows = [_field_row(field, texts[field.attribute], places) for field in schema_fields(block).values()]
    return [*lines, *markdown_table(_HEADER, rows), ""]


def _field_row(field: Field, text: FieldText, places: dict[type[Block], list[str]]) -> Row:
    default = "required" if field.required else text.default or default_cell(field.default)
    value = _value_cell(field, places)
    return f"`{field.name}`", text.meaning, value, default, example_cell(field.name, text), _change_cell(field)


def _value_cell(field: Field, places: dict[type[Block], list[str]]) -> str:
    within = block_within(field.type)
    if within is None:
        return kind_cell(field.type)
    block, inside = within
    kind = {"": "a map", ".*": "maps by name", ".*.*": "maps of lists, or of maps by name", "[]": "a list of maps"}[
        inside
    ]
    short = f", or text: `{'/'.join(block.shorthand)}`" if block.shorthand else ""
    # The anchor of a heading is its text without signs.
    return f"[{kind}](#{re.sub(r'[^a-z_]', '', places[block][0])}){short}"


def _change_cell(field: Field) -> str:
    """What becomes of a change; the keys of a block each say that for themselves."""
    within = block_within(field.type)
    if within and not within[1]:
        return "by key"
    return f"{_ON_CHANGE[field.drift]} ({field.drift.value}){EXCEPTIONS.get(field.name, '')}"


if __name__ == "__main__":
    document = Path(sys.argv[1])
    document.write_text(with_reference(document.read_text(encoding="utf-8")), encoding="utf-8")
