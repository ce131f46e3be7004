"""A run of a format that this version does not know is refused by every command, whatever its bytes say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from durable import compressed, pieces, reframed, segment_paths, snapshot
from holdfast import Sample, Task, evaluate, exact, generate
from holdfast.errors import NewerFormat
from holdfast.journal import FORMAT
from holdfast.journal.frame import FOOTER, HEADER_SIZE, decode_header, encode_header

COMMANDS = {
    "status": ["status", "r"],
    "report": ["report", "r"],
    "show": ["show", "r"],
    "cat": ["cat", "r"],
    "verify": ["verify", "r"],
    "verify --deep": ["verify", "r", "--deep"],
    "diff": ["diff", "r", "eval.yaml"],
    "resume": ["resume", "r"],
    "resume --set": ["resume", "r", "--set", "concurrency_limit=2"],
    "run --or-resume": ["run", "eval.yaml", "--run-dir", "r", "--or-resume"],
    "run --reuse": ["run", "eval.yaml", "--run-dir", "n", "--reuse", "r"],
    "fork": ["fork", "r", "--run-dir", "f"],
    "repair": ["repair", "r"],
    "clean": ["clean", "r", "--steps"],
}


def in_format(root: Path, format_: int) -> None:
    """Writes the format into the header of every frame."""
    for path in segment_paths(root):
        data = path.read_bytes()
        for piece in pieces(data):
            header = decode_header(data, piece.start)
            changed = encode_header(header._replace(format=format_))
            data = data[: piece.start] + changed + data[piece.start + HEADER_SIZE :]
        path.write_bytes(data)


@pytest.fixture
def finished(world):
    """A complete run without its index, which would be of no use."""
    world.run()
    for path in world.run_dir.glob("*index*"):
        path.unlink()
    return world


@pytest.mark.parametrize("command", COMMANDS)
def test_a_newer_format_is_refused_by_every_command(finished, command):
    """Exit 3, both formats named, nothing written, neither in the run nor beside it."""
    in_format(finished.run_dir, FORMAT + 1)
    before = finished.everything()
    told = finished(*COMMANDS[command], code=3)
    assert f"was written in format {FORMAT + 1}; this version reads up to {FORMAT}" in told.err
    assert "Install a newer holdfast" in told.err and told.out == ""
    assert finished.everything() == before
    assert not (finished.directory / "n").exists() and not (finished.directory / "f").exists()
    if command != "cat":
        assert finished.json(*COMMANDS[command], code=3)["kind"] == "newer_format"


def test_evaluate_refuses_a_newer_format(finished):
    """In a script it is an exception of its own."""
    in_format(finished.run_dir, FORMAT + 1)
    before = finished.everything()
    made = Task(name="t", samples=[Sample("a", target="a")], solver=generate(), scorers=exact())
    with pytest.raises(NewerFormat):
        evaluate(made, ["scripted/echo"], run=finished.run_dir)
    assert finished.everything() == before


def test_a_listing_shows_a_newer_format_as_unreadable(finished):
    """The others are listed all the same."""
    runs = finished.directory / "runs"
    runs.mkdir()
    shutil.copytree(finished.run_dir, runs / "old")
    shutil.move(finished.run_dir, runs / "new")
    in_format(runs / "new", FORMAT + 1)
    listed = {Path(run["run"]).name: run for run in finished.json("status", code=0)["runs"]}
    assert (listed["new"]["state"], listed["old"]["state"]) == ("unreadable", "complete")
    assert f"format {FORMAT + 1}" in listed["new"]["error"]


@pytest.mark.parametrize("format_", [0, 65535])
@pytest.mark.parametrize("command", ["status", "report", "show", "verify", "resume", "fork", "repair"])
def test_a_bogus_format_is_told_in_a_sentence(finished, command, format_):
    """0 is no format, and so its frames are damage; a large one is a newer format. What is there is left as it is."""
    in_format(finished.run_dir, format_)
    before = snapshot(finished.run_dir / "journal")
    told = finished(*COMMANDS[command])
    if format_:
        assert told.code == 3 and "written in format 65535" in told.err
    elif command == "verify":
        assert told.code == 1 and "written in format 0, which does not exist" in told.out
    else:
        assert told.code in {0, 1, 2} and "Traceback" not in told.err
    after = snapshot(finished.run_dir / "journal")
    assert {name: after[name] for name in before} == before
    assert command == "repair" or after == before


@pytest.mark.parametrize("command", ["status", "report", "show", "verify", "resume", "fork"])
@pytest.mark.parametrize(
    "fields",
    [{"v": 99}, {"v": -1}, {"v": 10**40}, {"v": "two"}, {"v": None}, {"format": 3}, {"format": "x", "v": 2}],
    ids=str,
)
def test_a_session_record_with_a_bogus_version_is_told_in_a_sentence(finished, command, fields):
    """The header decides the format; what a record says of itself may make it illegible, and nothing worse."""
    (path, *_) = segment_paths(finished.run_dir)
    data = path.read_bytes()
    first = next(piece for piece in pieces(data) if piece.kind != FOOTER)
    record = {**finished.records("session")[0], **fields}
    del record["id"]
    line = json.dumps(record).encode()
    payload = compressed(line)
    path.write_bytes(data[: first.start] + reframed(data, first, payload, raw=len(line) + 1) + data[first.end :])
    before = snapshot(finished.run_dir / "journal")
    told = finished(*COMMANDS[command])
    assert told.code in {0, 1, 2, 3} and "Traceback" not in told.err
    assert snapshot(finished.run_dir / "journal") == before
