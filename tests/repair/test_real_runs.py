"""Repair of runs that wrote their result files themselves: real sessions, real kills, deleted journals."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from workspaces import GROUPS, lose_journal, workspace_eval

from holdfast import Run, write_result
from holdfast.run.core import run_id
from holdfast.run.core.layout import Layout
from holdfast.run.core.result_file import RESULT
from holdfast.storage import RealFileSystem

STAGED = '''
import os
from pathlib import Path

from holdfast import Answer, Sample, Task, exact
from holdfast.tasks.stages import Stage

PAID = Path(os.environ["PAID"])


class Agent:
    """Each stage notes that it has run; solving is what costs."""

    def __init__(self):
        self.stages = (Stage("prepare", prepare), Stage("solve", solve), Stage("capture", capture))

    def answer(self, trial, outcomes):
        return Answer(outcomes["capture"]["diff"])

    async def clean_up(self, trial, status):
        note(trial, f"clean {status}")


def note(trial, what):
    with PAID.open("a") as file:
        file.write(f"{trial.sample.id} {trial.axes['tier']} {what}\\n")


async def prepare(trial, outcomes):
    note(trial, "prepare")
    return {"draw": await trial.random()}


async def solve(trial, outcomes):
    note(trial, "solve")
    reply = await trial.generate(trial.sample.input)
    return {"text": reply.text, "draw": outcomes["prepare"]["draw"]}


async def capture(trial, outcomes):
    note(trial, "capture")
    return {"diff": outcomes["solve"]["text"]}


samples = [Sample(f"q{number}", target=f"q{number}", id=f"s{number}") for number in range(3)]
experiment = Task(samples=samples, solver=Agent(), scorers=exact(), axes={"tier": ["T0", "T1"]})
'''


@pytest.fixture
def staged(tmp_path):
    (tmp_path / "staged.py").write_text(STAGED)
    return tmp_path


def holdfast(directory: Path, *words, crash: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PAID": str(directory / "paid"), **({"HOLDFAST_CRASH_AT": crash} if crash else {})}
    command = [sys.executable, "-m", "holdfast", *map(str, words)]
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def run_staged(directory: Path, *words, crash: str = "") -> subprocess.CompletedProcess[str]:
    fixed = ("--model", "scripted/echo", "--run-dir", "run", "--set", "concurrency_limit=1", "--or-resume")
    return holdfast(directory, "run", "staged.py", *fixed, *words, crash=crash)


def notes(directory: Path, what: str) -> list[str]:
    lines = (directory / "paid").read_text().splitlines()
    return [line.rpartition(f" {what}")[0] for line in lines if line.endswith(f" {what}")]


def json_of(directory: Path, *words):
    done = holdfast(directory, *words, "--json")
    return done.returncode, json.loads(done.stdout)


def test_recovery_13_a_real_experiment_without_its_journal_is_repaired(tmp_path, told, text):
    """Recovery 13 and 17, 18: 590 trials that were run for real, over five groups; their answers are there too."""
    root = tmp_path / "run"
    eval_file = workspace_eval(tmp_path, GROUPS)
    assert text("run", eval_file, "--run-dir", root, "--set", "result_files=true")[0] == 0
    assert len(list((root / "artifacts").iterdir())) == 590
    assert told("verify", root, "--deep")[0] == 0
    before = [(row["trial"], row["answer"], row["scores"]) for row in Run(root).to_dicts()]
    lose_journal(root)
    code, result = told("repair", root)
    assert (code, result["sound"], result["after"], result["difference"]) == (0, 590, 590, 590)
    groups = {group["value"]: group["after"] for group in result["groups"] if group["by"] == "task"}
    assert groups == GROUPS
    code, again = told("repair", root)
    assert (code, again["difference"], again["changes"]) == (0, 0, [])
    assert told("status", root)[1]["state"] == "complete"
    assert told("verify", root, "--deep")[0] == 0
    assert sorted((row["trial"], row["answer"], row["scores"]) for row in Run(root).to_dicts()) == sorted(before)


def test_recovery_15_spoiled_files_of_a_real_run_are_listed_and_not_counted(tmp_path, told, text):
    """One is cut, one has no checksum, one no verdict, one belongs to another trial (recovery 35)."""
    root = tmp_path / "run"
    assert text("run", workspace_eval(tmp_path, {"code": 8}), "--run-dir", root, "--set", "result_files=true")[0] == 0
    files = sorted((root / "artifacts").glob(f"*/{RESULT}"))
    whole = [json.loads(file.read_text()) for file in files]
    files[0].write_bytes(files[0].read_bytes()[:60])
    files[1].write_text(json.dumps({name: item for name, item in whole[1].items() if name != "checksum"}))
    files[2].write_text(json.dumps({name: item for name, item in whole[2].items() if name != "status"}))
    shutil.copy(files[4], files[3])
    lose_journal(root)
    code, result = told("repair", root)
    assert (code, result["after"], len(result["faults"])) == (1, 4, 4)
    assert told("repair", root)[1]["difference"] == 0
    assert told("status", root)[1]["remaining"] == 4


def test_recovery_16_the_journal_wins_over_a_file_that_contradicts_it(tmp_path, told, text):
    root = tmp_path / "run"
    assert text("run", workspace_eval(tmp_path, {"code": 2}), "--run-dir", root, "--set", "result_files=true")[0] == 0
    row = Run(root).to_dicts()[0]
    place = {"task": "code", "model": "m", "sample": row["sample"]}
    write_result(root, **place, scores={"exact": 1.0 - row["scores"]["exact"]})
    code, result = told("repair", root)
    assert (code, len(result["conflicts"]), result["difference"]) == (1, 1, 0)
    assert Run(root).to_dicts()[0]["scores"] == row["scores"]


def test_a_program_writes_a_result_by_itself(tmp_path, told, text):
    """`write_result` computes the key of the trial; repair records the result, with its answer."""
    root = tmp_path / "run"
    eval_file = workspace_eval(tmp_path, {"code": 2})
    assert text("run", eval_file, "--run-dir", root)[0] == 0
    samples = [row["sample"] for row in Run(root).to_dicts()]
    lose_journal(root)
    for sample in samples:
        write_result(root, task="code", model="m", sample=sample, scores={"exact": 1.0}, answer="it")
    code, result = told("repair", root)
    assert (code, result["difference"]) == (0, 2)
    assert [(row["answer"], row["scores"]["exact"]) for row in Run(root).to_dicts()] == [("it", 1.0)] * 2


def test_recovery_16_a_kill_between_the_file_and_the_journal_is_no_conflict(staged):
    """The file is there and the trial has no end: it does not count, nothing is damaged, the resume overwrites it."""
    assert run_staged(staged, crash="result.written:2").returncode == -signal.SIGKILL
    files = sorted((staged / "run" / "artifacts").glob(f"*/{RESULT}"))
    assert len(files) == 2
    _, status = json_of(staged, "status", "run")
    assert (status["finished"], status["unfinished"]) == (1, 1)
    assert json_of(staged, "verify", "run", "--deep")[0] == 0
    code, result = json_of(staged, "repair", "run")
    assert (code, result["difference"], result["conflicts"]) == (0, 0, [])
    assert run_staged(staged).returncode == 0
    assert sorted(notes(staged, "solve")) == sorted(set(notes(staged, "solve")))
    assert json_of(staged, "verify", "run", "--deep")[0] == 0
    lose_journal(staged / "run")
    assert json_of(staged, "repair", "run")[1]["after"] == 6


@pytest.mark.parametrize("first", [2, 5])
def test_experiments_5_killed_at_frames_between_stages_each_agent_is_paid_once(staged, first):
    """Killed again and again, each time at a later frame: a stage whose outcome is durable is not run again."""
    crashes = 0
    for arrival in range(first, 60, 7):
        done = run_staged(staged, crash=f"frame.acknowledged:{arrival}")
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        crashes += 1
    assert done.returncode == 0
    assert crashes >= 2
    # At most the agent that was running at a kill was paid again.
    assert len(notes(staged, "solve")) <= 6 + crashes
    assert len(notes(staged, "capture")) <= 6 + crashes
    assert len(set(notes(staged, "clean valid"))) == 6
    assert json_of(staged, "verify", "run", "--deep")[0] == 0


def test_experiments_14_and_15_on_the_command_line(staged):
    """`--until` and `--from` with filters: states, messages and exit codes."""
    done = run_staged(staged, "--until", "solve")
    assert done.returncode == 75
    assert "Paused: 0 of 6 trials finished, 6 remaining: 6 paused after solve." in done.stdout
    assert "holdfast resume run" in done.stdout
    _, status = json_of(staged, "status", "run")
    assert (status["state"], status["sessions"][-1]["ended_as"]) == ("paused", "paused")
    done = holdfast(staged, "resume", "run", "--until", "solve")
    assert done.returncode == 75
    assert "nothing to run until the stage solve" in done.stdout
    done = holdfast(staged, "resume", "run", "--until", "capture", "--where", "tier=T0")
    assert (done.returncode, len(notes(staged, "capture"))) == (75, 3)
    assert holdfast(staged, "resume", "run").returncode == 0
    assert (len(notes(staged, "solve")), len(notes(staged, "capture"))) == (6, 6)
    done = holdfast(staged, "resume", "run", "--from", "capture", "--where", "tier=T1")
    assert done.returncode == 0, done.stderr
    assert "Running 3 trials again from the stage capture on" in done.stderr
    assert (len(notes(staged, "solve")), len(notes(staged, "capture"))) == (6, 9)
    assert holdfast(staged, "resume", "run", "--from", "score").returncode == 0
    assert (len(notes(staged, "solve")), len(notes(staged, "capture"))) == (6, 9)
    assert json_of(staged, "verify", "run", "--deep")[0] == 0
    assert holdfast(staged, "show", "run", "--json").returncode == 0


def test_experiments_15_what_was_deleted_cannot_be_kept(staged):
    """`clean --steps` keeps the outcomes of stages, so that `--from` still works."""
    assert run_staged(staged).returncode == 0
    assert holdfast(staged, "clean", "run", "--steps").returncode == 0
    assert json_of(staged, "verify", "run", "--deep")[0] == 0
    done = holdfast(staged, "resume", "run", "--from", "capture", "--where", "tier=T1")
    assert done.returncode == 0, done.stderr
    assert (len(notes(staged, "solve")), len(notes(staged, "capture"))) == (6, 9)


def test_a_written_result_opens_one_segment_for_the_id_of_its_run(tmp_path, told, text, monkeypatch):
    root = tmp_path / "run"
    assert text("run", workspace_eval(tmp_path, {"code": 2}), "--run-dir", root)[0] == 0
    assert text("resume", root, "--redo", "task=code")[0] == 0
    sample = Run(root).to_dicts()[0]["sample"]
    opened, really = [], run_id.first_header_in_file
    monkeypatch.setattr(run_id, "first_header_in_file", lambda fs, path: opened.append(path) or really(fs, path))
    path = write_result(root, task="code", model="m", sample=sample, scores={"exact": 1.0})
    assert len(opened) == 1 < len(list((root / "journal").iterdir()))
    assert json.loads(path.read_text())["run"] == run_id.find_run_id(RealFileSystem(), Layout(root)).hex()
