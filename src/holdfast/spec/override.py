"""Changing single keys of an eval from the command line: `--set runner.concurrency_limit=8`, `--epochs 4`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.errors import UsageError
from holdfast.spec.canonical import plain
from holdfast.spec.eval import EvalSpec
from holdfast.spec.fields import places
from holdfast.spec.load import typed_eval


def override(spec: EvalSpec, changes: Mapping[str, Any]) -> EvalSpec:
    """The eval with each dotted path set to its value; a ConfigurationError names a path that does not exist."""
    data = plain(spec)
    for path, value in changes.items():
        for place in _places(spec, path):
            _put(data, place, value)
    return typed_eval(data, "the command line")


def _places(spec: EvalSpec, path: str) -> list[str]:
    """The path itself; a bare name that is no key of the top level, wherever it stands in a model or a task."""
    if "." in path or path in {place.path for place in places(EvalSpec) if "." not in place.path}:
        return [path]
    found = [place.path for place in places(EvalSpec) if place.path.endswith(f".{path}") and "[" not in place.path]
    named = {"models": list(spec.models), "tasks": list(spec.tasks), "datasets": list(spec.datasets)}
    return [
        place.replace("*", name, 1)
        for place in found
        for name in named.get(place.partition(".")[0], [""])
        if place.count("*") <= 1 and ".runner." not in place
    ] or [path]


def _put(data: dict[str, Any], path: str, value: Any) -> None:
    *blocks, key = path.split(".")
    for block in blocks:
        below = data.setdefault(block, {})
        if not isinstance(below, dict):
            raise UsageError(f"{path} cannot be set: {block} is no block.", hint="Write it as it stands in the file.")
        data = below
    data[key] = value
    # The same setting may stand one level deeper, where loading has put it.
    if isinstance(data.get("runner"), dict):
        data["runner"].pop(key, None)
