"""What docs/resume.md says about the fields of an eval is what the schema says."""

from __future__ import annotations

from pathlib import Path

from holdfast.cli.main import COMMANDS
from holdfast.spec.compare import way_out_of
from holdfast.spec.schema.docs_table import BEGIN, END, ON_RESUME, fields_table, with_table
from holdfast.spec.schema.drift import Drift
from holdfast.spec.schema.eval import EvalSpec
from holdfast.spec.schema.introspect import schema_places

PAGE = Path(__file__).parents[2] / "docs" / "resume.md"


def test_the_table_of_fields_is_the_schema_s():
    """The page holds the table as the schema gives it now; a field added to the schema has to be added here."""
    page = PAGE.read_text(encoding="utf-8")
    assert BEGIN in page
    assert END in page
    assert with_table(page) == page


def test_the_table_has_every_value():
    """Every field that holds a value stands in the table, with each place where it may stand and its class."""
    table = fields_table()
    leaves = [place for place in schema_places(EvalSpec) if place.is_leaf]
    assert len(leaves) > 50
    for place in leaves:
        rows = [line for line in table.splitlines() if line.startswith(f"| `{place.field.name}` |")]
        assert any(f"`{place.path}`" in row and f"| {place.drift.value} |" in row for row in rows), place.path


def test_the_ways_out_name_commands_that_exist():
    """What a refusal or the page tells a person to do can be done."""
    for drift in Drift:
        for text in (way_out_of(drift), ON_RESUME[drift]):
            named = [piece.removeprefix("holdfast ") for piece in text.split("`")[1::2]]
            assert set(named) <= set(COMMANDS), text
