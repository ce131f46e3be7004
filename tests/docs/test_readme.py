"""The README is true: its commands, its eval and its Python task work as they are printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.run.fold.reader import RunReader
from holdfast.spec import parse_eval, resolve

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[str]:
    return [line.removeprefix("$ ").split("  # ")[0] for line in block.splitlines() if line.startswith("$ ")]


def run(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_tour_of_the_readme_works_as_printed(tmp_path):
    """Every command of the tour ends with exit code 0, except the one that kills itself, which ends with 137."""
    tour = [command for block in blocks("console")[1:] for command in commands(block)]
    assert len(tour) >= 10
    for command in tour:
        done = run(command, tmp_path)
        expected = 137 if "HOLDFAST_CRASH_AT" in command else 0
        assert done.returncode in {expected, -9 if expected else 0}, f"{command}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        if command == "holdfast status second":
            assert re.search(r"[1-9] of 8 trials finished, [1-9] remaining", done.stdout), done.stdout
        if command == "holdfast resume second":
            assert re.search(r"[1-9] of 8 trials are finished, [1-9] remaining", done.stderr), done.stderr
    for name in ("first", "second"):
        reader = RunReader(tmp_path / name)
        assert len(list(reader.fold.finished())) == reader.sessions[-1].planned == (11 if name == "first" else 8)
        reader.close()


def test_the_first_two_commands_are_targets_of_the_makefile():
    """The commands at the top of the README exist."""
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert [command.split() for command in commands(blocks("console")[0])] == [["make", "demo"], ["make", "test"]]
    assert {"demo", "test"} <= set(targets)


def test_the_eval_of_the_readme_is_valid():
    """The YAML in the README loads and resolves."""
    (text,) = blocks("yaml")
    spec = resolve(parse_eval(text))
    assert spec.tasks["capitals"].epochs == 2


def test_the_python_task_of_the_readme_runs(tmp_path):
    """The Python in the README prints a report, as a script and through the command line."""
    (code,) = blocks("python")
    (tmp_path / "capitals.py").write_text(code, encoding="utf-8")
    done = run("python capitals.py", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 trials valid" in done.stdout
    done = run("holdfast run capitals.py --model scripted/echo --epochs 4 --limit 5 --run-dir fourth", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Complete: 4 of 4" in done.stdout


@pytest.mark.parametrize("link", re.findall(r"\]\((?!http)([^)]+)\)", README))
def test_the_links_of_the_readme_lead_somewhere(link):
    """Every file that the README names is there."""
    assert (ROOT / link).exists()
