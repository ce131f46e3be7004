"""Row 83: the ways out that a refusal names, cheapest first; every command is typed into a shell as it is printed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from gate_world import MODEL, TASK

from durable import snapshot

PROMPT = "Well: {question}"
SAVED = "without the change, the saved configuration is used: "


def shell(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """What a person's shell does with a line; `holdfast` is that of this Python."""
    programs = directory / ".programs"
    programs.mkdir(exist_ok=True)
    program = programs / "holdfast"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m holdfast "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    return subprocess.run(
        ["sh", "-c", command], cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def ways_out(text: str) -> list[str]:
    """The commands that a refusal names, in their order."""
    _, _, rest = text.partition("Ways out, cheapest first:\n")
    return [re.search(r"holdfast (?:resume|rescore|fork|run) .*", line)[0] for line in rest.splitlines() if line]


NAMES = ["plain", "a@b %40 ü#", "it's", "-dash", "two words", '$HOME `x` "q" & ; |', "back\\slash", "*?[a]"]


@pytest.mark.parametrize("name", NAMES)
def test_resume_83_every_command_works_when_typed(world, name):
    """Resume 83: whatever the run is called, the first way out is a plain resume, and each of them works in a shell."""
    world.begin()
    world.run_dir.rename(world.directory / name)
    world.task["prompt"] = PROMPT
    place = name if not name.startswith("-") else f"./{name}"
    for command in (
        ("resume", place, "--config", world.write()),
        ("run", world.write(), "--run-dir", place, "--or-resume"),
    ):
        refused = world(*command, code=3).err
        assert SAVED in refused
        commands = ways_out(refused)
        assert [line.split()[1] for line in commands] in (["resume", "fork", "run"], ["resume", "run", "fork"])
    for line in commands[1:]:
        done = shell(line, world.directory)
        assert done.returncode == 0, (line, done)
    done = shell(commands[0], world.directory)
    assert done.returncode == 0 and "Complete: 4 of 4" in done.stdout, done


def test_resume_83_the_first_way_out_changes_nothing_else(world):
    """Resume 83: the saved configuration is the one that is used."""
    world.begin()
    world.task["prompt"] = PROMPT
    world.data["concurrency_limit"] = 3
    (first, *_) = ways_out(world.resume(code=3).err)
    assert first == "holdfast resume r"
    assert shell(first, world.directory).returncode == 0
    assert world.entries == [] and world.body["tasks"]["t"]["prompt"] == "{question}"
    world.check_complete(4)


def test_resume_83_fork_says_what_it_keeps_and_keeps_it(world):
    """Resume 83: a fork is named with the options of the offer and the number of trials that it keeps."""
    world.data["tasks"]["u"] = {**TASK, "limit": 3}
    world.run()
    world.task["prompt"] = PROMPT
    said = world.resume("--set", "epochs=1", code=3).err
    assert "a new run that keeps 3 of 7 trials and answers identical requests of the others from this one: " in said
    command = next(line for line in ways_out(said) if " fork " in line)
    assert command.startswith("holdfast fork r --config ") and command.endswith(" --set epochs=1")
    done = shell(f"{command} --json", world.directory)
    assert json.loads(done.stdout)["taken"] == 3, done


def test_resume_83_a_new_run_first_where_a_fork_keeps_nothing(world):
    """Resume 83: one command is cheaper than two where both make the same calls."""
    world.run()
    world.data["seed"] = 4
    kinds = [line.split()[1] for line in ways_out(world.resume(code=3).err)]
    assert kinds == ["resume", "run", "fork"]


def test_resume_83_a_scoring_change_keeps_the_answers(world):
    """Resume 83: the ways out of a scoring change are rescore, and a fork, which keeps the answers; a new run is not
    named.
    """
    world.run()
    world.task["scorers"] = [{"exact": {"ignore_case": True}}]
    said = world.resume(code=3).err
    assert "a new run that keeps the answers of 4 of 4 trials and scores them again: holdfast fork r" in said
    assert [line.split()[1] for line in ways_out(said)] == ["resume", "rescore", "fork"]
    forked = json.loads(shell(f"{ways_out(said)[2]} --json", world.directory).stdout)
    assert (forked["taken"], forked["rescored"]) == (0, 4)
    assert shell(ways_out(said)[1], world.directory).returncode == 0


FAILING = """
def strict(answer, sample):
    raise ValueError("my bug")
"""


