"""Taking datasets in: every format comes to the same rows, and a bad row is named."""

import csv
import io
import json
import math

import pytest
from dataset_files import open_rows, write_jsonl
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import ConfigurationError, RunDamaged
from holdfast.tasks.datasets import formats
from holdfast.tasks.datasets.ingest import ingest, ingest_samples
from holdfast.tasks.datasets.row_file import Rows
from holdfast.tasks.sample import Sample

ROWS = [{"id": "a", "input": "1 + 1", "target": "2"}, {"id": "b", "input": 'say "hi",\nplease', "target": "hi"}]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
json_rows = st.lists(st.dictionaries(texts, json_values, max_size=5), min_size=1, max_size=6)


def refusal(path, form=None):
    with pytest.raises(ConfigurationError) as caught:
        ingest(path, form, io.BytesIO())
    return str(caught.value)


def test_every_format_comes_to_the_same_content(tmp_path):
    """JSON lines, an array, a wrapped array and CSV with the same rows have one digest."""
    lines = write_jsonl(tmp_path / "a.jsonl", ROWS)
    array = tmp_path / "b.json"
    array.write_text(json.dumps(ROWS, indent=2))
    wrapped = tmp_path / "c.json"
    wrapped.write_text(json.dumps({"version": 3, "data": ROWS}))
    table = tmp_path / "d.csv"
    table.write_bytes(b'target,id,input\r\n2,a,1 + 1\r\nhi,b,"say ""hi"",\nplease"\r\n')
    taken = [ingest(path, None, io.BytesIO()) for path in (lines, array, wrapped, table)]
    assert {result.digest for result in taken} == {taken[0].digest}
    assert {result.rows for result in taken} == {2}


def test_spacing_key_order_blank_lines_and_a_byte_order_mark_do_not_count(tmp_path):
    """The digest is of the rows, not of how they were typed."""
    plain = write_jsonl(tmp_path / "plain.jsonl", [{"a": 1, "b": [2.5]}, {"a": 2}])
    loose = tmp_path / "loose.jsonl"
    loose.write_bytes(b'\xef\xbb\xbf{ "b" : [2.5], "a":1 }\r\n\n   \n{"a" :2}')
    assert ingest(plain, None, io.BytesIO()).digest == ingest(loose, None, io.BytesIO()).digest


def test_the_canonical_form_is_what_was_counted_and_digested(tmp_path):
    """The figures returned describe the bytes written, and ingesting them again changes nothing."""
    destination = io.BytesIO()
    taken = ingest(write_jsonl(tmp_path / "a.jsonl", ROWS), None, destination)
    written = destination.getvalue()
    assert (taken.rows, taken.bytes) == (written.count(b"\n"), len(written))
    again = tmp_path / "again.jsonl"
    again.write_bytes(written)
    assert ingest(again, None, io.BytesIO()) == taken


@given(json_rows)
@settings(max_examples=60, deadline=None)
def test_any_json_objects_come_back_as_they_were(tmp_path_factory, rows):
    """Whatever JSON objects go in come out equal, by number."""
    source = write_jsonl(tmp_path_factory.mktemp("rows") / "rows.jsonl", rows)
    with open_rows(source) as opened:
        assert [opened[number] for number in range(len(opened))] == rows


