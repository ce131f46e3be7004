"""Evals with an agent: a script in Python or shell that works on a small template."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import yaml

from holdfast.storage.leases.holder import start_ticks


def make_template(directory: Path, files: dict[str, str] | None = None) -> Path:
    place = directory / "template"
    for name, text in (files or {"main.py": "print('one')\n", "docs/a.txt": "a\n"}).items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


def make_repository(directory: Path) -> Path:
    place = make_template(directory)
    git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "one")
    return place


def git(place: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost", *arguments]
    return subprocess.run(command, cwd=place, check=True, capture_output=True, text=True).stdout.strip()


def agent_eval(directory: Path, script: str, *, samples: int = 1, name: str = "eval.yaml", **options) -> Path:
    """An eval whose agent is a script in Python; `options` are those of the task, its agent and its workspace."""
    (directory / "agent.py").write_text("import json, os, signal, sys, time\nfrom pathlib import Path\n" + script)
    rows = [{"id": f"s{number}", "word": f"w{number}", "target": "done"} for number in range(samples)]
    (directory / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    agent = {"command": [sys.executable, str(directory / "agent.py"), "{prompt_file}"], **options.pop("agent", {})}
    workspace = options.pop("workspace", {})
    if "path" not in workspace and "repo" not in workspace and (directory / "template").is_dir():
        workspace = {"path": "template", **workspace}
    task = {
        "dataset": "rows",
        "prompt": "Write {word}.",
        "agent": agent,
        "workspace": workspace,
        "scorers": options.pop("scorers", [{"includes": {}}]),
        **options.pop("task", {}),
    }
    eval_ = {
        "name": "agents",
        "models": {"m": {"provider": "command", "model": "tiny"}},
        "datasets": {"rows": {"path": "rows.jsonl"}},
        "tasks": {"t": task},
        **options,
    }
    (directory / name).write_text(yaml.safe_dump(eval_))
    return directory / name


def processes_below(directory: Path) -> list[int]:
    """The processes whose working directory is below this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            inside = str((path / "cwd").readlink())
        except OSError:
            continue
        if inside.removesuffix(" (deleted)").startswith(f"{directory}/") and start_ticks(int(path.name)):
            found.append(int(path.name))
    return found


def left_in(run: Path) -> list[str]:
    """What is left of workspaces in a run."""
    place = run / "workspaces"
    return sorted(path.name for path in place.iterdir() if not path.name.startswith(".")) if place.is_dir() else []