def test_resume_83_after_a_failed_scorer_the_answers_are_counted_as_kept(world):
    """Resume 83: trials that failed in a scorer have their answers, and a fork keeps them: nothing is paid again."""
    (world.directory / "own.py").write_text(FAILING)
    world.task["scorers"] = ["own.py:strict"]
    ended = world.run(code=1)
    assert "After fixing the scorer: holdfast rescore r" in ended.out
    (world.directory / "own.py").write_text(FAILING.replace('raise ValueError("my bug")', "return 1.0"))
    said = world("resume", "r", "--redo", "status=failed", code=3).err
    assert "a new run that keeps the answers of 4 of 4 trials and scores them again: holdfast fork r" in said
    forked = world.json("fork", "r", "--run-dir", "f", code=0)
    assert (forked["taken"], forked["rescored"]) == (0, 4)
    world("rescore", "r", code=0)
    assert world.json("status", "r")["calls"]["made"] == 4


def test_resume_83_settings_of_a_resume_are_in_the_commands(world):
    """Resume 83: a new run has the change that was refused, as the fork has it."""
    world.run()
    said = world("resume", "r", "--set", "models.m.generation.temperature=0.7", code=3).err
    assert {line.split()[1] for line in ways_out(said)} == {"resume", "run", "fork"}
    assert [line for line in ways_out(said) if "--set models.m.generation.temperature=0.7" in line] == ways_out(said)[
        1:
    ]


def test_resume_83_an_edited_dataset_has_to_be_undone(world):
    """Resume 83: a plain resume is named as it works: not before the file is as it was."""
    world.write()
    assert shell("holdfast run eval.yaml --run-dir r --set limit=3", world.directory).returncode == 0
    old = (world.directory / "rows.jsonl").read_bytes()
    world.rows[0]["question"] = "edited"
    for said in (world.resume(code=3).err, world("resume", "r", code=3).err):
        assert "undo the changes of data or code, then: holdfast resume r" in said and SAVED not in said
    fork, run = ways_out(said)[1:]
    assert (fork, run) == ("holdfast fork r", "holdfast run eval.yaml --set limit=3 --reuse r")
    assert shell(fork, world.directory).returncode == 0
    assert shell(run, world.directory).returncode == 0
    (world.directory / "rows.jsonl").write_bytes(old)
    assert shell("holdfast resume r", world.directory).returncode == 0


def test_resume_83_flags_of_run_are_in_the_commands(world):
    """Resume 83: what was given by flags is given by the ways out, too."""
    world.run()
    world.data["seed"] = 9
    said = world(
        "run", world.write(), "--run-dir", "r", "--or-resume", "--epochs", "2", "--sample-id", "s2", code=3
    ).err
    _, run, fork = ways_out(said)
    for command, words in ((run, "--sample-id s2 --epochs 2"), (fork, "--set epochs=2 --set 'sample_ids=[\"s2\"]'")):
        assert words in command
        assert shell(command, world.directory).returncode == 0, command


TASK_FILE = """
from holdfast import Sample, Task, exact, generate, task

@task
def t(n: int = 2):
    samples = [Sample(f"q{i}", target=f"q{i}") for i in range(n)]
    return Task(samples=samples, solver=generate("{input}"), scorers=exact())
"""


def test_resume_83_a_python_file(world):
    """Resume 83: of a Python file there is no eval to fork with; a new run reuses what was answered."""
    (world.directory / "tk.py").write_text(TASK_FILE)
    words = ("run", "tk.py", "--model", "scripted/echo", "--run-dir", "r")
    world(*words, code=0)
    said = world(*words, "--or-resume", "--set", "seed=3", code=3).err
    commands = ways_out(said)
    assert commands == [
        "holdfast resume r",
        "holdfast run tk.py --model scripted/echo --set seed=3 --reuse r",
    ]
    assert all(shell(command, world.directory).returncode == 0 for command in commands)


def test_resume_83_from_another_directory(world):
    """Resume 83: the eval file is named so that it is found from where the command is typed."""
    world.run()
    world.rows[0]["question"] = "edited"
    world.write_rows()
    elsewhere = world.directory / "else where"
    elsewhere.mkdir()
    done = shell("holdfast resume ../r", elsewhere)
    assert done.returncode == 3
    for command in ways_out(done.stderr)[1:]:
        again = shell(command, elsewhere)
        assert again.returncode == 0, (command, again)


def test_a_refusal_as_json_has_the_ways_out(world):
    """The same text stands in the object that a program reads."""
    world.run()
    world.data["seed"] = 1
    told = world.json("resume", "r", "--config", world.write(), code=3)
    assert "holdfast resume r" in told["error"] and "seed (identity): 0 → 1" in told["error"]


