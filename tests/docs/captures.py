"""The captures in docs/terminal.md: made anew from a small eval, so that the page shows what the commands print.

`python tests/docs/captures.py` writes the page again. Every command after `$ ` in a block of the sections named here is
run, and what it prints follows it. Times, which differ, are written as one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "terminal.md"
SECTIONS = ("run", "resume after a kill", "status", "show", "show TRIAL", "report")
ROWS = [
    {"id": "fr", "country": "France", "capital": "Paris"},
    {"id": "jp", "country": "日本", "capital": "東京"},
    {"id": "pe", "country": "Peru", "capital": "Lima"},
    {"country": "the Kingdom of the Netherlands", "capital": "Amsterdam"},
]
TASK = '''"""A task in Python whose solver fails for one country."""

from holdfast import Sample, Task, includes, task


async def solve(trial):
    if trial.sample.id == "pe":
        raise ValueError("no map of Peru")
    return (await trial.generate(trial.sample.input)).text


@task
def rivers():
    samples = [
        Sample("A river in France?", target="Loire", id="fr"),
        Sample("A river in Peru?", target="Marañón", id="pe"),
    ]
    return Task(samples=samples, solver=solve, scorers=includes())
'''
REPLIES = {"capital of France": "Paris", "日本": "東京", "river in France": "The Loire is the longest river in France."}
EVAL = {
    "name": "geography",
    "concurrency_limit": 1,
    "models": {
        "small": {
            "provider": "scripted",
            "model": "table",
            "price": {"input": 0.15, "output": 0.6},
            "args": {
                "rules": [{"contains": text, "reply": reply} for text, reply in REPLIES.items()],
                "default": "I do not know.",
            },
        }
    },
    "datasets": {"capitals": {"path": "capitals.jsonl"}},
    "tasks": {
        "capitals": {
            "dataset": "capitals",
            "prompt": "What is the capital of {country}?",
            "target": "{capital}",
            "scorers": ["exact"],
        },
        "rivers": {"use": "task.py:rivers", "max_retries": 0},
    },
}
_TIMES = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "2026-11-17 11:32:12"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(?!:)"), "2026-11-17 11:32"),
    (re.compile(r"\d+\.\d\d s"), "0.01 s"),
    (re.compile(r"\d+s(?=  )"), "1s"),
    (re.compile(r"took \d+s"), "took 1s"),
    (re.compile(r"\bid [0-9a-f]{8}\b"), "id 19cbf775"),
)


def prepare(directory: Path) -> None:
    """Puts the eval into a directory, and runs of it: complete, killed, and killed and resumed with a failure."""
    (directory / "capitals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (directory / "task.py").write_text(TASK)
    (directory / "eval.yaml").write_text(json.dumps(EVAL))
    call(directory, "holdfast run eval.yaml --run-dir runs/first --set tasks.rivers.limit=1")
    call(directory, "HOLDFAST_CRASH_AT=frame.acknowledged:6 holdfast run eval.yaml --run-dir killed")
    call(directory, "HOLDFAST_CRASH_AT=frame.acknowledged:12 holdfast run eval.yaml --run-dir runs/geography")
    call(directory, "holdfast resume runs/geography --set concurrency_limit=2 --where 'sample!=nobody'")


def call(directory: Path, command: str) -> str:
    """What a command prints to standard output, without a terminal."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "XDG_CACHE_HOME": str(directory / ".cache"), "LC_ALL": "C.UTF-8"}
    environment.pop("COLUMNS", None)
    done = subprocess.run(
        ["bash", "-c", command], cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode == 127:
        raise SystemExit(f"{command}: not found. Call this script with the Python of the environment: .venv/bin/python")
    text = done.stdout.replace(f"{directory}/", "")
    for times, one in _TIMES:
        text = times.sub(one, text)
    return text


def rewritten(page: str, directory: Path) -> str:
    """The page with every block of our sections made anew."""
    parts = re.split(r"(?m)^(## .*)$", page)
    for place in range(1, len(parts), 2):
        if parts[place].removeprefix("## ").replace("`", "") in SECTIONS:
            parts[place + 1] = re.sub(
                r"(?ms)^```console\n(.*?)^```", lambda found: _block(found[1], directory), parts[place + 1]
            )
    return "".join(parts)


def _block(text: str, directory: Path) -> str:
    commands = [line for line in text.splitlines() if line.startswith("$ ")]
    shown = "".join(f"{line}\n{call(directory, line[2:])}" for line in commands)
    return f"```console\n{shown}```"


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        prepare(Path(place))
        PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), Path(place)), encoding="utf-8")


if __name__ == "__main__":
    main()
