"""Rows 52, 54 and 57: arrays and tables of packages are compared by everything that code can see of them."""
# ruff: noqa: E501 - a case is a line of its own

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from code_project import code

from holdfast.run.drift.code_changes import code_changes, first_changes, opaque_values
from holdfast.tasks.task_code import code_of
from holdfast.tasks.task_reference import load_use

SALT = "00" * 16
SOLVE = "async def solve(trial):\n    return (await trial.generate(str(V))).text\n"
HEADS = {
    "np": "import numpy as np\n",
    "pd": "import pandas as pd\n",
    "pl": "import polars as pl\n",
    "pa": "import pyarrow as pa\n",
    "dt": "import datetime as dt\nclass D(dt.datetime): pass\n",
}
PACKAGES = {"np": "numpy", "pd": "pandas", "pl": "polars", "pa": "pyarrow", "dt": "datetime"}


@pytest.fixture
def trees(tmp_path):
    """The trees of task files, each loaded from a directory of its own."""
    numbers = itertools.count()

    def taken(value: str):
        package = value.split(".", maxsplit=1)[0] if value.split(".", maxsplit=1)[0] in HEADS else "dt"
        pytest.importorskip(PACKAGES[package])
        place = tmp_path / str(next(numbers))
        place.mkdir()
        (place / "tk.py").write_text(code(f"{HEADS[package]}V = {value}\n{SOLVE}"))
        return code_of(load_use("tk.py:t", Path(place)), SALT).tree

    return taken


