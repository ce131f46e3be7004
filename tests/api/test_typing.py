"""The public names are typed: a file that uses them in every supported way passes the strictest check."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
USE = Path(__file__).with_name("typing_use.py")


def checked(path: Path) -> subprocess.CompletedProcess[str]:
    cache = f"--cache-dir={ROOT / '.mypy_cache' / 'api'}"
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file=", cache, str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_public_names_can_be_used_under_strict_typing():
    """Not one error in a file that uses every name."""
    pytest.importorskip("mypy")
    done = checked(USE)
    assert done.returncode == 0, done.stdout


def test_a_wrong_use_is_found(tmp_path):
    """The types say something: wrong arguments and wrong results are errors."""
    pytest.importorskip("mypy")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from holdfast import Run, Sample, Task, Trial, evaluate, exact, generate\n"
        "Sample(5)\n"
        "exact(ignore_cases=True)\n"
        "evaluate(5, ['m'])\n"
        "async def solve(trial: Trial) -> int:\n"
        "    return await trial.generate('x')\n"
        "Run.open('x').report().no_such\n"
        "Task(samples=[Sample('x')], solver=generate())\n"
        "Task(samples=[Sample('x')], solver=generate(), scorers=exact(), score=exact())\n"
        "Task(samples=[Sample('x')], solver=generate(), scorers=exact(), epoch=2)\n"
    )
    done = checked(wrong)
    assert {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line} == {
        2,
        3,
        4,
        6,
        7,
        8,
        9,
        10,
    }
