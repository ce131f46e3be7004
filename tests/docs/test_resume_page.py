"""What docs/resume.md says about the fields of an eval is what the schema says."""

from __future__ import annotations

from pathlib import Path

from holdfast.spec.table import drift_table

PAGE = Path(__file__).parents[2] / "docs" / "resume.md"


def test_the_table_of_fields_is_the_schema_s():
    """Every field stands in the page with its class; a field added to the schema has to be added here."""
    assert PAGE.read_text(encoding="utf-8").endswith(drift_table() + "\n")
