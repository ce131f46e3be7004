"""The README is true: its commands, its eval and its Python task work as they are printed."""

from __future__ import annotations

import os
import re
import shutil
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


INSTALL = "pip install ."


def printed(block: str) -> list[tuple[str, str]]:
    """The commands of a block, each with the output that the block shows for it."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)[1:]
    return [(command.split("  # ")[0], output) for command, output in zip(parts[::2], parts[1::2], strict=True)]


def test_the_tour_of_the_readme_works_as_printed(tmp_path):
    """Every command ends with exit code 0, except the one that kills itself; what is shown is what is printed."""
    tour = [item for block in blocks("console") for item in printed(block) if item[0] != INSTALL]
    assert len(tour) >= 12
    shutil.copytree(ROOT / "examples" / "experiment", tmp_path / "examples" / "experiment")
    for command, output in tour:
        done = run(command, tmp_path)
        expected = 137 if "HOLDFAST_CRASH_AT" in command else 0
        assert done.returncode in {expected, -9 if expected else 0}, f"{command}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        if output:
            assert done.stdout == output
        if command == "holdfast status second":
            assert re.search(r"[1-9] of 8 trials finished, [1-9] remaining", done.stdout), done.stdout
        if command == "holdfast resume second":
            assert re.search(r"[1-9] of 8 trials are finished, [1-9] remaining", done.stderr), done.stderr
    for name in ("first", "second"):
        reader = RunReader(tmp_path / name)
        assert len(list(reader.fold.finished())) == reader.sessions[-1].planned == (11 if name == "first" else 8)
        reader.close()


def test_the_commands_for_a_clone_exist():
    """The targets of the Makefile that the README names are there, and so is what pip installs."""
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make (\w+)`", README)) <= targets
    assert INSTALL in [command for block in blocks("console") for command, _ in printed(block)]


def test_the_eval_of_the_readme_is_valid():
    """The YAML in the README loads and resolves."""
    (text,) = blocks("yaml")
    spec = resolve(parse_eval(text))
    assert spec.tasks["capitals"].epochs == 2 and spec.tasks["capitals"].models == ["large", "small"]


def test_the_python_task_of_the_readme_runs(tmp_path):
    """The Python in the README prints a report, as a script and through the command line, without any extra."""
    (code,) = blocks("python")
    (tmp_path / "capitals.py").write_text(code, encoding="utf-8")
    for extra in ("pandas", "polars"):
        # Found before the installed one: `pip install .` installs none.
        (tmp_path / f"{extra}.py").write_text(f"raise ImportError({extra!r})\n", encoding="utf-8")
    done = run("python capitals.py", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 trials valid" in done.stdout and "{'includes': 0.0}" in done.stdout
    done = run("holdfast run capitals.py --model scripted/echo --epochs 4 --limit 5 --run-dir fourth", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Complete: 4 of 4" in done.stdout


def test_the_nightly_command_of_the_readme_runs_every_night(tmp_path):
    """On another day it is another run; on the same day it resumes, and says so if there is nothing to run."""
    (command,) = [command for block in blocks("console") for command, _ in printed(block) if "--or-resume" in command]
    (tmp_path / "date").write_text("#!/bin/sh\ncat today\n", encoding="utf-8")
    (tmp_path / "date").chmod(0o755)
    assert run("holdfast init", tmp_path).returncode == 0
    for day, told in (
        ("2026-01-01", "Complete: 8 of 8"),
        ("2026-01-02", "Complete: 8 of 8"),
        ("2026-01-02", "; nothing was run."),
    ):
        (tmp_path / "today").write_text(day, encoding="utf-8")
        done = run(f"PATH=$PWD:$PATH; {command}", tmp_path)
        assert done.returncode == 0 and told in done.stdout, done


def test_what_the_readme_says_of_extras_and_the_network_is_true():
    """The extra for data frames is declared, and what `make demo` installs is said before it is started."""
    assert "pip install '.[frames]'" in README
    assert "frames = [" in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    size = re.search(r"language model: (\d+) MB", (ROOT / "Makefile").read_text(encoding="utf-8"))
    said = re.search(r"`make demo`[^\n]* downloads about (\d+) MB", README)
    assert size is not None and said is not None
    assert abs(int(size[1]) - int(said[1])) < 10


@pytest.mark.parametrize("link", re.findall(r"\]\((?!http)([^)]+)\)", README))
def test_the_links_of_the_readme_lead_somewhere(link):
    """Every file that the README names is there."""
    assert (ROOT / link).exists()
