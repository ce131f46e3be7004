"""Recovery 19: config.yaml, the index and a lost session record are made again from what survives; else it is said
what is missing.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3

import pytest
from workspaces import begin_session_like, ends_on_record, leave_results, lose_journal, planned_run, workspace_eval

from cli_calls import program
from durable import change_index, commit, data_pieces, segment_paths, snapshot
from holdfast.storage import crashpoints


@pytest.fixture
def run(tmp_path):
    """A run of four planned trials, of which two are on record and all have result files."""
    root = tmp_path / "run"
    ends = planned_run(workspace_eval(tmp_path, {"code": 4}), root)
    session = begin_session_like(root)
    for end in ends[:2]:
        commit(session, end)
    session.close("interrupted", 130)
    leave_results(root, ends)
    return root


def lose_sessions(root):
    """Damages the frames that hold session records; what else is in the journal stays."""
    for path in segment_paths(root):
        data = path.read_bytes()
        if b"000001.jsonl" in path.name.encode():
            piece = data_pieces(data)[0]
            path.write_bytes(data[: piece.end - 3] + bytes(3) + data[piece.end :])


CONFIGS = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_text(""),
    "no YAML": lambda path: path.write_text("a: [1, 2"),
    "no mapping": lambda path: path.write_text("- 1\n- 2\n"),
    "binary": lambda path: path.write_bytes(b"\xff\xfe\0"),
    "edited": lambda path: path.write_text(path.read_text().replace("seed: 0", "seed: 7")),
    "a directory": lambda path: path.unlink() or path.mkdir(),
    "a dangling link": lambda path: path.unlink() or path.symlink_to("/nowhere"),
}


@pytest.mark.parametrize("state", CONFIGS)
def test_recovery_19_config_is_written_again_from_the_session_record(run, told, state):
    """Whatever became of the file, it is as the journal gives it; what was there is in the backup."""
    path = run / "config.yaml"
    whole = path.read_bytes()
    CONFIGS[state](path)
    was = path.read_bytes() if path.is_file() else None
    code, result = told("repair", run)
    assert code == 0
    assert any("config.yaml" in change for change in result["changes"])
    assert path.read_bytes() == whole
    assert bool(result["backup"]) == (state != "missing")
    if was is not None:
        assert (run / "backup-1" / "config.yaml").read_bytes() == was
    assert told("repair", run)[1]["changes"] == []


def test_recovery_19_comments_of_a_person_are_left_alone(run, told):
    """A file that says the same is not replaced."""
    path = run / "config.yaml"
    path.write_text("# my own words\n" + path.read_text())
    _, result = told("repair", run)
    assert not any("config.yaml" in change for change in result["changes"])
    assert path.read_text().startswith("# my own words\n")


def test_recovery_19_a_lost_session_record_is_made_again_from_config(run, told, text):
    """The journal has trials and no session record: config.yaml gives one, and the run goes on."""
    lose_sessions(run)
    code, result = told("repair", run)
    assert (code, result["before"], result["after"]) == (0, 2, 4)
    assert "rebuilt from the configuration" in " ".join(result["changes"])
    assert told("status", run)[1]["state"] == "complete"
    assert text("resume", run)[0] == 0
    assert told("repair", run)[1]["changes"] == []


@pytest.mark.parametrize("config", ["missing", "no YAML", "no mapping", "a directory"])
@pytest.mark.parametrize("journal", ["without sessions", "lost"])
def test_recovery_19_where_both_are_lost_it_is_said_what_is_missing(run, told, text, config, journal):
    """Results are counted and left alone; exit 1; no session is invented."""
    if journal == "lost":
        lose_journal(run)
    else:
        lose_sessions(run)
    CONFIGS[config](run / "config.yaml")
    before = snapshot(run / "journal") if journal != "lost" else {}
    code, result = told("repair", run)
    assert (code, result["sound"], result["session"], result["difference"]) == (1, 4, 0, 0)
    assert "there is no session record, and config.yaml" in result["missing"][0]
    assert (snapshot(run / "journal") if journal != "lost" else {}) == before
    code, said = text("repair", run)
    assert "missing: The configuration" in said


def test_recovery_19_the_rows_come_from_the_copy_in_the_run_when_the_dataset_is_gone(run, tmp_path, told, text):
    """Nobody recorded which copy is which: the one that holds the samples of the results is found."""
    (tmp_path / "rows.jsonl").unlink()
    lose_journal(run)
    code, result = told("repair", run)
    assert (code, result["after"], result["missing"]) == (0, 4, [])
    assert told("verify", run, "--deep")[0] == 0
    assert text("resume", run)[0] == 0


def test_recovery_19_a_dataset_that_has_changed_meanwhile_is_not_taken_for_the_one_asked_about(
    run, tmp_path, told, text
):
    """The rows are those of the run's own copy, and a resume notices that the file is another one."""
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    rows[3]["question"] = "another question"
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lose_journal(run)
    assert told("repair", run)[0] == 0
    code, said = text("resume", run, "--config", tmp_path / "eval.yaml")
    assert code == 3
    assert "the input was edited" in said


