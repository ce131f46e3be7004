"""docs/experiments.md: its first experiment prints what the page shows; its commands are those of `test_snippets`."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from observed import Zygote
from program import Program

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")


@pytest.fixture
def program(tmp_path):
    zygote = Zygote()
    yield Program(tmp_path, zygote)
    zygote.end()


def test_the_first_experiment_prints_the_rows_of_the_page(program, tmp_path):
    """Experiments 19: the rows are lines of the report, in that order; the filter finds what the page says."""
    shutil.copytree(ROOT / "examples" / "experiment", tmp_path / "experiment")
    subprocess.run(["sh", "experiment/make_repository.sh"], cwd=tmp_path, check=True, capture_output=True)
    program("run", "experiment/eval.yaml", "--run-dir", "tiers", code=0)
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    rows = next(text for kind, text in blocks if not kind).splitlines()
    printed = program("report", "tiers", code=0).out.splitlines()
    assert [line for line in printed if line in rows] == rows
    shown = re.search(r"`holdfast (show tiers --where )'(.*?)'`", PAGE)
    found = program.json(*shown[1].split(), shown[2], code=0)["trials"]
    assert [trial["axes"] for trial in found] == [{"subtest": "discount", "tier": "T0"}] * 2


def test_the_commands_of_the_example_work_in_its_directory(tmp_path):
    """The directory of the run must not be one of the example's own."""
    place = tmp_path / "experiment"
    shutil.copytree(ROOT / "examples" / "experiment", place)
    text = (place / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (.+)$", text, re.MULTILINE)
    assert len(commands) == 3
    zygote = Zygote()
    program = Program(place, zygote)
    for command in commands:
        if command.startswith("holdfast "):
            program(*command.split()[1:], code=0)
        else:
            subprocess.run(command.split(), cwd=place, check=True, capture_output=True)
    zygote.end()
