"""docs/format.md is enough to write another reader: every field of every record stands in it."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from holdfast.run.core.records import RECORD_TYPES

PAGE = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("record", RECORD_TYPES)
def test_every_field_of_a_record_is_documented(record):
    """A field that is added to a record is added to the page; `v` is told once for all."""
    (row,) = re.findall(rf"^\| `{record.__struct_config__.tag}` \|[^|]*\| `([^`]*)`", PAGE, re.MULTILINE)
    told = {name.strip() for name in row.split(",")}
    assert told == {field.encode_name for field in msgspec.structs.fields(record)} - {"v"}