CHANGED = {
    "mask": ("np.ma.array([1.0, 2.0, 9.0], mask=[0, 0, 1])", "np.ma.array([1.0, 2.0, 9.0], mask=[0, 1, 0])"),
    "fill value": ("np.ma.array([1, 2], fill_value=7)", "np.ma.array([1, 2], fill_value=8)"),
    "hard mask": ("np.ma.array([1, 2], mask=[0, 1], hard_mask=False)", "np.ma.array([1, 2], mask=[0, 1], hard_mask=True)"),
    "names of fields": ("np.array([(1, 2)], dtype=[('a', 'i4'), ('b', 'i4')])", "np.array([(1, 2)], dtype=[('b', 'i4'), ('a', 'i4')])"),
    "one field": ("np.zeros(1, dtype=[('a', 'i4')])[0]", "np.zeros(1, dtype=[('b', 'i4')])[0]"),
    "records": ("np.rec.array([(1, 2)], names='a,b')", "np.array([(1, 2)], dtype=[('a', 'i8'), ('b', 'i8')])"),
    "matrix": ("np.matrix([[1, 2], [3, 4]])", "np.array([[1, 2], [3, 4]])"),
    "order in memory": ("np.array([[1, 2], [3, 4]], order='C')", "np.array([[1, 2], [3, 4]], order='F')"),
    "order of three axes": ("np.zeros((2, 3, 4))", "np.zeros((3, 2, 4)).transpose(1, 0, 2)"),
    "read-only": ("np.frombuffer(b'abcd', dtype='u1')", "np.frombuffer(bytearray(b'abcd'), dtype='u1')"),
    "metadata": ("np.zeros(1, np.dtype('i4', metadata={'a': 1}))", "np.zeros(1, np.dtype('i4', metadata={'a': 2}))"),
    "objects": ("np.array(['one', None], dtype=object)", "np.array(['two', None], dtype=object)"),
    "texts": ("np.array(['one'], dtype=np.dtypes.StringDType())", "np.array(['two'], dtype=np.dtypes.StringDType())"),
    "type of number": ("np.dtype('i4')", "np.dtype('i8')"),
    "random numbers": ("np.random.default_rng(1)", "np.random.default_rng(2)"),
    "earlier random numbers": ("np.random.RandomState(1)", "np.random.RandomState(2)"),
    "view": ("memoryview(b'one')", "memoryview(b'two')"),
    "frame": ("pd.DataFrame({'w': ['hi']})", "pd.DataFrame({'w': ['ho']})"),
    "columns of a frame": ("pd.DataFrame({'w': [1], 'v': [2]})", "pd.DataFrame({'v': [2], 'w': [1]})"),
    "index of a frame": ("pd.DataFrame({'w': [1, 2]}, index=[0, 1])", "pd.DataFrame({'w': [1, 2]}, index=[0, 2])"),
    "type of a column": ("pd.DataFrame({'w': [1]})", "pd.DataFrame({'w': [1.0]})"),
    "moments in a frame": ("pd.DataFrame({'w': [pd.Timestamp(1)]})", "pd.DataFrame({'w': [pd.Timestamp(2)]})"),
    "series": ("pd.Series([1, None])", "pd.Series([1, 2])"),
    "name of a series": ("pd.Series([1], name='a')", "pd.Series([1], name='b')"),
    "categories": ("pd.Categorical(['a'], categories=['a', 'b'])", "pd.Categorical(['a'], categories=['b', 'a'])"),
    "range": ("pd.RangeIndex(3)", "pd.RangeIndex(4)"),
    "labels": ("pd.MultiIndex.from_tuples([(1, 2)])", "pd.MultiIndex.from_tuples([(1, 3)])"),
    "missing": ("pd.array([1, None], dtype='Int64')", "pd.array([1, 2], dtype='Int64')"),
    "nanoseconds": ("pd.Timestamp('2020-01-01 00:00:00.000000001')", "pd.Timestamp('2020-01-01 00:00:00.000000002')"),
    "zone of a moment": ("pd.Timestamp('2020', tz='UTC')", "pd.Timestamp('2020', tz='Europe/Rome')"),
    "frame of polars": ("pl.DataFrame({'a': [1, 2]})", "pl.DataFrame({'a': [1, 3]})"),
    "types of polars": ("pl.DataFrame({'a': [1]}, schema={'a': pl.Int8})", "pl.DataFrame({'a': [1]}, schema={'a': pl.Int16})"),
    "series of polars": ("pl.Series('a', [1])", "pl.Series('b', [1])"),
    "table": ("pa.table({'a': [1, None]})", "pa.table({'a': [1, 2]})"),
    "metadata of a table": ("pa.table({'a': [1]}, metadata={'x': '1'})", "pa.table({'a': [1]}, metadata={'x': '2'})"),
    "array": ("pa.array([1])", "pa.array([1], pa.int8())"),
    "scalar": ("pa.scalar('one')", "pa.scalar('two')"),
    "zone of an own class": ("D(2020, 1, 1, tzinfo=dt.timezone.utc)", "D(2020, 1, 1, tzinfo=dt.timezone.min)"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("name", CHANGED)
def test_resume_52_what_an_array_or_a_table_is(trees, name):
    """52: what code sees of it counts, it is compared completely, and equal ones are equal."""
    old, new = (trees(text) for text in CHANGED[name])
    found = [change.sentence("") for found in code_changes(old, new).values() for change in first_changes(found)[0]]
    assert any(sentence.startswith("V") for sentence in found), found
    assert opaque_values([old, new]) == {}
    assert code_changes(old, trees(CHANGED[name][0])) == {}


def test_resume_54_a_changed_cell_is_named_with_both_values(trees):
    """54: a small table that was read at import is shown where it differs."""
    old, new = trees("pd.DataFrame({'q': [1, 2]})"), trees("pd.DataFrame({'q': [1, 3]})")
    (changes,) = code_changes(old, new).values()
    assert [change.sentence("") for change in changes] == ["V['q'][1] has changed: 2 → 3"]


def test_resume_57_a_table_beyond_the_bound_cannot_be_compared(trees):
    """57: as any other value."""
    assert opaque_values([trees("pd.DataFrame({'q': range(30_000)})")]) == {"V": "too large"}


EQUAL = {
    "fill value that was asked for": ("np.ma.array([1, 2])", "(lambda a: (a.fill_value, a)[1])(np.ma.array([1, 2]))"),
    "chunks": ("pa.chunked_array([[1, 2]])", "pa.chunked_array([[1], [2]])"),
    "blocks": ("pd.DataFrame({'a': [1], 'b': [2]})", "(lambda f: (f.insert(1, 'b', [2]), f)[1])(pd.DataFrame({'a': [1]}))"),
}  # fmt: skip


@pytest.mark.parametrize("name", EQUAL)
def test_resume_82_how_a_table_lies_in_memory(trees, name):
    """82: what no code sees makes no difference."""
    old, new = EQUAL[name]
    head = next(key for key in HEADS if f"{key}." in old)
    assert code_changes(trees(old), trees(new if new.startswith(head) else f"{head}.__name__ and {new}")) == {}
