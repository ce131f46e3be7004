"""Evals with judges, as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evals import write_dataset, write_eval


def scripted(reply: Any, model: str = "", **keys: Any) -> dict[str, Any]:
    """A model that always gives the same reply; what is not text is given as JSON."""
    text = reply if isinstance(reply, str) else json.dumps(reply)
    return {"provider": "scripted", "model": model or "s", "args": {"default": text}, **keys}


def graded(grade: str, why: str = "so") -> dict[str, str]:
    return {"explanation": why, "grade": grade}


def judged_eval(
    directory: Path, scorers: list[Any], *, count: int = 2, task: dict[str, Any] | None = None, **models: Any
) -> Path:
    """An eval of a model `m`, and judges under the names that are given."""
    write_dataset(directory, count)
    declared = {"dataset": "rows", "prompt": "{question}", "target": "{answer}", "scorers": scorers}
    data = {
        "name": "judged",
        "models": {"m": scripted("an answer", "under-test"), **models},
        "datasets": {"rows": {"path": "rows.jsonl"}},
        "tasks": {"t": {**declared, **(task or {})}},
    }
    return write_eval(directory, data)


def panel(*judges: str, **arguments: Any) -> dict[str, Any]:
    """A scorer called quality."""
    return {"model_graded": {"name": "quality", "models": list(judges), **arguments}}
