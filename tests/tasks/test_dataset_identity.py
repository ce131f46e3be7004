"""Samples are known by their id or their content, never by their position."""

import tracemalloc

import pytest
from dataset_files import open_dataset, open_rows, write_jsonl

from holdfast.errors import ConfigurationError
from holdfast.models.message import Message
from holdfast.spec import Operation, Shuffle
from holdfast.tasks.datasets import row_identity
from holdfast.tasks.datasets.columns import Columns
from holdfast.tasks.datasets.dataset import Dataset
from holdfast.tasks.datasets.ingest import ingest_samples
from holdfast.tasks.datasets.row_file import Rows
from holdfast.tasks.sample import Sample
from holdfast.tasks.template import Template


def questions(count, start=0):
    return [{"input": f"question {number}", "target": f"answer {number}"} for number in range(start, start + count)]


def by_key(dataset):
    return {dataset.key(position): dataset[position] for position in range(len(dataset))}


def test_the_key_is_the_id_that_the_dataset_gives(tmp_path):
    """An id, a text or an integer, is the sample's key."""
    dataset = open_dataset(write_jsonl(tmp_path / "a.jsonl", [{"id": "s1", "input": "x"}, {"id": 7, "input": "y"}]))
    assert list(dataset.keys()) == ["s1", "7"]


def test_without_an_id_the_key_depends_on_the_input_alone(tmp_path):
    """Reordering rows and editing a target leave every key as it was."""
    rows = questions(5)
    first = open_dataset(write_jsonl(tmp_path / "a.jsonl", rows))
    edited = [*reversed(rows[1:]), {**rows[0], "target": "another"}]
    second = open_dataset(write_jsonl(tmp_path / "b.jsonl", edited))
    assert set(first.keys()) == set(second.keys())
    assert by_key(second)[first.key(0)].target == "another"


def test_an_edited_target_changes_the_target_digest_alone(tmp_path):
    """Input and target have digests of their own."""
    first = open_dataset(write_jsonl(tmp_path / "a.jsonl", [{"input": "x", "target": "y"}]))
    second = open_dataset(write_jsonl(tmp_path / "b.jsonl", [{"input": "x", "target": "z"}]))
    assert first.input_digest(0) == second.input_digest(0)
    assert first.target_digest(0) != second.target_digest(0)


@pytest.mark.parametrize("change", [{"input": "X"}, {"choices": ["a", "b"]}, {"hint": "think"}])
def test_an_edit_of_anything_else_changes_the_input_digest_alone(tmp_path, change):
    """Whatever a prompt or a solver may use counts as input."""
    row = {"input": "x", "target": "y"}
    first = open_dataset(write_jsonl(tmp_path / "a.jsonl", [row]))
    second = open_dataset(write_jsonl(tmp_path / "b.jsonl", [row | change]))
    assert first.input_digest(0) != second.input_digest(0)
    assert first.target_digest(0) == second.target_digest(0)


def test_scoring_arguments_of_a_sample_count_as_target(tmp_path):
    """How a sample is judged is no part of what is asked."""
    row = {"input": "x", "target": "y"}
    first = open_dataset(write_jsonl(tmp_path / "a.jsonl", [row]))
    second = open_dataset(write_jsonl(tmp_path / "b.jsonl", [row | {"scoring": {"exact": {"ignore_case": True}}}]))
    assert first.input_digest(0) == second.input_digest(0)
    assert first.target_digest(0) != second.target_digest(0)


@pytest.mark.parametrize(
    ("target", "row", "edited"),
    [
        ("{capital}", {"country": "France", "capital": "Paris"}, {"country": "France", "capital": "Lyon"}),
        ("{meta.answer}!", {"q": "x", "meta": {"answer": 1, "n": 2}}, {"q": "x", "meta": {"answer": 3, "n": 2}}),
        ("{answer}", {"q": "x", "metadata": {"answer": 1}}, {"q": "x", "metadata": {"answer": 2}}),
    ],
)
def test_what_a_target_template_names_is_the_target(tmp_path, target, row, edited):
    """A task's target template decides which fields are target, wherever they stand in the row."""
    columns = Columns(target=Template.parse(target), stand_in=Template.parse("ask"))
    first = open_dataset(write_jsonl(tmp_path / "a.jsonl", [row]), columns=columns)
    second = open_dataset(write_jsonl(tmp_path / "b.jsonl", [edited]), columns=columns)
    assert first.key(0) == second.key(0)
    assert first.target_digest(0) != second.target_digest(0)
    assert first[0].target != second[0].target