@given(st.lists(st.lists(texts.filter(lambda text: "\0" not in text), min_size=2, max_size=2), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_any_csv_cells_come_back_as_they_were(tmp_path_factory, cells):
    """Quotes, commas and line breaks inside CSV cells are kept."""
    source = tmp_path_factory.mktemp("table") / "table.csv"
    quoted = ["one,two"] + [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in cells]
    source.write_bytes("\n".join(quoted).encode())
    with open_rows(source) as opened:
        assert [[row["one"], row["two"]] for row in opened] == cells


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{nonsense}", "is not JSON"),
        (b'{"input": "cut', "cut off"),
        (b"[1, 2]", "is an array, not a JSON object"),
        (b"null", "is null, not a JSON object"),
        (b'"text"', "is a text, not a JSON object"),
        (b'{"input": "x", "weight": NaN}', "NaN in the field 'weight'"),
        (b'{"input": "x", "deep": {"list": [1, -Infinity]}}', "infinite number in the field 'deep.list.1'"),
        (b'{"input": "x", "weight": 1e999}', "infinite number in the field 'weight'"),
        (b'{"input": "caf\xe9"}', "not valid UTF-8 in the field 'input'"),
        (b'{"input": "\\ud83d alone"}', "not valid UTF-8 in the field 'input'"),
        (b'{"input": "a\x00b"}', "NUL byte"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_line_is_refused_with_its_file_line_and_field(tmp_path, line, said):
    """One bad row in a JSON lines file is one sentence that says which and why."""
    path = tmp_path / "questions.jsonl"
    path.write_bytes(b'{"input": "fine"}\n\n' + line + b'\n{"input": "fine"}\n')
    message = refusal(path)
    assert "questions.jsonl line 3" in message
    assert said in message
    assert "\n" not in message and len(message) < 400


def test_a_huge_line_is_refused_without_being_read_whole(tmp_path, monkeypatch):
    """A row beyond the cap is refused by size, even when it never ends."""
    monkeypatch.setattr(formats, "MAX_ROW_BYTES", 1000)
    path = tmp_path / "big.jsonl"
    path.write_bytes(b'{"input": "ok"}\n{"input": "' + b"x" * 5000 + b'"}\n')
    assert "big.jsonl line 2 is longer than 1,000 bytes" in refusal(path)


def test_a_json_array_beyond_the_cap_is_refused_and_names_json_lines(tmp_path, monkeypatch):
    """Only what fits in memory is read whole; the way out is the streamed format."""
    monkeypatch.setattr(formats, "MAX_ARRAY_BYTES", 100)
    path = tmp_path / "big.json"
    path.write_text(json.dumps([{"input": "x" * 200}]))
    message = refusal(path)
    assert "big.json" in message and "JSON lines" in message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"rows": []}', 'under "data"'),
        ("42", 'under "data"'),
        ('[{"input": "x"}, 7]', "row 2 is a number, not a JSON object"),
        ('[{"input": "x"}, {"input": NaN}]', "NaN"),
        ('{"input": "x"}\n{"input": "y"}', "jsonl"),
        ('[{"input": "x"}', "cut off"),
        ("[]", "is empty"),
    ],
)
def test_a_json_file_of_another_shape_is_refused(tmp_path, content, said):
    """An array of objects is asked for, and what stands there instead is named."""
    path = tmp_path / "rows.json"
    path.write_text(content)
    message = refusal(path)
    assert "rows.json" in message and said in message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"id,input\n1,a\n2\n", "line 3 has no value for the field 'input'"),
        (b"id,input\n1,a,b\n", "line 2 has 3 values for 2 fields"),
        (b"id,id\n1,a\n", "names the field 'id' twice"),
        (b"id,\n1,a\n", "column 2 has no name"),
        (b'id,input\n1,a\n2,"never closed\nmore\n', "line 3 is not CSV"),
        (b"id,input\n1,a\n2,caf\xe9\n", "line 3 is not UTF-8 (byte 6)"),
        (b"id,input\n1,a\x00b\n", "line 2 holds a NUL byte"),
        (b'id,input\n1,"a"b\n', "there is text after a closing quote"),
        (b'id,input\n1,"a', "a quote is opened and never closed"),
        (b"id,input\n1,a\rb\n", "a carriage return (CR) inside a field without quotes"),
        (b"id,input\n", "has a header and no rows"),
        (b"id,input\r1,a\r2,b\r", "has line ends of the old Mac kind (CR alone)"),
        (b"", "is empty"),
    ],
)
def test_a_bad_csv_row_is_refused_with_its_line(tmp_path, content, said):
    """The line on which the bad record begins is named."""
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    message = refusal(path)
    assert "table.csv" in message and said in message


