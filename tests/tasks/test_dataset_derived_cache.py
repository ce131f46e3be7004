"""What was worked out about a dataset is kept, and believed only while it is sound and still fits."""

import pytest
from dataset_files import open_rows, write_jsonl

from holdfast.spec import Operation, Shuffle
from holdfast.tasks.datasets.columns import Columns
from holdfast.tasks.datasets.dataset import Dataset
from holdfast.tasks.datasets.derived_cache import DerivedCache
from holdfast.tasks.datasets.row_file import Rows

COUNT = 2500


@pytest.fixture
def rows(tmp_path):
    given = [{"id": f"s{number % 2400}", "input": f"q{number % 2400}"} for number in range(COUNT)]
    opened = open_rows(write_jsonl(tmp_path / "a.jsonl", given))
    opened.cache = DerivedCache()
    return opened


def identities(rows: Rows, columns: Columns | None = None) -> list:
    dataset = Dataset(rows, columns, [Operation(shuffle=Shuffle(seed=3))])
    digests = [(dataset.input_digest(place), dataset.target_digest(place)) for place in range(len(dataset))]
    return [list(dataset.keys()), digests, dataset.has_ids]


def keep(rows: Rows, directory) -> None:
    """As a session does that has begun, and as the next one finds it."""
    rows.cache.keep(directory)
    rows.cache = DerivedCache(directory)


def refuse_to_read(monkeypatch) -> None:
    def refuse(*_):
        raise AssertionError("the rows were digested again")

    monkeypatch.setattr("holdfast.tasks.datasets.row_identity.RowIdentities._identify", refuse)


def test_a_large_dataset_is_digested_once(rows, tmp_path, monkeypatch):
    """The next session finds every identity, and takes no digest again."""
    worked_out = identities(rows)
    keep(rows, tmp_path / "cache")
    refuse_to_read(monkeypatch)
    assert identities(rows) == worked_out


def test_nothing_is_written_before_there_is_leave(rows, tmp_path):
    """Whoever only looks at a run leaves nothing in it."""
    rows.cache = DerivedCache(tmp_path / "cache")
    identities(rows)
    assert not (tmp_path / "cache").exists()


def test_a_small_dataset_leaves_nothing(tmp_path):
    """What is worked out in no time is not kept."""
    rows = open_rows(write_jsonl(tmp_path / "a.jsonl", [{"input": "q"}]))
    rows.cache = DerivedCache()
    identities(rows)
    rows.cache.keep(tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("place", [0, 1, 17, COUNT * 16 + 3, COUNT * 32 + 5, -20, -1])
def test_a_changed_byte_is_not_believed(rows, tmp_path, place):
    """Wherever a byte of the kept identities has changed, they are worked out anew, and are the same."""
    worked_out = identities(rows)
    keep(rows, tmp_path / "cache")
    (file,) = (tmp_path / "cache").iterdir()
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)
    assert identities(rows) == worked_out
    keep(rows, tmp_path / "cache")
    assert file.read_bytes() != data


@pytest.mark.parametrize("length", [0, 5, 16, 1000, -1])
def test_a_cut_file_is_not_believed(rows, tmp_path, length):
    """Kept identities that were cut off are worked out anew."""
    worked_out = identities(rows)
    keep(rows, tmp_path / "cache")
    (file,) = (tmp_path / "cache").iterdir()
    file.write_bytes(file.read_bytes()[:length])
    assert identities(rows) == worked_out


def test_a_file_under_another_name_is_not_believed(rows, tmp_path):
    """Identities of one dataset never pass for those of another."""
    keep_name = identities(rows)
    keep(rows, tmp_path / "cache")
    (file,) = (tmp_path / "cache").iterdir()
    other = open_rows(write_jsonl(tmp_path / "b.jsonl", [{"input": f"other {number}"} for number in range(COUNT)]))
    other.cache = DerivedCache()
    own = identities(other)
    keep(other, tmp_path / "other")
    (theirs,) = (tmp_path / "other").iterdir()
    theirs.write_bytes(file.read_bytes())
    assert identities(other) == own
    assert keep_name != own


def test_other_columns_are_other_identities(rows, tmp_path):
    """What of a row is input and what target is part of what its identity follows from."""
    identities(rows)
    keep(rows, tmp_path / "cache")
    columns = Columns(named={"target": "input"})
    found = identities(rows, columns)
    rows.cache = None
    assert found == identities(rows, columns)
    assert found != identities(rows)


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(rows, tmp_path):
    """Where nothing can be kept, the session goes on all the same."""
    worked_out = identities(rows)
    (tmp_path / "cache").write_text("a file stands where the directory should be")
    keep(rows, tmp_path / "cache")
    assert identities(rows) == worked_out