def test_equal_rows_are_told_apart_by_occurrence(tmp_path):
    """A row that stands there twice is two samples with two keys."""
    rows = [{"input": "same"}, {"input": "other"}, {"input": "same"}, {"input": "same"}]
    keys = list(open_dataset(write_jsonl(tmp_path / "a.jsonl", rows)).keys())
    assert [key.removeprefix(keys[0]) for key in (keys[0], keys[2], keys[3])] == ["", "~2", "~3"]
    assert len(set(keys)) == 4


def test_a_repeated_id_with_the_same_content_is_a_second_occurrence(tmp_path):
    """Repeating a row with its id is no contradiction, and no two keys are spelled alike."""
    rows = [{"id": "a", "input": "x"}, {"id": "a", "input": "x"}, {"id": "a~2", "input": "y"}]
    assert list(open_dataset(write_jsonl(tmp_path / "a.jsonl", rows)).keys()) == ["a", "a~2", "a~2~1"]


@pytest.mark.parametrize(("change", "part"), [({"input": "y"}, "input"), ({"target": "u"}, "target")])
def test_one_id_with_two_contents_is_refused_naming_both_rows(tmp_path, change, part):
    """An id that means two things is an error at load."""
    row = {"id": "s1", "input": "x", "target": "t"}
    path = write_jsonl(tmp_path / "a.jsonl", [row, {"id": "s2", "input": "z"}, row | change])
    with pytest.raises(ConfigurationError, match=f"'s1' to rows 1 and 3, whose {part} differs"):
        open_dataset(path)


@pytest.mark.parametrize("value", [True, 1.5, ["a"], {}, "", "x" * 501])
def test_an_id_that_is_none_is_refused(tmp_path, value):
    """An id is a text or an integer of sensible length."""
    path = write_jsonl(tmp_path / "a.jsonl", [{"input": "x"}, {"id": value, "input": "x"}])
    with pytest.raises(ConfigurationError, match=r"id of a\.jsonl row 2"):
        open_dataset(path)


def test_keys_that_collide_in_the_table_are_still_told_apart(tmp_path, monkeypatch):
    """Rows whose digests begin alike are compared in full."""
    whole = row_identity.packed_digest
    monkeypatch.setattr(row_identity, "packed_digest", lambda content: bytes(12) + whole(content)[12:])
    rows = [{"id": f"s{number}", "input": f"q{number}"} for number in range(40)] + questions(40)
    dataset = open_dataset(write_jsonl(tmp_path / "a.jsonl", rows))
    assert len(set(dataset.keys())) == 80
    assert not any("~" in key for key in dataset.keys())  # noqa: SIM118 - a dataset is no dict


def test_named_columns_become_the_parts_of_a_sample(tmp_path):
    """Columns keep their own names beside the parts they are named for."""
    columns = Columns(named={"input": "question", "target": "gold", "id": "uid", "choices": "options"})
    row = {"question": "?", "gold": 1, "uid": "u", "options": '["p", "q"]', "level": 2}
    sample = open_dataset(write_jsonl(tmp_path / "a.jsonl", [row]), columns=columns)[0]
    assert (sample.input, sample.target, sample.id, sample.choices) == ("?", 1, "u", ["p", "q"])
    assert sample.metadata["level"] == 2
    assert sample.fields()["question"] == sample.fields()["input"] == "?"


@pytest.mark.parametrize("part", ["input", "target", "id", "choices"])
def test_a_row_without_a_named_column_is_refused(tmp_path, part):
    """A column that was named has to be in every row; the refusal names it, the row and the nearest."""
    columns = Columns(named={part: "colour"})
    path = write_jsonl(tmp_path / "a.jsonl", [{"input": "x", "color": "y"}])
    with pytest.raises(ConfigurationError) as caught:
        open_dataset(path, columns=columns)[0]
    assert "a.jsonl row 1 has no field 'colour'" in str(caught.value)
    assert "Did you mean 'color'?" in str(caught.value)


def test_a_row_without_input_is_refused_where_nothing_stands_in(tmp_path):
    """A sample without a question is refused, naming the fields there are."""
    dataset = open_dataset(write_jsonl(tmp_path / "a.jsonl", [{"question": "x"}]))
    with pytest.raises(ConfigurationError, match=r"row 1 has no field 'input'; it has question"):
        dataset[0]


def test_an_input_may_be_a_conversation(tmp_path):
    """A list of messages is taken as one; anything else that is no text is refused."""
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes?"}]
    rows = [{"input": turns}, {"input": []}, {"input": 5}]
    dataset = open_dataset(write_jsonl(tmp_path / "a.jsonl", rows))
    assert dataset[0].input == [Message("user", "hi"), Message("assistant", "yes?")]
    for position in (1, 2):
        with pytest.raises(ConfigurationError, match=f"row {position + 1}"):
            dataset[position]


