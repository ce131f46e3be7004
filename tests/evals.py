"""Evals to run through the command line: written as files, as a person would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_dataset(directory: Path, count: int, name: str = "rows.jsonl") -> Path:
    """Questions q1 to qN; the reply in capitals is right for all but every third."""
    rows = [
        {"id": f"s{number}", "question": f"q{number}", "answer": "no" if number % 3 == 0 else f"Q{number}"}
        for number in range(1, count + 1)
    ]
    path = directory / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def http_eval(directory: Path, base_url: str, count: int, *, task: dict[str, Any] | None = None, **keys: Any) -> Path:
    """An eval of a counting server; further keys go to the top of the file, `task` into the task."""
    write_dataset(directory, count)
    declared = {"dataset": "rows", "prompt": "{question}", "target": "{answer}", "scorers": ["exact"]}
    model = {"provider": "openai", "model": "counting", "base_url": base_url, **keys.pop("model", {})}
    data = {
        "name": "counted",
        "models": {"m": model},
        "datasets": {"rows": {"path": "rows.jsonl"}},
        "tasks": {"t": {**declared, **(task or {})}},
        **keys,
    }
    return write_eval(directory, data)


def fast_eval(directory: Path, server: Any, count: int, **runner: Any) -> Path:
    """An eval whose run is uploaded to its store several times a second."""
    return http_eval(directory, server.base_url, count, runner={"upload_interval": 0.2, **runner})


def python_eval(directory: Path, base_url: str, source: str, **keys: Any) -> Path:
    """An eval of a Python task called `t`, whose file holds `source`."""
    (directory / "task.py").write_text(source)
    model = {"provider": "openai", "model": "counting", "base_url": base_url}
    data = {"name": "python", "models": {"m": model}, "tasks": {"t": {"use": "task.py:t"}}, **keys}
    return write_eval(directory, data)


def write_eval(directory: Path, data: dict[str, Any], name: str = "eval.yaml") -> Path:
    """An eval file; JSON is YAML too."""
    path = directory / name
    path.write_text(json.dumps(data, indent=1))
    return path
