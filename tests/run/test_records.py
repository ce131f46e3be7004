"""Resume 33, for records: what is written is what is read, field by field."""

from __future__ import annotations

import contextlib
import enum
import json
import math
import types
import typing
from functools import cache

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable import begin_run, commit, read_run
from folds import check_fold
from holdfast.errors import UsageError
from holdfast.journal import BLOB_BYTES, BlobStore, SegmentPin
from holdfast.models.message import Usage
from holdfast.run import RunReader, verify_run
from holdfast.run.core import codec
from holdfast.run.core.codec import citation, cited_blob, decode, encode, head_of, outsource
from holdfast.run.core.records import (
    RECORD_TYPES,
    AnswerRecord,
    NoteRecord,
    Record,
    ScoreRecord,
    SessionRecord,
    Status,
    StepRecord,
    TrialRecord,
    UsageShare,
)
from holdfast.run.fold.entries import entry_of_line, entry_of_record
from holdfast.storage import RealFileSystem

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
INTEGERS = st.integers() | st.sampled_from([0, -1, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**400])
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)

NOT_OF_RECORDS = {"blob", "cost"}
"""What is taken in of a citation, and of format 1."""


@cache
def values(hint):
    """Random values of a field's type."""
    plain = {str: TEXT, int: INTEGERS, float: FLOATS, bool: st.booleans(), typing.Any: JSON, type(None): st.none()}
    if hint in plain:
        return plain[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {types.UnionType, typing.Union}:
        return st.one_of(*(values(argument) for argument in arguments))
    if origin in {list, tuple}:
        return st.lists(values(arguments[0]), max_size=3).map(origin)
    if origin is dict:
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=3)
    if isinstance(hint, enum.EnumMeta):
        return st.sampled_from(hint)
    # Made when it is drawn from: a struct may hold others of its kind.
    return st.deferred(lambda: st.builds(hint, **{name: values(kind) for name, kind in fields_of(hint).items()}))


def fields_of(struct):
    """The fields of a struct with their types; a field without a strategy fails the test."""
    hints = typing.get_type_hints(struct)
    if issubclass(struct, tuple):
        return hints
    return {field.name: hints[field.name] for field in msgspec.structs.fields(struct)}


@pytest.fixture(params=["short", "long"])
def length(request, monkeypatch):
    """Records are checked in another way when they are long; here all of them."""
    if request.param == "long":
        monkeypatch.setattr(codec, "BLOB_BYTES", 0)


@pytest.mark.parametrize("record_type", RECORD_TYPES, ids=lambda kind: kind.__name__)
def test_resume_33_every_field_of_every_record_survives_the_journal(length, record_type):
    """decode(encode(x)) is x, for random values of every field, also those far outside of what is usual."""

    @settings(max_examples=60, deadline=None, database=None, derandomize=True)
    @given(values(record_type))
    def check(record):
        line = encode(record)
        assert b"\n" not in line
        read = decode(line)
        assert type(read) is record_type
        entry = entry_of_line(line)
        assert head_of(line) == (entry.__struct_config__.tag, entry.trial)
        taken = entry_of_record(record, line)
        taken_in = [name for name in entry.__struct_fields__ if name not in NOT_OF_RECORDS]
        assert all(getattr(taken, name) == getattr(entry, name) for name in taken_in)
        for name in fields_of(record_type):
            assert same(getattr(read, name), getattr(record, name)), name

    check()


def same(left, right):
    """Equal, and of the same types all the way down."""
    if isinstance(right, float) and isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    if isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in right)
    if isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right and type(left) is type(right)


def test_every_record_type_is_tested():
    """A record type that is added is in the list that the property test goes through."""
    assert set(RECORD_TYPES) == set(Record.__subclasses__())