def test_a_table_named_jsonl_is_called_a_table(tmp_path):
    """Correcting a row would not help; the way out does."""
    path = tmp_path / "table.jsonl"
    path.write_bytes(b"id,input\n1,a\n")
    message = refusal(path)
    assert "table.jsonl is not JSON lines: it begins like CSV, 'id,input'." in message
    assert message.endswith("Name it .csv, or set format: csv in the dataset.")
    assert ingest(path, "csv", io.BytesIO()).rows == 1


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize(
    ("name", "content"),
    [("t.csv", "id,input\n1,a\n"), ("t.jsonl", '{"input": "a"}\n'), ("t.json", '[{"input": "a"}]')],
)
def test_a_file_in_a_wide_encoding_is_named_as_that(tmp_path, encoding, name, content):
    """What a spreadsheet saves as Unicode is not called a bad row; the way out works."""
    path = tmp_path / name
    path.write_bytes(content.encode(encoding))
    message = refusal(path)
    assert f"{name} is encoded in {'UTF-32' if '32' in encoding else 'UTF-16'}, not in UTF-8." in message
    assert message.endswith("Re-save the file as UTF-8.")
    path.write_bytes(content.encode("utf-8"))
    assert ingest(path, None, io.BytesIO()).rows == 1


@pytest.mark.parametrize("content", [b"\0\n", b"a\0b,c\n", b"\0" * 64, b'{"input": "\0\0\0\0"}\n'])
def test_nul_bytes_alone_are_no_encoding(tmp_path, content):
    """A file that a crash has filled with NUL bytes is not UTF-16."""
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    assert "NUL byte" in refusal(path)


@pytest.mark.parametrize("header", [b"id,id", b"id,", b" id ,id"])
def test_a_bad_header_is_corrected_and_not_removed(tmp_path, header):
    """The way out fits the line: without its header a table has no fields."""
    path = tmp_path / "t.csv"
    path.write_bytes(header + b"\n1,a\n")
    assert refusal(path).endswith("Correct the header.")


@pytest.mark.parametrize(
    ("content", "row"),
    [
        ("id, country\n1, France\n", {"id": "1", "country": "France"}),
        ('id, country\n1, "Korea, South"\n', {"id": "1", "country": "Korea, South"}),
        ('id, "country, or land"\n1, x\n', {"id": "1", "country, or land": "x"}),
        ("\n id , country \n 1 , New Zealand \n", {"id": "1", "country": "New Zealand"}),
        ('id, country\n1, " kept"\n', {"id": "1", "country": " kept"}),
        ("id,country\n1, kept \n", {"id": "1", "country": " kept "}),
        ('"a, b",c\n1, kept\n', {"a, b": "1", "c": " kept"}),
    ],
)
def test_spaces_around_commas_count_in_all_lines_or_in_none(tmp_path, content, row):
    """Where the header is padded so are the cells, and neither keeps the padding; quotes keep it."""
    path = tmp_path / "padded.csv"
    path.write_text(content)
    with open_rows(path) as rows:
        assert list(rows) == [row]


def test_a_padded_table_with_a_bad_row_names_its_line(tmp_path):
    """Looking at the header first does not move the line numbers."""
    path = tmp_path / "padded.csv"
    path.write_text("\n\nid, country\n1, x\n2\n")
    assert "padded.csv line 5 has no value for the field 'country'" in refusal(path)


def test_long_csv_cells_are_read_and_the_limit_of_the_process_is_left_alone(tmp_path):
    """A cell longer than Python's own limit is fine, and that limit is as before afterwards."""
    before = csv.field_size_limit()
    path = tmp_path / "long.csv"
    path.write_text("input\n" + "x" * (before + 10) + "\n")
    with open_rows(path) as rows:
        assert len(rows[0]["input"]) == before + 10
    assert csv.field_size_limit() == before


def test_an_empty_file_is_refused(tmp_path):
    """A dataset without rows is refused rather than evaluated."""
    path = tmp_path / "none.jsonl"
    path.write_text("\n\n")
    assert "none.jsonl is empty" in refusal(path)


