"""The examples run as they are: those that print something, and the evals."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_trade_off_of_lanes_is_printed():
    """More lanes make more calls for the same answers; what it prints of them does not depend on timing alone."""
    program = ROOT / "examples" / "sampling" / "tradeoff.py"
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, check=True)
    rows = [line.split() for line in done.stdout.splitlines()[1:5]]
    assert [row[0] for row in rows] == ["1", "2", "4", "8"]
    assert {row[1] for row in rows} == {"20"}
    calls = [int(row[3]) for row in rows]
    assert calls == sorted(calls) and calls[-1] > 2 * calls[0]


def test_the_demo_loses_nothing(tmp_path):
    """The first command of the README: killed half-way, resumed, counted; with the real model where it is installed."""
    program = ROOT / "examples" / "demo" / "demo.py"
    done = subprocess.run([sys.executable, program, tmp_path], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "trials were finished when the process was killed; 48 of 48 are now." in done.stdout


EXAMPLES = {
    "csv_exact": {("capitals", "small"): ("exact", "accuracy", 0.6)},
    "multiple_choice": {("quiz", "small"): ("choice", "accuracy", 0.5)},
    "multi_step": {("problems", "small"): ("numeric", "accuracy", 2 / 3)},
    "code_step": {("functions", "small"): ("passes", "mean", 0.375)},
    "tools_agent": {("questions", "small"): ("exact", "accuracy", 0.75)},
    "two_models": {("reviews", "small"): ("exact", "accuracy", 0.75), ("reviews", "large"): ("exact", "accuracy", 1.0)},
}
"""By directory, the score that each task and model gets."""


def holdfast(directory, *words):
    command = [sys.executable, "-m", "holdfast", *words]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copied(name, tmp_path):
    """An example in a directory of its own, so that nothing is written beside the original."""
    return Path(shutil.copytree(ROOT / "examples" / name, tmp_path / name))


def test_the_experiment_runs_as_it_is(tmp_path):
    """Experiments 1, 2, 4, 10, 19: 3 by 2 by 2 trials, each with its checks and its three judges, at one commit."""
    directory = copied("experiment", tmp_path)
    command = ["sh", "make_repository.sh"]
    made = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60, check=True)
    assert made.stdout.strip() in (directory / "eval.yaml").read_text(encoding="utf-8")
    assert "12 trials" in holdfast(directory, "run", "eval.yaml", "--dry-run")
    holdfast(directory, "run", "eval.yaml", "--run-dir", "r")
    report = json.loads(holdfast(directory, "report", "r", "--json"))
    found = report["tasks"]["fix"]["agent"]
    assert (report["complete"], found["coverage"]["planned"]) == (True, 12)
    values = {tier: one["scores"] for tier, one in found["by_axis"]["axes"]["tier"].items()}
    rates = {tier: [scores[name]["pass_rate"]["value"] for name in SHOWN] for tier, scores in values.items()}
    assert rates == {"T0": [0.5, 0.5, 0.0], "T1": [1.0, 1.0, 0.0], "T2": [1.0, 1.0, 1.0]}
    assert [path.name for path in (directory / "r" / "workspaces").iterdir()] == [".repositories"]


SHOWN = ("checks", "review", "review/strict")


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_as_it_is(name, tmp_path):
    """Without a key, to the end, with the scores that its script leads to."""
    directory = copied(name, tmp_path)
    holdfast(directory, "run", "eval.yaml", "--dry-run")
    holdfast(directory, "run", "eval.yaml", "--run-dir", "r")
    report = json.loads(holdfast(directory, "report", "r", "--json"))
    assert report["complete"]
    for (task, model), (scorer, metric, value) in EXAMPLES[name].items():
        found = report["tasks"][task][model]["metrics"][scorer][metric]["value"]
        assert found == pytest.approx(value), (task, model)


def test_the_prices_of_two_models_add_up(tmp_path):
    """The report has a cost for each of them, and the larger is the dearer."""
    directory = copied("two_models", tmp_path)
    holdfast(directory, "run", "eval.yaml", "--run-dir", "r")
    models = json.loads(holdfast(directory, "report", "r", "--json"))["tasks"]["reviews"]
    assert 0 < models["small"]["cost"] < models["large"]["cost"]


def test_an_eval_is_a_pytest_test(tmp_path):
    """It passes, finds its run complete the next time, and fails when the score is too low."""
    directory = copied("pytest_eval", tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_capitals.py"]
    environment = {**os.environ, "HOLDFAST_RUN": str(tmp_path / "kept")}
    for wanted, code in ((0.6, 0), (0.6, 0), (0.9, 1)):
        path = directory / "test_capitals.py"
        path.write_text(path.read_text(encoding="utf-8").replace(">= 0.6", f">= {wanted}"), encoding="utf-8")
        done = subprocess.run(
            command, cwd=directory, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
    assert "2 passed" in done.stdout and "1 failed" in done.stdout


def test_the_documented_command_needs_pytest_alone(tmp_path):
    """Options of this project's own tests, and plug-ins that they need, are no concern of the examples."""
    project = tmp_path / "pyproject.toml"
    project.write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"), encoding="utf-8")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    plain = ["-p", "no:timeout", "-p", "no:xdist", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *plain, "pytest_eval"]
    done = subprocess.run(command, cwd=tmp_path / "examples", capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout + done.stderr


def test_the_index_names_every_example():
    """Each directory has its line, and every line leads somewhere."""
    index = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", index)
    assert all((ROOT / "examples" / link).exists() for link in links)
    assert {link.partition("/")[0] for link in links} == {
        path.name for path in (ROOT / "examples").iterdir() if path.is_dir() and not path.name.startswith("_")
    }
