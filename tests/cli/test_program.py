"""The program itself: help that loads nothing, errors that say what to do, and runs found by name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from cli_calls import call, program
from durable import begin_session, compressed, crashed_run, data_pieces, finished_run, reframed, segment_paths, snapshot
from holdfast.cli.main import COMMANDS
from holdfast.errors import NewerFormat
from holdfast.journal import FORMAT

HEAVY = ["aiohttp", "yaml", "rich", "zstandard", "sqlite3", "msgspec", "asyncio", "xllamacpp"]


def test_help_lists_the_verbs_and_loads_none(capfdbinary):
    """Every verb stands in the help with a line of its own, and no module that a verb needs is imported."""
    code = (
        "import sys\nbefore = set(sys.modules)\nfrom holdfast.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as ended:\n    assert not ended.code\n"
        "print(*(set(sys.modules) - before), sep='\\n', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    for verb, (_, line) in COMMANDS.items():
        assert verb in done.stdout and line in done.stdout
    loaded = set(done.stderr.split())
    assert not loaded & set(HEAVY)
    assert not loaded & {f"holdfast.cli.{group}.{verb}" for verb, (group, _) in COMMANDS.items()}


def test_ctrl_c_is_listened_to_before_anything_is_loaded():
    """Python's own start is all that a Ctrl-C can interrupt with a traceback: not even `typing` is loaded after it."""
    code = "import os, signal, sys; before = {*sys.modules}; import holdfast.__main__; print(*{*sys.modules} - before)"
    source = Path(holdfast.__file__).parent.parent
    command = [sys.executable, "-S", "-c", code]
    loaded = subprocess.run(command, env={"PYTHONPATH": str(source)}, capture_output=True, text=True, check=True).stdout
    assert set(loaded.split()) == {"__future__", "holdfast", "holdfast.version", "holdfast.__main__"}


def test_importing_holdfast_loads_nothing_heavy():
    """`import holdfast` costs nothing that is not used."""
    code = "import sys; before = set(sys.modules); import holdfast; print(*(set(sys.modules) - before), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not set(done.stdout.split()) & {"aiohttp", "yaml", "rich", "zstandard", "sqlite3", "xllamacpp"}


@pytest.mark.parametrize("words", [["verify"], ["no-such-verb"], ["verify", "--no-such-option", "x"], []])
def test_a_wrong_command_line_exits_2(capfdbinary, words):
    """The complaint goes to standard error."""
    told = call(capfdbinary, *words)
    assert told.code == 2
    assert told.err and not told.out


def test_a_wrong_command_line_under_json_is_one_object(capfdbinary):
    """Errors under --json have error, kind and hint."""
    told = call(capfdbinary, "diff", "--json")
    assert told.code == 2
    assert json.loads(told.out)["kind"] == "usage"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty place to stand in."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


READING = ["verify", "cat"]


@pytest.mark.parametrize("verb", READING)
def test_recovery_28_a_directory_that_is_not_a_run_is_said_plainly(here, capfdbinary, verb, cache_home):
    """An empty directory, one with other files, a file, nothing at all, a journal without a record: exit 2."""
    (here / "empty").mkdir()
    (here / "other").mkdir()
    (here / "other" / "notes.txt").write_text("hello")
    (here / "file").write_text("hello")
    (here / "lost").mkdir()
    (here / "lost" / "config.yaml").write_text("name: lost\n")
    (here / "begun" / "journal").mkdir(parents=True)
    (here / "torn" / "journal").mkdir(parents=True)
    (here / "torn" / "journal" / "000001-0000-000001.open.jsonl.zst").write_bytes(b"\x58\x2a\x4d\x18")
    before, cached = snapshot(here), snapshot(cache_home)
    for name, said in (
        ("empty", "is not a run: it has no journal"),
        ("other", "is not a run: it has no journal"),
        ("lost", "let `holdfast repair` recover results from artifacts"),
        ("file", "is not a run: it is a file"),
        ("begun", "its journal is empty"),
        ("torn", "nothing in its journal can be read"),
        ("absent", "There is no run 'absent'"),
        ("x" * 5000, "There is no run 'xxx"),
    ):
        told = call(capfdbinary, verb, name)
        assert (told.code, told.out) == (2, ""), name
        assert said in told.err, name
        assert told.err.startswith("holdfast: ") and "Traceback" not in told.err
        told = call(capfdbinary, verb, name, "--json")
        assert (told.code, json.loads(told.out)["kind"]) == (2, "not_a_run"), name
    assert (snapshot(here), snapshot(cache_home)) == (before, cached)


