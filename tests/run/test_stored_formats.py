"""A run of every format opens for ever: it gives exactly the records that were written, and every verb reads it."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cli_calls import call
from durable import finished_run, formats_of, segment_paths, snapshot
from holdfast.journal import FORMAT
from holdfast.run import RunReader, SessionContents, open_session, session_record, verify_run
from holdfast.run.core.codec import decode
from holdfast.run.core.records import RECORD_TYPES
from holdfast.tasks.scorers.exact import Exact

DATA = Path(__file__).parent.parent / "data"
FORMATS = {1: DATA / "format-1", 2: DATA / "format-2"}
NOT_HELD = {"run", "last_updated_at", "notes"}
"""What depends on where and when it is said, or is a sentence."""
GONE = {1: {"cost"}, 2: set[str]()}
"""Fields that a record of the format may have and that are not read any more."""


SINCE = ("fail_fast", "lease", "log_interval", "segment_bytes")
"""Settings with a default that have come since the run of format 2 was stored; how rows are read has come too."""
DEFAULT_THEN = {"upload_interval": 5.0}
"""Settings that are unset now unless the eval sets them."""
TYPES_SINCE = {"refused", "applied"}
"""Types of records that have come since."""


@pytest.fixture(params=FORMATS)
def format_(request) -> int:
    return int(request.param)


@pytest.fixture
def first_numbers(monkeypatch) -> None:
    """The built-in scorer of these runs has the behaviour number that it had when they were made."""
    monkeypatch.setattr(Exact, "revision", 1)


@pytest.fixture
def stored(tmp_path, monkeypatch, format_) -> Path:
    """A copy of the stored run: three sessions, the second and third killed, with blobs and an input."""
    monkeypatch.chdir(tmp_path)
    for path in FORMATS[format_].glob("*.*"):
        shutil.copyfile(path, tmp_path / path.name)
    return Path(shutil.copytree(FORMATS[format_] / "run", tmp_path / "run"))


def expected(format_: int) -> list[Any]:
    return [json.loads(line) for line in (FORMATS[format_] / "records.jsonl").read_text().splitlines()]


def test_there_is_a_run_of_every_format():
    """A new format brings its run with it."""
    assert set(FORMATS) == set(range(1, FORMAT + 1))


def test_a_stored_run_gives_exactly_its_records(stored, format_):
    """Every record with its id, blobs put in, the copy of a doubtful frame given once, the torn frame left out."""
    reader = RunReader(stored)
    damage = []
    found = [{"id": list(ident), "record": json.loads(line)} for ident, line in reader.stream(damage)]
    reader.close()
    assert found == expected(format_)
    assert [item.kind.value for item in damage] == ["torn"]
    assert reader.format == format_


def test_every_stored_record_is_still_understood(stored, format_):
    """All types but the invented one decode to what they were."""
    reader = RunReader(stored)
    lines = [line for _, line in reader.stream([])]
    reader.close()
    unknown = [line for line in lines if decode(line) is None]
    assert [json.loads(line)["type"] for line in unknown] == ["telepathy"]
    for line in lines:
        if (record := decode(line)) is not None:
            kept = json.loads(json.dumps(as_plain(record)))
            written = {name: value for name, value in json.loads(line).items() if name not in GONE[format_]}
            assert {name: kept[name] for name in written} == written


def as_plain(record):
    return {"type": record.__struct_config__.tag} | {
        name: msgspec.to_builtins(getattr(record, name)) for name in record.__struct_fields__
    }


def test_the_stored_run_of_format_2_has_every_type_of_record():
    """And nothing in it is a cost."""
    records = [item["record"] for item in expected(2)]
    known = {str(kind.__struct_config__.tag) for kind in RECORD_TYPES} - TYPES_SINCE
    assert {record["type"] for record in records} == {*known, "telepathy"}
    assert not [record for record in records if "cost" in record]
    assert str(DATA.parent) not in (FORMATS[2] / "records.jsonl").read_text(), "the same wherever it is made"


@pytest.mark.usefixtures("first_numbers")
def test_the_stored_run_of_format_2_can_be_made_anew(tmp_path, monkeypatch):
    """As long as this is the newest format, the script beside it gives the same records."""
    monkeypatch.chdir(tmp_path)
    module = importlib.util.spec_from_file_location("make_format_2", FORMATS[2] / "make.py")
    script = importlib.util.module_from_spec(module)
    module.loader.exec_module(script)
    script.make(tmp_path / "made")
    reader = RunReader(tmp_path / "made")
    found = [{"id": list(ident), "record": json.loads(line)} for ident, line in reader.stream([])]
    reader.close()
    stored = expected(2)
    for record in (item["record"] for item in stored if item["record"]["type"] == "session"):
        record.pop("pins", None)  # every session pinned every segment then
    for record in (item["record"] for item in found if item["record"]["type"] == "session"):
        record.pop("pins", None)
        for name in SINCE:
            del record["config"]["runner"][name]
        record["config"]["runner"] |= DEFAULT_THEN
        for task in record["config"]["tasks"].values():
            del task["runner"]["fail_fast"]
        for entry in record["plan"]:
            del entry["binary"]
        for code in record["code"].values():
            del code["rows"]
            code["rule"] = 2  # code was compared by its source alone
    assert found == stored


def test_a_stored_run_is_sound(stored, format_):
    """Its counts are what they were; its finished trials are those with a kept end."""
    reader = RunReader(stored)
    result = verify_run(reader)
    finished = {
        item["record"]["trial"]
        for item in expected(format_)
        if item["record"]["type"] == "trial" and item["record"]["status"] in {"valid", "limited", "blocked"}
    }
    assert set(reader.fold.finished()) == finished
    reader.close()
    assert result.ok
    counted = (result.segments, result.frames, result.sessions, result.counts.planned, result.torn_bytes)
    assert counted == {1: (5, 15, 3, 2, 146), 2: (5, 25, 3, 6, 104)}[format_]
    assert sum(result.by_type.values()) == len(expected(format_))


VERBS = {
    "status": ["status", "run"],
    "report": ["report", "run"],
    "verify": ["verify", "run", "--deep"],
    "show": ["show", "run"],
    "show --where": ["show", "run", "--where", "cost>0 or status=limited"],
}


def without_moments(value: Any) -> Any:
    """What a verb says, as far as it is held."""
    if isinstance(value, list):
        return [without_moments(item) for item in value]
    if isinstance(value, dict):
        return {name: without_moments(item) for name, item in value.items() if name not in NOT_HELD}
    return value


def as_held(told: Any) -> dict[str, Any]:
    return {"code": told.code, "says": without_moments(json.loads(told.out))}


@pytest.mark.parametrize("verb", VERBS)
def test_every_reading_verb_says_what_it_said(stored, format_, verb, capfdbinary):
    """The output of each is kept beside the run; reading changes no byte of it."""
    before = snapshot(stored)
    told = call(capfdbinary, *VERBS[verb], "--json")
    kept = json.loads((FORMATS[format_] / "expected.json").read_text())
    assert as_held(told) == kept[verb]
    assert call(capfdbinary, *VERBS[verb]).code == told.code
    assert snapshot(stored) == before


def test_cat_prints_a_stored_run(stored, format_, capfdbinary):
    """The command line gives the same records."""
    told = call(capfdbinary, "cat", stored)
    assert told.code == 0
    found = [json.loads(line) for line in told.out.rstrip("\n").split("\n")]
    assert [{"id": record.pop("id"), "record": record} for record in found] == expected(format_)


@pytest.mark.usefixtures("first_numbers")
@pytest.mark.parametrize("format_", [2], indirect=True)
def test_a_run_of_this_format_is_resumed(stored, capfdbinary):
    """The trial that was cut short is finished from its replies on record, at no further cost; nothing else changes.

    That a default has changed since is no change of the eval.
    """
    before, cost = snapshot(stored / "journal"), report_of(capfdbinary)["cost"]
    assert call(capfdbinary, "resume", "run").code == 1, "one of its trials is blocked"
    told = report_of(capfdbinary)
    assert (told["complete"], told["coverage"]["finished"], told["cost"]) == (True, 6, cost)
    assert json.loads(call(capfdbinary, "status", "run", "--json").out)["sessions"][-1]["changes"] == []
    after = snapshot(stored / "journal")
    assert {name: after[name] for name in before} == before
    assert call(capfdbinary, "verify", "run", "--deep").code == 0


def report_of(capture) -> Any:
    return json.loads(call(capture, "report", "run", "--json").out)


@pytest.mark.parametrize("format_", [1], indirect=True)
@pytest.mark.parametrize("words", [[], ["--set", "concurrency_limit=2"], ["--where", "status=failed"]], ids=str)
def test_a_run_of_format_1_is_not_resumed(stored, capfdbinary, words):
    """It is refused before anything is written, with the command that continues it."""
    before = snapshot(stored)
    told = call(capfdbinary, "resume", "run", *words)
    assert told.code == 3
    assert "Resume aborted: run was written in format 1" in told.err and "nothing was written" in told.err
    assert "holdfast fork run" in told.err
    assert snapshot(stored) == before


@pytest.mark.parametrize("format_", [1], indirect=True)
def test_status_names_the_way_out_of_an_older_format(stored, capfdbinary):
    """Nobody is told to resume what cannot be resumed."""
    (stored / "journal" / "000003-0000-000001.open.jsonl.zst").unlink()
    told = call(capfdbinary, "status", "run").out
    assert "holdfast fork run" in told and "holdfast resume" not in told


def test_what_is_added_to_a_run_has_its_format(stored, format_):
    """A session that records results, as a repair does, adds frames of the run's own format, and changes no other."""
    before = snapshot(stored / "journal")

    def make(reader, number, pins):
        return session_record(reader.run.hex(), number, pins, SessionContents.carried_over(reader.sessions[-1]))

    session = open_session(stored, make)
    assert session.number == 4
    session.close("complete")
    after = snapshot(stored / "journal")
    assert {name: after[name] for name in before} == before
    assert formats_of(stored) == {format_}
    reader = RunReader(stored)
    assert verify_run(reader).ok and reader.format == format_
    reader.close()


@pytest.mark.parametrize("format_", [2], indirect=True)
def test_cleaning_does_not_change_the_format(stored, capfdbinary):
    """What is left after the transcripts are deleted has the run's format, and the same scores and spending."""
    before = report_of(capfdbinary)
    told = call(capfdbinary, "clean", "run", "--steps", "--json")
    assert told.code == 0 and json.loads(told.out)["steps"] > 0
    assert formats_of(stored) == {2}
    after = report_of(capfdbinary)
    assert {name: after[name] for name in ("tasks", "coverage", "usage", "cost")} == {
        name: before[name] for name in ("tasks", "coverage", "usage", "cost")
    }


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
