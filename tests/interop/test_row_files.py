"""`holdfast export --to jsonl|parquet`: a row for each trial, streamed, whole or not there."""

from __future__ import annotations

import builtins
import errno
import json
import os
import subprocess
import sys

import pytest

from cli_calls import call
from holdfast import Run, Sample, Task, evaluate, exact
from holdfast.api.reading.row_files import write_jsonl, write_parquet
from holdfast.errors import StorageFailure, UsageError
from holdfast.storage import RealFileSystem
from holdfast.testing.faulty_filesystem import FaultyFileSystem, InjectedFault


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Twelve trials with odd samples, one of them wrong."""
    place = tmp_path_factory.mktemp("rows") / "r"
    samples = [
        Sample(f"q{number}", target=f"q{number}", metadata={"n": number, "deep": {"x": []}}) for number in range(11)
    ]
    samples.append(Sample([{"role": "user", "content": "é\n"}], target=["a", "b"]))
    task = Task(samples=samples, scorers=exact(), name="t", epochs=1, axes={"tier": ["T0", "T1"]})
    evaluate(task, models=["scripted/echo"], run=place, progress=False)
    return Run(place)


def test_json_lines_are_the_rows_of_the_run(run, tmp_path, capfdbinary):
    """As `to_dicts` has them, in a file or on standard output."""
    told = call(capfdbinary, "export", run.path, "--to", "jsonl", "--output", tmp_path / "rows.jsonl")
    assert told.code == 0 and "24 trials" in told.out
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == json.loads(json.dumps(run.to_dicts()))
    printed = call(capfdbinary, "export", run.path, "--to", "jsonl", "--output", "-")
    assert printed.out.splitlines() == lines


def test_parquet_has_flat_columns_of_one_type(run, tmp_path, capfdbinary):
    parquet = pytest.importorskip("pyarrow.parquet")
    told = call(capfdbinary, "export", run.path, "--to", "parquet", "--output", tmp_path / "rows.parquet", "--json")
    assert told.code == 0 and json.loads(told.out)["rows"] == 24
    table = parquet.read_table(tmp_path / "rows.parquet")
    types = {name: str(table.schema.field(name).type) for name in table.column_names}
    assert types["score.exact"] == "double" and types["epoch"] == "int64" and types["axis.tier"] == "string"
    rows = {row["trial"]: row for row in table.to_pylist()}
    for row in run.to_dicts():
        found = rows[row["trial"]]
        assert found["score.exact"] == row["scores"]["exact"] and found["axis.tier"] == row["axes"]["tier"]
        assert json.loads(found["metadata"] or "{}") == row["metadata"]


def test_parquet_is_written_in_batches(run, tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("holdfast.api.reading.row_files._ROWS_AT_A_TIME", 5)
    write_parquet(run, tmp_path / "rows.parquet")
    assert parquet.ParquetFile(tmp_path / "rows.parquet").num_row_groups == 5
    assert parquet.read_table(tmp_path / "rows.parquet").num_rows == 24


def test_without_pyarrow_the_package_is_named(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match="pip install pyarrow"):
        write_parquet(run, tmp_path / "rows.parquet")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_not_overwritten_unless_asked(run, tmp_path, capfdbinary):
    path = tmp_path / "rows.jsonl"
    path.write_text("mine")
    told = call(capfdbinary, "export", run.path, "--to", "jsonl", "--output", path)
    assert told.code == 2 and "--overwrite" in told.err and path.read_text() == "mine"
    assert call(capfdbinary, "export", run.path, "--to", "jsonl", "--output", path, "--overwrite").code == 0
    assert len(path.read_text().splitlines()) == 24


@pytest.mark.parametrize("write", [write_jsonl, write_parquet])
@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename"])
def test_a_full_disk_leaves_no_half_of_a_file(run, tmp_path, write, operation):
    pytest.importorskip("pyarrow")
    fs = FaultyFileSystem(RealFileSystem(), [InjectedFault(operation, 1, errno.ENOSPC)])
    with pytest.raises(StorageFailure, match="No space left"):
        write(run, tmp_path / "rows", fs=fs)
    assert list(tmp_path.iterdir()) == []


_KILLED = """
import os, signal, sys
from pathlib import Path
from holdfast import Run
from holdfast.api.reading import row_files
from holdfast.storage import RealFileSystem

class Killed(RealFileSystem):
    def rename(self, old, new):
        os.kill(os.getpid(), signal.SIGKILL)

row_files.write_jsonl(Run(sys.argv[1]), Path(sys.argv[2]), fs=Killed())
"""


def test_a_killed_export_leaves_nothing_under_its_name(run, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, run.path, tmp_path / "rows.jsonl"], check=False, env=os.environ
    )
    assert done.returncode == -9 and not (tmp_path / "rows.jsonl").exists()
    assert write_jsonl(run, tmp_path / "rows.jsonl").rows == 24


def test_an_export_loads_pyarrow_for_parquet_only(run, tmp_path, monkeypatch):
    real = builtins.__import__

    def guarded(name, *rest, **options):
        assert not name.startswith("pyarrow"), "loaded"
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", guarded)
    write_jsonl(run, tmp_path / "rows.jsonl")
