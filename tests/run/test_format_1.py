"""A run written in format 1 opens for ever, and gives exactly the records that were written."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from cli_calls import call
from durable import begin_session, finished_run, segment_paths, snapshot
from holdfast.journal.frame import FORMAT
from holdfast.run import RunReader, verify_run
from holdfast.run.core.codec import decode

STORED = Path(__file__).parent.parent / "data" / "format-1"


@pytest.fixture
def stored(tmp_path):
    """A copy of the stored run: three sessions, the second and third killed, with blobs, an input and an artifact."""
    return Path(shutil.copytree(STORED / "run", tmp_path / "run"))


def expected():
    return [json.loads(line) for line in (STORED / "records.jsonl").read_text().splitlines()]


def test_a_run_of_format_1_gives_exactly_its_records(stored):
    """Every record with its id, blobs put in, the copy of a doubtful frame given once, the torn frame left out."""
    reader = RunReader(stored)
    damage = []
    found = [{"id": list(ident), "record": json.loads(line)} for ident, line in reader.stream(damage)]
    reader.close()
    assert found == expected()
    assert [item.kind.value for item in damage] == ["torn"]
    assert FORMAT >= 1


def test_every_record_of_format_1_is_still_understood(stored):
    """All types but the invented one decode to what they were."""
    reader = RunReader(stored)
    lines = [line for _, line in reader.stream([])]
    reader.close()
    unknown = [line for line in lines if decode(line) is None]
    assert [json.loads(line)["type"] for line in unknown] == ["telepathy"]
    for line in lines:
        if (record := decode(line)) is not None:
            kept = json.loads(json.dumps(as_plain(record)))
            assert {name: kept[name] for name in json.loads(line)} == json.loads(line)


def as_plain(record):
    return {"type": record.__struct_config__.tag} | {
        name: msgspec.to_builtins(getattr(record, name)) for name in record.__struct_fields__
    }


def test_a_run_of_format_1_is_sound(stored):
    """Its counts are what they were; its finished trials are those with a kept end."""
    reader = RunReader(stored)
    result = verify_run(reader)
    assert list(reader.fold.finished()) == ["fr-1", "pe-1"]
    reader.close()
    assert result.ok
    assert (result.segments, result.frames, result.sessions, result.counts.planned) == (5, 15, 3, 2)
    assert (result.blobs, result.inputs, result.artifacts, result.torn_bytes) == (2, 1, 1, 146)
    assert result.by_type == {
        "answer": 1,
        "call": 1,
        "note": 1,
        "score": 2,
        "session": 3,
        "session_end": 1,
        "step": 2,
        "trial": 3,
        "unknown": 1,
    }


def test_a_run_of_format_1_can_be_gone_on_with(stored):
    """A new session stands on it, and changes no byte of what was there."""
    before = snapshot(stored / "journal")
    session = begin_session(stored, planned=2)
    assert session.number == 4
    session.close("complete")
    after = snapshot(stored / "journal")
    assert {name: after[name] for name in before} == before
    reader = RunReader(stored)
    assert verify_run(reader).ok
    reader.close()


def test_cat_prints_a_run_of_format_1(stored, capfdbinary):
    """The command line gives the same records."""
    told = call(capfdbinary, "cat", stored)
    assert told.code == 0
    found = [json.loads(line) for line in told.out.rstrip("\n").split("\n")]
    assert [{"id": record.pop("id"), "record": record} for record in found] == expected()


def test_a_sealed_segment_is_plain_zstd_of_json_lines(tmp_path):
    """`zstd -dc segment | jq` gives the records, headers and footer passed over."""
    if missing := [tool for tool in ("zstd", "jq") if shutil.which(tool) is None]:
        pytest.skip(f"not installed here: {', '.join(missing)}")
    root = finished_run(tmp_path / "run", "t1", "t2", segment_bytes=500)
    found = []
    for path in segment_paths(root):
        plain = subprocess.run(["zstd", "-dc", str(path)], capture_output=True, check=True, timeout=60).stdout
        piped = subprocess.run(["jq", "-c", "."], input=plain, capture_output=True, check=True, timeout=60).stdout
        found += [json.loads(line) for line in piped.splitlines()]
    reader = RunReader(root)
    assert found == [json.loads(line) for _, line in reader.stream([])]
    reader.close()
    assert len(segment_paths(root)) > 2