def test_scoring_that_is_no_map_of_arguments_is_refused(tmp_path):
    """Arguments stand under the name of a scorer."""
    dataset = open_dataset(write_jsonl(tmp_path / "a.jsonl", [{"input": "x", "scoring": {"exact": True}}]))
    with pytest.raises(ConfigurationError, match=r"'scoring' of a\.jsonl row 1"):
        dataset[0]


def test_python_samples_come_back_equal(tmp_path):
    """A sample that goes through the canonical file is the sample that went in."""
    samples = [
        Sample("x", target=["a", "b"], id="1", choices=["a", "b"], metadata={"n": {"m": [1]}}),
        Sample([Message("user", "hi", name="u")], scoring={"exact": {"ignore_case": True}}),
    ]
    path = tmp_path / "samples"
    with path.open("wb") as destination:
        ingest_samples(samples, destination)
    assert list(Dataset(Rows.open(path))) == samples


def test_samples_can_be_picked_by_key(tmp_path):
    """Only the samples that were named are left, in their order; one that is not there is named with the nearest."""
    rows = [{"id": f"s{number}", "input": "x"} for number in range(5)] + [{"id": "s1", "input": "x"}]
    dataset = open_dataset(write_jsonl(tmp_path / "a.jsonl", rows))
    dataset.keep_only(["s1~2", "s3", "s1"])
    assert list(dataset.keys()) == ["s1", "s3", "s1~2"]
    with pytest.raises(ConfigurationError, match=r"a\.jsonl has no sample with the id 's33'\. Did you mean 's3'"):
        dataset.keep_only(["s1", "s33"])
    assert len(dataset) == 3


def test_an_id_of_rows_without_ids_names_what_is_missing(tmp_path):
    """The column that holds the wanted id is offered, and samples are listed as `show` names them."""
    dataset = open_dataset(write_jsonl(tmp_path / "a.jsonl", [{"input": "x", "country": "France"}, {"input": "y"}]))
    names = ", ".join(sorted(sample[:8] for sample in list(dataset.keys())))
    with pytest.raises(ConfigurationError) as refused:
        dataset.keep_only(["France"])
    assert "Add a column `id`, or name one in the dataset: `fields: {id: country}`." in refused.value.hint
    assert refused.value.hint.endswith(f"named by their content: {names}, …")
    with pytest.raises(ConfigurationError, match=r"fields: \{id: COLUMN\}"):
        dataset.keep_only(["Spain"])


@pytest.mark.parametrize("with_ids", [True, False])
def test_memory_grows_by_about_fifty_bytes_a_sample(tmp_path, with_ids):
    """Rows stay on disk: a shuffled dataset keeps places and digests in memory, and nothing else."""
    count = 20_000
    rows = [row | ({"id": f"s{number}"} if with_ids else {}) for number, row in enumerate(questions(count))]
    opened = open_rows(write_jsonl(tmp_path / "a.jsonl", rows))
    del rows
    tracemalloc.start()
    dataset = Dataset(opened, operations=[Operation(shuffle=Shuffle(seed=1))])
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(dataset) == count
    # The opened rows hold another eight bytes each.
    assert kept / count < 48
    assert peak / count < 72


def test_every_sample_is_found_by_its_key(tmp_path):
    """Also where keys repeat, and after samples were left out; a key that is not there has no position."""
    rows = [*questions(40), *questions(20), {"id": "a~2", "input": "x"}, {"id": "a", "input": "y"}]
    dataset = open_dataset(write_jsonl(tmp_path / "a.jsonl", rows), [Operation(shuffle=Shuffle(seed=1))])
    assert list(map(dataset.position, dataset.keys())) == list(range(len(rows)))
    assert [dataset.position(key) for key in ("a~2", "b", "")] == [None] * 3
    kept = [dataset.key(5), dataset.key(3)]
    dataset.keep_only(kept)
    assert [dataset.position(key) for key in [*kept, "a"]] == [1, 0, None]


def test_keys_that_begin_alike_are_told_apart(tmp_path, monkeypatch):
    """The table has a part of each digest only; what is found is compared with the key itself."""
    monkeypatch.setattr("holdfast.tasks.datasets.dataset.packed_digest", lambda _: bytes(16))
    dataset = open_dataset(write_jsonl(tmp_path / "a.jsonl", questions(5)))
    assert list(map(dataset.position, dataset.keys())) == list(range(5))
    assert dataset.position("other") is None
