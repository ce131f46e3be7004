"""Choosing and ordering samples: by content and seed, stable when the file grows."""

import random
from array import array

import msgspec
import pytest
from dataset_files import open_dataset, write_jsonl
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import ConfigurationError
from holdfast.spec import Operation
from holdfast.tasks.datasets.operations import _ascending


def operations(*given_operations):
    return msgspec.convert(list(given_operations), list[Operation])


def inputs(dataset):
    return [sample.input for sample in dataset]


def rows_of(count, *, ids=False):
    return [{"input": f"q{number}"} | ({"id": f"s{number}"} if ids else {}) for number in range(count)]


@pytest.mark.parametrize("ids", [True, False])
def test_appended_rows_do_not_reshuffle_the_others(tmp_path, ids):
    """The order of the old rows among themselves is the same after rows were added."""
    chosen = operations({"shuffle": {"seed": 42}})
    before = inputs(open_dataset(write_jsonl(tmp_path / "a.jsonl", rows_of(300, ids=ids)), chosen))
    after = inputs(open_dataset(write_jsonl(tmp_path / "b.jsonl", rows_of(500, ids=ids)), chosen))
    assert [text for text in after if text in set(before)] == before
    assert before != inputs(open_dataset(tmp_path / "a.jsonl"))


def test_a_shuffle_does_not_depend_on_the_order_of_the_file(tmp_path):
    """Rows in any order are shuffled into one order."""
    seed = random.randrange(2**32)
    print("seed", seed)
    rows = rows_of(100)
    first = open_dataset(write_jsonl(tmp_path / "a.jsonl", rows), operations({"shuffle": {"seed": 1}}))
    random.Random(seed).shuffle(rows)
    second = open_dataset(write_jsonl(tmp_path / "b.jsonl", rows), operations({"shuffle": {"seed": 1}}))
    assert inputs(first) == inputs(second)


def test_another_seed_is_another_order(tmp_path):
    """The seed decides."""
    path = write_jsonl(tmp_path / "a.jsonl", rows_of(50))
    orders = {tuple(inputs(open_dataset(path, operations({"shuffle": {"seed": seed}})))) for seed in (-1, 0, 1, 2**62)}
    assert len(orders) == 4


def test_editing_a_target_does_not_move_the_sample(tmp_path):
    """A scoring change leaves a shuffled and sliced selection as it was."""
    chosen = operations({"shuffle": {"seed": 3}}, {"slice": {"num": 10}})
    rows = [row | {"target": "t"} for row in rows_of(50)]
    first = open_dataset(write_jsonl(tmp_path / "a.jsonl", rows), chosen)
    edited = [row | {"target": "u"} for row in rows]
    assert inputs(first) == inputs(open_dataset(write_jsonl(tmp_path / "b.jsonl", edited), chosen))


@given(st.lists(st.integers(0, 2**64 - 1), max_size=3000, unique=True))
@settings(max_examples=30, deadline=None)
def test_positions_come_in_the_order_of_their_ranks(ranks):
    """Sorting bucket by bucket is sorting."""
    assert list(_ascending(array("Q", ranks))) == sorted(range(len(ranks)), key=ranks.__getitem__)


@pytest.mark.parametrize(
    ("given_slice", "expected"),
    [({"num": 2}, ["q0", "q1"]), ({"start": 3}, ["q3", "q4"]), ({"start": 1, "num": 1}, ["q1"]), ({"num": 9}, 5)],
)
def test_slice_takes_a_stretch(tmp_path, given_slice, expected):
    """A slice starts at a position and takes so many, or what there is."""
    found = inputs(open_dataset(write_jsonl(tmp_path / "a.jsonl", rows_of(5)), operations({"slice": given_slice})))
    assert (len(found) if isinstance(expected, int) else found) == expected


