"""What a row says, worked out the quick way and the general way."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.tasks.datasets.columns import Columns
from holdfast.tasks.datasets.row_content import RowContents
from holdfast.tasks.template import Template

NAMES = st.sampled_from(
    ["id", "input", "target", "scoring", "question", "answer", "metadata", "metadata.answer", "answer.0", "metadatum"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=4,
)
COLUMNS = st.builds(
    Columns,
    named=st.dictionaries(st.sampled_from(["id", "input", "target"]), NAMES, max_size=2),
    target=st.none() | st.sampled_from(["{answer}", "{target}", "{answer.0} {id}"]).map(Template.parse),
    asked=st.lists(NAMES, max_size=2).map(tuple),
)


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(NAMES, VALUES, max_size=5), COLUMNS)
def test_rows_with_plain_columns_have_the_contents_that_the_general_way_finds(row, columns):
    """The quick way for rows without nested columns changes no digest: a row keeps its identity between versions."""
    row = msgspec.json.decode(msgspec.json.encode(row))
    quick, general = RowContents(columns), RowContents(columns)
    general._plain[tuple(row)] = False
    assert (quick.input(row), quick.target(row)) == (general.input(row), general.target(row))
