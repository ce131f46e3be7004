"""Resume 33, for result.json: what is written is what is read; anything else is a fault, never a result."""

from __future__ import annotations

import errno
import json
import os
import string
from hashlib import blake2b

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import UsageError
from holdfast.models.message import Usage
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import AnswerRecord, Failure, SamplingSummary, Status, TrialRecord, UsageShare
from holdfast.run.core.result_file import (
    RESULT_BYTES,
    ResultFileFault,
    encode_result,
    read_result,
    read_results,
    write_result_file,
)
from holdfast.storage import RealFileSystem
from holdfast.testing import FaultyFileSystem
from holdfast.testing import InjectedFault as DiskFault

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(-(2**70), 2**70)
MAPS = st.dictionaries(TEXT, TEXT, max_size=3)
USAGE = st.builds(Usage, input_tokens=COUNTS, output_tokens=COUNTS, cached_input_tokens=COUNTS)
SHARES = st.lists(st.builds(UsageShare, model=TEXT, usage=USAGE, reused=st.booleans()), max_size=2).map(tuple)
SAMPLINGS = st.builds(
    SamplingSummary,
    strategy=TEXT,
    success=st.booleans(),
    lane=COUNTS,
    turn=COUNTS,
    turns=COUNTS,
    calls=COUNTS,
    candidates=st.dictionaries(TEXT, COUNTS, max_size=2),
    wasted=SHARES,
    capped=TEXT,
)
FIELDS = {
    "trial": st.text(string.ascii_letters + string.digits, min_size=1, max_size=30),
    "attempt": COUNTS,
    "status": st.sampled_from(Status),
    "task": TEXT,
    "model": TEXT,
    "sample": TEXT,
    "epoch": COUNTS,
    "axes": MAPS,
    "digest": TEXT,
    "scores": st.dictionaries(TEXT, FLOATS, max_size=3),
    "usage": st.none() | USAGE,
    "shares": SHARES,
    "calls": COUNTS,
    "replayed": COUNTS,
    "unused": COUNTS,
    "tries": COUNTS,
    "at": FLOATS,
    "seconds": FLOATS,
    "limit": TEXT,
    "stage": TEXT,
    "source": TEXT,
    "error": st.none() | st.builds(Failure, kind=TEXT, message=TEXT, traceback=TEXT),
    "artifacts": MAPS,
    "chosen": MAPS,
    "imported": MAPS,
    "redone_by": TEXT,
    "will_retry": st.booleans(),
    "paused": st.booleans(),
    "samplings": st.lists(SAMPLINGS, max_size=2).map(tuple),
}
TRIALS = st.builds(TrialRecord, **FIELDS)
SOUND = TrialRecord(
    trial="t1",
    attempt=2,
    status=Status.VALID,
    task="fix",
    model="small",
    sample="s1",
    scores={"exact": 1.0},
    usage=Usage(3, 4),
)


@pytest.fixture
def layout(tmp_path):
    (tmp_path / "artifacts").mkdir()
    return Layout(tmp_path)


def test_every_field_of_a_trial_is_drawn():
    """The property below says something of every field that a trial has."""
    assert set(FIELDS) == {field.name for field in msgspec.structs.fields(TrialRecord)} - {"v"}


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(trial=TRIALS)
def test_resume_33_every_field_of_a_result_survives_its_file(tmp_path_factory, trial):
    """read(write(x)) is x, for random values of every field."""
    layout = Layout(tmp_path_factory.mktemp("run"))
    path = write_result_file(RealFileSystem(), layout, trial)
    assert path == layout.artifacts / trial.trial / "result.json"
    assert read_result(path) == trial


@settings(max_examples=100, deadline=None, database=None, derandomize=True)
@given(data=st.data())
def test_recovery_15_no_byte_of_a_result_can_change_unnoticed(tmp_path_factory, data):
    """A file with one byte changed, or cut at any place, is a fault, or still says exactly the same."""
    directory = tmp_path_factory.mktemp("run") / "t1"
    directory.mkdir()
    whole = encode_result(SOUND)
    place = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :]
    for content in (changed, whole[:place]):
        (directory / "result.json").write_bytes(content)
        assert isinstance(found := read_result(directory / "result.json"), ResultFileFault) or found == SOUND


def reason(layout, content: bytes) -> str:
    directory = layout.artifacts / "t1"
    directory.mkdir(exist_ok=True)
    (directory / "result.json").write_bytes(content)
    found = read_result(directory / "result.json")
    assert isinstance(found, ResultFileFault)
    assert found.where == "artifacts/t1/result.json"
    return found.reason


def with_checksum(content: dict) -> bytes:
    """A file with the right checksum, whatever it says."""
    canonical = msgspec.json.encode(content, order="sorted")
    return json.dumps({**content, "checksum": blake2b(canonical, digest_size=16).hexdigest()}).encode()


def content_of(trial: TrialRecord) -> dict:
    content = json.loads(encode_result(trial))
    del content["checksum"]
    return content