@pytest.mark.parametrize(
    ("given_filter", "expected"),
    [
        ({"field": "level", "equals": 2}, ["b"]),
        ({"field": "level", "equals": "2"}, ["b"]),
        ({"field": "level", "in": [1, "3"]}, ["a", "c"]),
        ({"field": "level", "equals": True}, ["d"]),
        ({"field": "meta.tags.0", "equals": "x"}, ["a"]),
        ({"field": "meta.tags.0", "matches": "^[xy]$"}, ["a", "b"]),
        ({"field": "level", "matches": "^[12]$"}, ["a", "b"]),
    ],
)
def test_filter_keeps_the_rows_whose_field_fits(tmp_path, given_filter, expected):
    """Equality is that of JSON, or of texts where one side is text; a row without the field does not fit."""
    rows = [
        {"input": "a", "level": 1, "meta": {"tags": ["x"]}},
        {"input": "b", "level": 2, "meta": {"tags": ["y"]}},
        {"input": "c", "level": "3"},
        {"input": "d", "level": True},
        {"input": "e"},
    ]
    found = open_dataset(write_jsonl(tmp_path / "a.jsonl", rows), operations({"filter": given_filter}))
    assert inputs(found) == expected


def test_repeated_samples_have_keys_of_their_own_that_stay_when_rows_are_appended(tmp_path):
    """Every repetition is a sample, known by an occurrence number that does not depend on later rows."""
    twice = operations({"repeat": {"times": 2}})
    rows = [{"id": "a", "input": "x"}, {"id": "b", "input": "y"}, {"id": "a", "input": "x"}]
    first = open_dataset(write_jsonl(tmp_path / "a.jsonl", rows), twice)
    assert inputs(first) == ["x", "y", "x"] * 2
    assert list(first.keys()) == ["a", "b", "a~3", "a~2", "b~2", "a~4"]
    more = [*rows, {"id": "a", "input": "x"}]
    second = open_dataset(write_jsonl(tmp_path / "b.jsonl", more), twice)
    assert set(first.keys()) < set(second.keys())


def test_a_shuffle_after_a_repeat_spreads_the_repetitions(tmp_path):
    """Each occurrence has a place of its own."""
    chosen = operations({"repeat": {"times": 3}}, {"shuffle": {"seed": 5}})
    found = inputs(open_dataset(write_jsonl(tmp_path / "a.jsonl", rows_of(30)), chosen))
    assert sorted(found) == sorted([f"q{number}" for number in range(30)] * 3)
    assert found[:30] != found[30:60]


def test_operations_run_in_the_order_they_are_given_and_the_limit_comes_last(tmp_path):
    """Shuffling what was sliced is not slicing what was shuffled."""
    path = write_jsonl(tmp_path / "a.jsonl", rows_of(40))
    shuffle, cut = {"shuffle": {"seed": 9}}, {"slice": {"num": 10}}
    assert set(inputs(open_dataset(path, operations(cut, shuffle)))) == {f"q{number}" for number in range(10)}
    shuffled = inputs(open_dataset(path, operations(shuffle)))
    assert inputs(open_dataset(path, operations(shuffle, cut), limit=4)) == shuffled[:4]


@pytest.mark.parametrize("operation", [{"slice": {"start": 99}}, {"filter": {"field": "input", "equals": "no"}}])
def test_operations_that_leave_nothing_are_refused(tmp_path, operation):
    """An empty selection is named with the operation that emptied it."""
    path = write_jsonl(tmp_path / "a.jsonl", rows_of(3))
    with pytest.raises(ConfigurationError, match=r"Operation 2 on the dataset a\.jsonl leaves none of 3 samples"):
        open_dataset(path, operations({"slice": {"num": 2}}, operation))


def test_a_filter_pattern_that_is_none_is_refused(tmp_path):
    """A broken pattern is a sentence."""
    path = write_jsonl(tmp_path / "a.jsonl", rows_of(3))
    with pytest.raises(ConfigurationError, match="not a valid regular expression"):
        open_dataset(path, operations({"filter": {"field": "input", "matches": "("}}))