def test_recovery_19_without_any_rows_the_results_are_kept_and_the_plan_is_not_invented(run, tmp_path, told, text):
    """Recorded, reported and never complete; once the dataset is back, a repair finds the plan."""
    hidden = (tmp_path / "rows.jsonl").read_bytes()
    (tmp_path / "rows.jsonl").unlink()
    for copy in (run / "inputs").iterdir():
        copy.unlink()
    lose_journal(run)
    code, result = told("repair", run)
    assert (code, result["after"]) == (1, 4)
    assert "rows.jsonl" in result["missing"][0]
    _, report = told("report", run)
    assert (report["complete"], report["coverage"]["valid"]) == (False, 4)
    assert told("status", run)[1]["state"] != "complete"
    code, said = text("resume", run)
    assert code != 0
    assert "Traceback" not in said
    before = snapshot(run / "journal")
    assert told("repair", run)[0] == 1
    assert snapshot(run / "journal") == before
    (tmp_path / "rows.jsonl").write_bytes(hidden)
    code, result = told("repair", run)
    assert (code, result["missing"]) == (0, [])
    assert told("report", run)[1]["complete"]
    assert text("resume", run)[0] == 0


INDEXES = {
    "missing": lambda path: path.unlink(),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "garbage": lambda path: path.write_bytes(b"x" * 9000),
    "emptied": lambda path: change_index(path, "DELETE FROM trials"),
    "inventing": lambda path: change_index(path, "UPDATE trials SET key = 'zz' || hex(key)"),
    "of another run": lambda path: change_index(path, "UPDATE about SET value = '00' WHERE name = 'run'"),
}
COUNT_VALID = "SELECT count(*) FROM trials JOIN standings ON standings.id = standing WHERE status = 'valid'"


@pytest.mark.parametrize("state", INDEXES)
def test_recovery_5_and_23_an_index_that_is_of_no_use_is_built_anew(run, told, state):
    """An index that says nothing is finished does not outlive a repair, and is in the backup."""
    told("repair", run)
    INDEXES[state](run / "index.sqlite")
    was = (run / "index.sqlite").read_bytes() if state != "missing" else b""
    code, result = told("repair", run)
    assert (code, len(result["changes"])) == (0, 1)
    assert "index.sqlite" in result["changes"][0]
    database = sqlite3.connect(run / "index.sqlite")
    (count,) = database.execute(COUNT_VALID).fetchone()
    database.close()
    assert count == 4
    if was:
        assert (run / result["backup"] / "index.sqlite").read_bytes() == was
    assert told("repair", run)[1]["changes"] == []


def test_an_index_of_the_readers_that_contradicts_the_journal_is_removed(run, told, cache_home):
    """What made verify fail is put right, also where it lies outside of the run."""
    told("repair", run)
    # What a killed session wrote is not in the run's own index.
    begin_session_like(run).abandon()
    assert told("verify", run)[0] == 0
    (cache,) = cache_home.rglob("*.sqlite")
    change_index(cache, "DELETE FROM trials")
    assert told("verify", run)[0] == 1
    _, result = told("repair", run)
    assert "readers' index" in result["changes"][0]
    assert told("verify", run)[0] == 0


@pytest.mark.parametrize(
    "point",
    ["repair.backed-up", "repair.rebuilding", "repair.rebuilt", "segment.created", "frame.written", "session.ending"],
)
def test_a_repair_that_is_killed_is_done_by_the_next(run, told, point):
    """SIGKILL at every point of rebuilding a lost journal: the next repair finds all results, once each."""
    assert point in crashpoints.POINTS + crashpoints.MAINTENANCE
    lose_journal(run)
    (run / "journal").mkdir()
    (run / "journal" / "000001-0000-000001.jsonl.zst").write_bytes(b"garbage")
    killed = program("repair", run, env={**os.environ, "HOLDFAST_CRASH_AT": point})
    assert killed.code == -signal.SIGKILL
    code, result = told("repair", run)
    assert (code, result["after"]) == (0, 4)
    assert sorted(trial.trial for trial in ends_on_record(run)) == sorted(p.name for p in (run / "artifacts").iterdir())
    backups = [path.read_bytes() for path in run.glob("backup-*/journal/000001-0000-000001.jsonl.zst")]
    assert b"garbage" in backups
    assert told("verify", run, "--deep")[0] == 0
    assert not list(run.glob(".journal*"))