def test_a_default_is_left_out_of_the_bytes():
    """A record costs only the fields that say something."""
    assert encode(AnswerRecord(trial="t1", attempt=1)) == b'{"type":"answer","trial":"t1","attempt":1}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    "make",
    [
        lambda value: StepRecord(trial="t1", attempt=1, step="s", result={"a": [1, {"b": value}]}),
        lambda value: StepRecord(trial="t1", attempt=1, step="s", seconds=value),
        lambda value: ScoreRecord(trial="t1", attempt=1, scorer="s", value=value),
        lambda value: NoteRecord(kind="k", text="t", data=(1, value)),
        lambda value: ScoreRecord(trial="t1", attempt=1, scorer="s", metadata={"x": value}),
    ],
)
def test_resume_33_a_number_that_json_cannot_hold_is_refused_to_its_maker(make, value):
    """NaN and infinity get a sentence, never a null in their place."""
    with pytest.raises(UsageError, match=r"record cannot be written as JSON|which JSON cannot hold"):
        encode(make(value))


def test_a_missing_value_beside_finite_numbers_is_kept():
    """None is no NaN."""
    record = StepRecord(trial="t1", attempt=1, step="s", result=[None, 1.5, "null"])
    assert decode(encode(record)) == record


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_resume_33_a_lone_surrogate_is_refused_to_its_maker(text):
    """Text that is no Unicode gets a sentence, as a value and as a key."""
    for result in (text, {text: 1}, [text]):
        with pytest.raises(UsageError, match="step record cannot be written as JSON"):
            encode(StepRecord(trial="t1", attempt=1, step="s", result=result))


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 10**400, 10**4000])
def test_resume_33_a_huge_integer_comes_back_exactly(value):
    """An integer beyond 64 bits is not turned into a float."""
    record = StepRecord(trial="t1", attempt=1, step="s", result=value)
    assert decode(encode(record)).result == value


def test_resume_33_an_integer_that_python_will_not_print_is_refused_to_its_maker():
    """An integer of more than 4,300 digits gets a sentence."""
    with pytest.raises(UsageError, match="step record cannot be written"):
        encode(StepRecord(trial="t1", attempt=1, step="s", result=10**5000))


def test_resume_33_a_value_that_is_no_json_is_refused_to_its_maker():
    """Objects, keys that are no text, and bottomless nesting get a sentence."""
    endless = []
    endless.append(endless)
    for result in (object(), {None: 1}, endless):
        with pytest.raises(UsageError, match="step record cannot be written as JSON"):
            encode(StepRecord(trial="t1", attempt=1, step="s", result=result))


@pytest.mark.parametrize(
    "record",
    [
        ScoreRecord(trial="t1", attempt=1, scorer="s", value=True),
        TrialRecord(trial="t1", attempt=1, status="splendid"),
        AnswerRecord(trial=7, attempt=1),
        NoteRecord(kind="k", text=None),
    ],
)
def test_resume_33_a_record_that_could_not_be_read_back_is_refused_to_its_maker(length, record):
    """A field of the wrong type is noticed when it is written, not when the record is missed."""
    with pytest.raises(UsageError, match=r"record cannot be written as JSON: (Expected|Invalid enum value)"):
        encode(record)


def test_unknown_types_and_layouts_are_passed_over():
    """A line of a newer version decodes to nothing, and no state follows from it."""
    line = b'{"type":"vision","trial":"t1","depth":3}'
    assert decode(line) is None
    assert entry_of_line(line) is None
    assert head_of(line) == ("vision", "t1")
    assert decode(b'{"type":"answer","trial":["new layout"],"attempt":1}') is None


def test_unknown_fields_of_a_known_type_are_passed_over():
    """A newer version's field does not keep the record from being read."""
    line = b'{"type":"answer","mood":"good","trial":"t1","attempt":1,"text":"a"}'
    assert decode(line) == AnswerRecord(trial="t1", attempt=1, text="a")


@pytest.mark.parametrize("line", [b"", b"[]", b"{", b'{"a":1}', b"\xff", b"null", b"[" * 200_000])
def test_a_line_that_is_no_record_is_nothing(line):
    """Decoding never raises on bytes, however deep."""
    assert decode(line) is None
    assert entry_of_line(line) is None
    assert head_of(line) == ("", "")
    assert cited_blob(b'{"blob":"' + line) is None


