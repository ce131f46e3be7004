"""verbs: what a person waits for who looks at a small run: whole processes, from the start of Python to their end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from bench.evals import carry_out, echo_eval, write_dataset
from bench.measure import Figure, Setting, Target, cpu_of_child, median_of
from holdfast.spec import eval_text

_TRIALS = 20
_ROUNDS = 9
_TARGET = Target("value", "at most", 0.12)
_PROGRAM = "from holdfast.cli import main; main()"


def measure(setting: Setting) -> list[Figure]:
    root, eval_file = setting.directory / "small", setting.directory / "small.yaml"
    spec = echo_eval(write_dataset(setting.directory / "few.jsonl", _TRIALS), 4)
    carry_out(spec, root)
    eval_file.write_text(eval_text(spec), encoding="utf-8")
    calls = [["status", root], ["report", root], ["show", root], ["cat", root], ["verify", root]]
    calls.append(["diff", root, eval_file])
    sides = [_side(_PROGRAM, *words) for words in calls]
    *costs, floor = median_of(*sides, _side("import click"), rounds=_ROUNDS)
    what = f"of {_TRIALS} trials, CPU (floor: import click)"
    return [
        Figure("verbs", f"{words[0]} {what}", cost, "s", floor, _TARGET)
        for words, cost in zip(calls, costs, strict=True)
    ]


def _side(program: str, *words: str | Path) -> Callable[[], float]:
    """One call in a process of its own, which may keep compiled modules as it does for a user."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return lambda: cpu_of_child([sys.executable, "-c", program, *words], env=environment)