def test_a_missing_file_names_the_nearest_one(tmp_path):
    """A mistyped path is refused with the file that was probably meant."""
    write_jsonl(tmp_path / "capitals.jsonl", ROWS)
    message = refusal(tmp_path / "capitols.jsonl")
    assert "does not exist" in message and "'capitals.jsonl'" in message


def test_a_directory_is_no_dataset(tmp_path):
    """A path that cannot be read is a sentence, not a traceback."""
    (tmp_path / "folder.jsonl").mkdir()
    assert "is a directory" in refusal(tmp_path / "folder.jsonl")


@pytest.mark.parametrize(("name", "form", "said"), [("a.txt", None, "format"), ("a.jsonl", "jsnl", "'jsonl'")])
def test_an_unknown_format_is_refused(tmp_path, name, form, said):
    """A format is told from the name or from a word that is known."""
    message = refusal(write_jsonl(tmp_path / name, ROWS), form)
    assert said in message


def test_samples_made_in_python_take_the_same_path(tmp_path):
    """Samples from Python and the same rows from a file have one digest."""
    samples = [Sample("1 + 1", target="2", id="a"), Sample('say "hi",\nplease', target="hi", id="b")]
    from_file = ingest(write_jsonl(tmp_path / "a.jsonl", ROWS), None, io.BytesIO())
    assert ingest_samples(samples, io.BytesIO()).digest == from_file.digest


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        (Sample("x", metadata={"weight": math.nan}), "NaN in the field 'metadata.weight'"),
        (Sample("x", metadata={"big": 10**5000}), "too many digits"),
        (Sample("broken \udc80"), "not valid UTF-8 in the field 'input'"),
        (Sample("x", target=object()), "what JSON cannot"),
        ("just text", 'is str, not a Sample. Write Sample("'),
        ({"input": "x"}, "is dict, not a Sample. Write Sample(**row)."),
    ],
)
def test_a_sample_that_json_cannot_hold_is_refused(sample, said):
    """What could not be kept with the run is refused before it starts, by row."""
    with pytest.raises(ConfigurationError) as caught:
        ingest_samples([Sample("fine"), sample], io.BytesIO())
    assert "row 2" in str(caught.value) and said in str(caught.value)


def test_a_sample_that_contains_itself_is_refused():
    """A cycle ends in a sentence."""
    loop: dict = {}
    loop["again"] = loop
    with pytest.raises(ConfigurationError, match="nested too deeply"):
        ingest_samples([Sample("x", metadata=loop)], io.BytesIO())


def test_no_samples_are_refused():
    """A task without samples is refused like an empty file."""
    with pytest.raises(ConfigurationError, match="empty"):
        ingest_samples([], io.BytesIO())


def test_an_altered_copy_does_not_open(tmp_path):
    """Rows are only read from a file with the content that was recorded."""
    path = tmp_path / "copy"
    with path.open("wb") as destination:
        taken = ingest(write_jsonl(tmp_path / "a.jsonl", ROWS), None, destination)
    path.write_bytes(path.read_bytes().replace(b"1 + 1", b"1 + 2"))
    with pytest.raises(RunDamaged, match="does not have the content"):
        Rows.open(path, digest=taken.digest)
    path.unlink()
    with pytest.raises(RunDamaged, match="missing"):
        Rows.open(path, digest=taken.digest)


def test_a_row_that_was_damaged_after_opening_is_never_returned(tmp_path):
    """Bytes that changed under an open dataset are reported, by row, and not used."""
    path = tmp_path / "copy"
    with path.open("wb") as destination:
        ingest(write_jsonl(tmp_path / "a.jsonl", ROWS), None, destination)
    with Rows.open(path, source="a.jsonl") as rows:
        path.write_bytes(path.read_bytes()[:20])
        with pytest.raises(RunDamaged, match=r"Row 1 of a\.jsonl"):
            rows[0]
        with pytest.raises(IndexError):
            rows[2]