def test_resume_83_every_refused_field_with_its_class(world):
    """Resume 83: one refusal has every field, its class, both values and what each needs; then the ways out."""
    world.data["tasks"]["u"] = {**TASK, "scorers": ["includes"]}
    world.run()
    world.data["seed"] = 1
    world.data["max_retries"] = 7
    world.data["tasks"]["u"]["scorers"] = [{"includes": {"ignore_case": True}}]
    world.data["models"]["n"] = world.data["models"].pop("m")
    said = world.refused()
    for line in (
        "seed (identity): 0 → 1",
        "runner.max_retries (recorded): 2 → 7",
        'tasks.u.scorers.includes (scoring): {} → {"ignore_case":true}',
        "models.m (identity): m → n",
    ):
        assert f"\n  {line}\n    " in said
    assert said.index("models.m") < said.index("Ways out, cheapest first:\n")


def test_resume_74_a_run_that_moved_away_from_its_eval(world, tmp_path_factory):
    """Resume 74: moved, renamed, copied, with another home and working directory: it resumes as ever."""
    world.data["concurrency_limit"] = 1
    world.begin()
    other = tmp_path_factory.mktemp("other machine")
    moved = other / "a@b %40 ü#"
    shutil.copytree(world.run_dir, moved)
    shutil.rmtree(world.run_dir)
    for path in world.directory.iterdir():
        path.unlink() if path.is_file() else shutil.rmtree(path)
    environment = {**os.environ, "HOME": str(other), "USER": "nobody", "TZ": "Asia/Tokyo", "LANG": "C"}
    command = [sys.executable, "-m", "holdfast", "resume", str(moved)]
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0 and "Complete: 4 of 4" in done.stdout, done
    assert not re.search(r"#   - ", (moved / "config.yaml").read_text())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_resume_74_files_of_another_user(world):
    """Resume 74: a run that was brought here by another user, or from another machine, is resumed."""
    world.begin()
    for path in (world.run_dir, *world.run_dir.rglob("*")):
        os.chown(path, 12345, 12345)
    world("resume", "r", code=0)
    world.check_complete(4)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_resume_74_resumed_by_another_user(world):
    """Resume 74: another user resumes a copy, with a home of their own; and cannot touch a run that is not theirs."""
    world.begin()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        shutil.copytree(world.run_dir, place / "theirs")
        for path in (place, place / "theirs", *(place / "theirs").rglob("*")):
            os.chown(path, 12345, 12345)
        shutil.copytree(world.run_dir, place / "mine")
        (place / "mine").chmod(0o755)
        before = snapshot(place / "mine")
        # Another user cannot write what measures the tests.
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")},
            "HOME": name,
            "USER": "other",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        options = {"cwd": place, "env": environment, "timeout": 120, "capture_output": True, "text": True}
        # Without capabilities: some containers leave those of root to everybody.
        other = [
            "setpriv",
            "--reuid=12345",
            "--regid=12345",
            "--clear-groups",
            "--inh-caps=-all",
            "--ambient-caps=-all",
        ]
        asked = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
        pythons = [sys.executable, *(shutil.which(name, path="/usr/bin:/usr/local/bin") for name in ("python3",))]
        usable = [
            one
            for one in pythons
            if one and not subprocess.run([*other, one, "-c", asked], check=False, **options).returncode
        ]
        if not usable:
            pytest.skip("another user cannot start this version of Python")
        ended = {
            run: subprocess.run([*other, usable[0], "-m", "holdfast", "resume", run], check=False, **options)
            for run in ("theirs", "mine")
        }
        assert ended["theirs"].returncode == 0 and "Complete: 4 of 4" in ended["theirs"].stdout, ended["theirs"]
        assert ended["mine"].returncode not in {0, 70} and "Traceback" not in ended["mine"].stderr, ended["mine"]
        assert snapshot(place / "mine") == before


def test_resume_74_the_eval_moved(world):
    """A copy of the whole eval elsewhere offers the same: only the place has changed."""
    world.begin()
    other = world.directory / "moved"
    other.mkdir()
    world.write()
    for name in ("eval.yaml", "rows.jsonl"):
        shutil.copy(world.directory / name, other / name)
    told = world("resume", "r", "--config", other / "eval.yaml", code=0)
    assert "datasets.rows.path: " in told.err
    assert world.data["models"] == {"m": MODEL}
