"""`holdfast cat`: the records of a run in any state, as JSON lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from cli_calls import call
from durable import begin_run, commit, crashed_run, data_pieces, finish_trials, finished_run, segment_paths
from holdfast.journal import BLOB_BYTES
from holdfast.run.core.records import StepRecord


def printed(told):
    return [json.loads(line) for line in told.out.splitlines()]


def test_cat_prints_every_record_with_its_id_in_order(tmp_path, capfdbinary):
    """One JSON object a line, in the order of the run, the id first."""
    root = finished_run(tmp_path / "run", "t1", "t2")
    told = call(capfdbinary, "cat", root)
    records = printed(told)
    assert (told.code, told.err) == (0, "")
    assert [record["id"] for record in records] == sorted(record["id"] for record in records)
    assert [record["type"] for record in records] == [
        "session",
        *["call", "step", "answer", "score", "trial"] * 2,
        "session_end",
    ]
    assert told.out.startswith('{"id":[1,0,1,0],"type":"session",')
    assert call(capfdbinary, "cat", root, "--json").out == told.out


def test_cat_prints_a_record_that_is_stored_as_a_blob_whole(tmp_path, capfdbinary):
    """Nobody who reads a run has to know of blobs."""
    session = begin_run(tmp_path / "run")
    commit(session, StepRecord(trial="t1", attempt=1, step="s", result="x" * BLOB_BYTES))
    session.abandon()
    records = printed(call(capfdbinary, "cat", tmp_path / "run"))
    assert records[1]["result"] == "x" * BLOB_BYTES
    assert "blob" not in records[1]


def test_cat_says_that_a_blob_is_lost(tmp_path, capfdbinary):
    """The other records are printed; exit code 1."""
    session = begin_run(tmp_path / "run")
    commit(session, StepRecord(trial="t1", attempt=1, step="s", result="x" * BLOB_BYTES))
    finish_trials(session, "t2")
    session.abandon()
    (blob,) = (tmp_path / "run" / "blobs").iterdir()
    blob.unlink()
    told = call(capfdbinary, "cat", tmp_path / "run")
    assert told.code == 1
    assert f"holdfast: missing: blobs/{blob.name}" in told.err
    assert [record["type"] for record in printed(told)] == ["session", "call", "step", "answer", "score", "trial"]


def test_unknown_types_and_fields_are_kept_in_cat(tmp_path, capfdbinary):
    """What a newer version wrote is printed as it was written."""
    session = begin_run(tmp_path / "run")
    session.sink.journal.queue.append(b'{"type":"vision","trial":"t1","depth":{"of":3}}')
    session.sink.journal.queue.commit(b'{"type":"answer","trial":"t1","attempt":1,"mood":"good"}')
    session.abandon()
    told = call(capfdbinary, "cat", tmp_path / "run")
    assert told.code == 0
    assert [{name: record[name] for name in record if name != "id"} for record in printed(told)][1:] == [
        {"type": "vision", "trial": "t1", "depth": {"of": 3}},
        {"type": "answer", "trial": "t1", "attempt": 1, "mood": "good"},
    ]


def test_a_line_that_is_no_record_does_not_break_the_output(tmp_path, capfdbinary):
    """Every line that cat prints is JSON."""
    session = begin_run(tmp_path / "run")
    for line in (b"", b"{}", b"7", b"\xff", b'"a"'):
        session.sink.journal.queue.commit(line)
    session.abandon()
    records = printed(call(capfdbinary, "cat", tmp_path / "run"))[1:]
    assert [record["line"] for record in records] == ["", "{}", "7", "\ufffd", '"a"']


def test_cat_tells_every_loss_on_standard_error(tmp_path, capfdbinary):
    """A damaged frame and a missing segment: what is left is printed, what is lost is named, exit code 1."""
    root = finished_run(tmp_path / "run", "t1", "t2")
    first, last = segment_paths(root)
    data = bytearray(first.read_bytes())
    piece = data_pieces(bytes(data))[1]
    data[piece.end - 2] ^= 0xFF
    first.write_bytes(data)
    last.unlink()
    told = call(capfdbinary, "cat", root)
    assert told.code == 1
    assert [line.split(":")[1].strip() for line in told.err.splitlines()] == ["unreadable", "missing"]
    assert len(printed(told)) == len([record for record in printed(told) if record["id"][2] != piece.seq])


def test_cat_of_a_killed_run_exits_0(tmp_path, capfdbinary):
    """A torn tail is what a crash leaves; nothing is said of it."""
    root = crashed_run(tmp_path / "run", "t1")
    path = segment_paths(root)[0]
    path.write_bytes(path.read_bytes()[:-5])
    told = call(capfdbinary, "cat", root)
    assert (told.code, told.err) == (0, "")


def test_cat_into_a_pipe_that_closes_ends_quietly(tmp_path):
    """`holdfast cat RUN | head -1` prints one line and no complaint."""
    session = begin_run(tmp_path / "run")
    for number in range(40):
        session.sink.append(StepRecord(trial="t1", attempt=1, step=f"s{number}", result=os.urandom(20_000).hex()))
    session.close("complete")
    writer = subprocess.Popen(
        [sys.executable, "-c", "from holdfast.cli import main; main()", "cat", str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    head = subprocess.run(["head", "-1"], stdin=writer.stdout, capture_output=True, check=True)
    writer.stdout.close()
    _, complaints = writer.communicate(timeout=60)
    assert json.loads(head.stdout)["type"] == "session"
    assert (complaints, writer.returncode) == (b"", 141)