def test_recovery_28_a_run_without_work_is_a_run(tmp_path, capfdbinary):
    """A run in which only its session was recorded opens and is sound."""
    root = crashed_run(tmp_path / "run")
    told = call(capfdbinary, "verify", root)
    assert (told.code, "0 trials finished" in told.out) == (0, True)


@pytest.mark.parametrize("verb", READING)
def test_resume_28_a_run_is_found_by_a_part_of_its_name(here, capfdbinary, verb):
    """A unique part is enough, the whole name is exact, and an ambiguous part is refused with the candidates."""
    for name in ("20260101-capitals-ab12", "20260102-capitals-cd34", "cd34"):
        finished_run(here / "runs" / name, "t1")
    (here / "runs" / ".20260103-capitals.creating-x" / "journal").mkdir(parents=True)
    before = snapshot(here)
    assert call(capfdbinary, verb, "ab12").code == 0
    assert call(capfdbinary, verb, "cd34").code == 0
    assert call(capfdbinary, verb, here / "runs" / "cd34").code == 0
    told = call(capfdbinary, verb, "capitals")
    assert told.code == 2
    assert "matches 2 runs: runs/20260101-capitals-ab12, runs/20260102-capitals-cd34" in told.err
    told = call(capfdbinary, verb, "capitols", "--json")
    assert told.code == 2
    assert "20260101-capitals-ab12" in json.loads(told.out)["hint"]
    assert snapshot(here) == before


@pytest.mark.parametrize("verb", READING)
def test_resume_27_a_newer_format_exits_3_and_names_it(tmp_path, capfdbinary, verb):
    """Nothing is guessed, nothing is changed, and nobody is told to delete anything."""
    root = finished_run(tmp_path / "run", "t1")
    path = segment_paths(root)[-1]
    data = path.read_bytes()
    newer = reframed(data, data_pieces(data)[0], compressed(b"{}"), format=FORMAT + 1, raw=3)
    path.write_bytes(newer)
    before = snapshot(root)
    told = call(capfdbinary, verb, root, "--json")
    assert told.code == 3
    answer = json.loads(told.out)
    assert answer["kind"] == "newer_format"
    assert f"format {FORMAT + 1}; this version reads up to {FORMAT}" in answer["error"]
    assert "newer holdfast" in answer["hint"]
    assert snapshot(root) == before


def test_resume_27_a_session_is_not_begun_on_a_newer_format(tmp_path):
    """Executing is refused like reading, before anything is written."""
    root = finished_run(tmp_path / "run", "t1")
    path = segment_paths(root)[-1]
    data = path.read_bytes()
    path.write_bytes(reframed(data, data_pieces(data)[0], compressed(b"{}"), format=FORMAT + 1, raw=3))
    before = snapshot(root)
    with pytest.raises(NewerFormat):
        begin_session(root)
    assert snapshot(root) == before


def test_a_disk_that_cannot_be_read_is_a_storage_failure(tmp_path, capfdbinary, monkeypatch):
    """An error of the disk is a sentence and exit code 5, not a traceback."""
    root = finished_run(tmp_path / "run", "t1")

    def fail(*_):
        raise OSError(5, "Input/output error", str(root))

    monkeypatch.setattr("holdfast.storage.filesystem.RealFileSystem.list", fail)
    told = call(capfdbinary, "verify", root, "--json")
    assert (told.code, json.loads(told.out)["kind"]) == (5, "storage")
    assert f"{root}: Input/output error" in json.loads(told.out)["error"]


def test_ctrl_c_in_a_reading_verb_exits_130(tmp_path, capfdbinary, monkeypatch):
    """An interrupted verb says nothing and exits as interrupted."""
    root = finished_run(tmp_path / "run", "t1")

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("holdfast.cli.trust.verify.verify_run", interrupt)
    assert call(capfdbinary, "verify", root).code == 130


def test_the_installed_program_is_the_same(tmp_path):
    """Through a process of its own: exit codes and standard error."""
    assert program("--version").code == 0
    assert program("verify", tmp_path / "none").code == 2