def test_resume_33_a_record_over_8_mib_goes_to_a_blob_and_comes_back(tmp_path):
    """The journal holds a citation; whoever reads the run gets the record whole."""
    root = tmp_path / "run"
    session = begin_run(root)
    large = StepRecord(trial="t1", attempt=1, step="s", result="ü" * BLOB_BYTES)
    commit(session, large)
    commit(session, StepRecord(trial="t1", attempt=1, step="s2", result="small"))
    session.reader.refresh()
    assert session.reader.records_of("t1", "step")[0] == large
    session.close("complete")
    (blob,) = (root / "blobs").iterdir()
    assert blob.read_bytes() == encode(large)
    assert sum(path.stat().st_size for path in (root / "journal").iterdir()) < 5000
    assert next(decode(line) for _, line in read_run(root).records if b'"step"' in line) == large


def test_a_score_in_a_blob_says_whose_tokens_it_took(tmp_path, monkeypatch):
    """What the journal has of it is enough for the counts, while it is written and when it is read again."""
    monkeypatch.setattr(codec, "BLOB_BYTES", 400)
    session = begin_run(tmp_path / "run")
    judged = {"trial": "t1", "attempt": 1, "scorer": "polite", "value": 1.0, "usage": Usage(10, 1)}
    shares = (UsageShare("judge", Usage(10, 1)),)
    commit(session, ScoreRecord(**judged, shares=shares, explanation="because " * 200))
    commit(session, TrialRecord(trial="t1", attempt=1, status=Status.VALID, task="t", model="m", usage=Usage(3, 3)))
    session.close("complete")
    assert list((tmp_path / "run" / "blobs").iterdir())
    with contextlib.closing(RunReader(tmp_path / "run")) as reader:
        check_fold(reader)
        (spent,) = reader.fold.spent().values()
        assert spent.shares == {("m", False): Usage(3, 3), ("judge", False): Usage(10, 1)}
        assert verify_run(reader).ok


def test_a_record_of_exactly_8_mib_stays_in_the_journal(tmp_path):
    """The border belongs to the journal."""
    blobs = BlobStore(RealFileSystem(), tmp_path)
    empty = encode(StepRecord(trial="t1", attempt=1, step="s", result=""))
    line = encode(StepRecord(trial="t1", attempt=1, step="s", result="x" * (BLOB_BYTES - len(empty))))
    assert len(line) == BLOB_BYTES
    assert outsource(line, blobs) is line
    longer = encode(StepRecord(trial="t1", attempt=1, step="s", result="x" * (BLOB_BYTES - len(empty) + 1)))
    cited = citation(outsource(longer, blobs))
    assert (cited.type, cited.trial, cited.size) == ("step", "t1", BLOB_BYTES + 1)


def test_the_end_of_a_trial_stays_in_the_journal_however_large(tmp_path):
    """Whether a trial is finished never depends on a second file."""
    blobs = BlobStore(RealFileSystem(), tmp_path)
    line = encode(TrialRecord(trial="t1", attempt=1, status=Status.VALID, axes={"a": "x" * BLOB_BYTES}))
    assert outsource(line, blobs) is line


def test_text_that_mentions_a_blob_is_no_citation():
    """A model that writes about blobs is not taken for one."""
    line = encode(AnswerRecord(trial="t1", attempt=1, value={"blob": "0" * 32, "size": 3}))
    assert cited_blob(line) is None
    assert cited_blob(encode(NoteRecord(kind="k", text='"blob":"x"'))) is None


def test_a_record_prints_as_plain_json():
    """Any JSON reader reads a record."""
    session = SessionRecord(
        number=1, run="ab", name="n", at="now", version="0", pins=[SegmentPin(1, 0, 1, 3, "ff", True)]
    )
    assert json.loads(encode(session)) == {
        "type": "session",
        "number": 1,
        "run": "ab",
        "name": "n",
        "at": "now",
        "version": "0",
        "pins": [[1, 0, 1, 3, "ff", True]],
    }
