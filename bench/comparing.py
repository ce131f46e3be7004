"""code: the comparison of a task's code and values on resume, imports excluded; also beside a table of 100 MB."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

from bench.measure import ROUNDS, Figure, Setting, Target

_TARGET = Target("value", "at most", 0.05)
_FUNCTION = '''
def step_{n}(text, limit={n}):
    """Does one thing."""
    words = [word.strip() for word in text.split() if len(word) > limit]
    if not words and SETTINGS["strict"]:
        raise ValueError(f"nothing left of {{text!r}} in step {n}")
    joined = " ".join(words) + CONSTANT_{n}
    return helper_{side}.fold(joined, {n})

CONSTANT_{n} = "constant {n}"
'''
_HEAD = """
import dataclasses, json, re
import helper_a, helper_b
from holdfast import Sample, Task, scorer, task

SETTINGS = {"strict": True, "words": ["a", "b", "c"], "depth": {"x": 1, "y": [1, 2, 3]}}
PATTERN = re.compile("[a-z]+")

@dataclasses.dataclass
class Agent:
    style: str = "polite"
    depth: int = 3
    async def solve(self, trial):
        text = self.style + str(len(TABLE))
        CALLS
        return (await trial.generate(text)).text

@scorer
def judged(answer, sample):
    return PATTERN.match(answer.text) is not None

@task
def t():
    return Task(samples=[Sample("a", id="s1")], solver=Agent("kind").solve, scorers=judged)

"""
_HELPER = "LIMITS = {name: number for number, name in enumerate('abcdefgh')}\n" + "".join(
    f"def part_{n}(text):\n    return text.replace('{n}', str(LIMITS['a'])) + 'x' * {n}\n" for n in range(20)
)
_FOLD = "def fold(text, number):\n    return " + " + ".join(f"part_{n}(text)" for n in range(20)) + "[number % 9:]\n"
_PROGRAM = """
import json, sys, time
from pathlib import Path
from holdfast.run.drift.code_changes import code_changes
from holdfast.tasks.source.values.code_tree import take_code
from holdfast.tasks.task_code import code_of
from holdfast.tasks.task_reference import load_use
made = load_use("tk.py:t", Path(sys.argv[1]))
before = time.process_time()
code = code_of(made, "00" * 16)
changes = code_changes(code.tree, code.tree)
print(json.dumps({"cpu": time.process_time() - before, "nodes": sum(map(len, code.tree.roots.values()))}))
"""


def measure(setting: Setting) -> list[Figure]:
    small = _project(setting.directory / "code-small", "TABLE = [1, 2, 3]\n")
    rows = 1_000 if setting.quick else 1_000_000
    large = _project(setting.directory / "code-large", f"TABLE = [str(n) + 'x' * 50 for n in range({rows})]\n")
    nested = _project(
        setting.directory / "code-nested",
        f"TABLE = [{{'q': 'x' * 500 + str(n), 'a': [n]}} for n in range({rows // 6})]\n",
    )
    mapped = _project(
        setting.directory / "code-mapped", f"TABLE = {{str(n): 'x' * 40 + str(n) for n in range({rows // 2})}}\n"
    )
    titles = {
        "a task of 300 lines with two helpers": small,
        "the same beside a table of 100 MB": large,
        "the same, a table of 100 MB of maps": nested,
        "the same, a map of 100 MB": mapped,
    }
    found = [(title, statistics.median(_cpu(place) for _ in range(ROUNDS))) for title, place in titles.items()]
    return [Figure("code", f"{title}, CPU", cpu, "s", None, _TARGET) for title, cpu in found]


def _project(directory: Path, table: str) -> Path:
    directory.mkdir()
    functions = "".join(_FUNCTION.format(n=n, side="ab"[n % 2]) for n in range(26))
    calls = "\n        ".join(f"text += step_{n}(text)" for n in range(26))
    (directory / "tk.py").write_text(_HEAD.replace("CALLS", calls) + table + functions)
    for name in ("helper_a", "helper_b"):
        (directory / f"{name}.py").write_text(_HELPER + _FOLD)
    return directory


def _cpu(directory: Path) -> float:
    command = [sys.executable, "-c", _PROGRAM, str(directory)]
    done = subprocess.run(command, capture_output=True, check=True)
    return float(json.loads(done.stdout)["cpu"])