def test_recovery_15_a_sound_file_may_be_formatted_anew(layout):
    """The checksum covers the content: spaces and the order of keys are nobody's verdict."""
    directory = layout.artifacts / "t1"
    directory.mkdir()
    content = dict(reversed(json.loads(encode_result(SOUND)).items()))
    (directory / "result.json").write_text(json.dumps(content))
    assert read_result(directory / "result.json") == SOUND


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[1]", b"{", b"null", b"[" * 100_000, b'{"a": 1e999}'])
def test_recovery_15_what_is_no_json_object_is_a_fault(layout, content):
    """Empty, binary, cut off, of another kind or nested without end: no exception, and a reason."""
    assert reason(layout, content)


def test_recovery_15_a_half_written_file_is_a_fault(layout):
    """The first half of a result is none."""
    whole = encode_result(SOUND)
    assert "incomplete" in reason(layout, whole[: len(whole) // 2])


def test_recovery_15_a_file_without_a_checksum_is_a_fault(layout):
    assert reason(layout, json.dumps(content_of(SOUND)).encode()) == "it has no checksum"


def test_recovery_15_a_file_whose_verdict_was_edited_is_a_fault(layout):
    """A failed trial does not become a valid one by an editor."""
    content = json.loads(encode_result(SOUND)) | {"scores": {"exact": 0.0}}
    assert reason(layout, json.dumps(content).encode()) == "its checksum does not match its content"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"status": None}, "no verdict: no status"),
        ({"status": "passed"}, "no verdict: its status is 'passed'"),
        ({"scores": None}, "no verdict: no scores"),
    ],
)
def test_recovery_15_a_file_without_a_verdict_is_a_fault(layout, change, told):
    """Whole, with the right checksum, and silent on how the trial ended."""
    content = {name: value for name, value in (content_of(SOUND) | change).items() if value is not None}
    assert told in reason(layout, with_checksum(content))


@pytest.mark.parametrize(
    "change", [{"attempt": "two"}, {"scores": {"exact": "good"}}, {"type": "score"}, {"epoch": None}]
)
def test_recovery_15_a_field_of_the_wrong_kind_is_a_fault(layout, change):
    assert "not the result of a trial" in reason(layout, with_checksum(content_of(SOUND) | change))


def test_recovery_15_a_file_in_the_directory_of_another_trial_is_a_fault(layout):
    """A copied directory does not double a result."""
    moved = msgspec.structs.replace(SOUND, trial="t2")
    assert reason(layout, encode_result(moved)) == "it belongs to the trial t2"


def test_recovery_15_an_oversized_file_is_a_fault_and_none_is_written(layout):
    """Whatever lies there, reading it takes bounded memory; and what is written can be read."""
    assert "larger than any result" in reason(layout, b" " * (RESULT_BYTES + 1))
    with pytest.raises(UsageError, match="larger than"):
        write_result_file(RealFileSystem(), layout, msgspec.structs.replace(SOUND, task="x" * RESULT_BYTES))


@pytest.mark.parametrize("kind", ["pipe", "directory", "dangling link"])
def test_recovery_15_what_is_no_file_is_a_fault(layout, kind):
    """Nobody waits for a pipe that bears the name of a result."""
    directory = layout.artifacts / "t1"
    directory.mkdir()
    path = directory / "result.json"
    {"pipe": os.mkfifo, "directory": os.mkdir, "dangling link": lambda at: at.symlink_to("/nowhere")}[kind](path)
    (found,) = read_results(layout)
    assert isinstance(found, ResultFileFault)


def test_files_of_a_newer_version_keep_fields_that_this_one_does_not_know(layout):
    """An unknown field is part of the checksum, and passed over."""
    directory = layout.artifacts / "t1"
    directory.mkdir()
    (directory / "result.json").write_bytes(with_checksum(content_of(SOUND) | {"mood": "good"}))
    assert read_result(directory / "result.json") == SOUND


@pytest.mark.parametrize("key", ["", ".", "..", "a/b", "a\0b"])
def test_a_key_that_is_no_name_is_refused(layout, key):
    """Nothing is ever written outside of the trial's own directory."""
    with pytest.raises(UsageError, match="cannot name a directory"):
        write_result_file(RealFileSystem(), layout, msgspec.structs.replace(SOUND, trial=key))


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename"])
def test_a_result_is_replaced_whole_or_not_at_all(layout, operation):
    """A disk that fails half-way leaves the result before it."""
    write_result_file(RealFileSystem(), layout, SOUND)
    fs = FaultyFileSystem(RealFileSystem(), [DiskFault(operation, 1, errno.ENOSPC)])
    with pytest.raises(OSError, match="No space"):
        write_result_file(fs, layout, msgspec.structs.replace(SOUND, attempt=3))
    assert read_result(layout.artifacts / "t1" / "result.json") == SOUND


@pytest.mark.parametrize("value", [0, 0.0, False, [], {}, "", None, 1])
def test_a_value_that_is_not_true_is_a_value_too(tmp_path, value):
    """Only what an answer does not have is left out."""
    layout = Layout(tmp_path)
    layout.artifacts.mkdir()
    write_result_file(
        RealFileSystem(), layout, SOUND, AnswerRecord(trial=SOUND.trial, attempt=1, text="a", value=value)
    )
    (found,) = read_results(layout)
    assert found.answer.value == value
    assert type(found.answer.value) is type(value)
